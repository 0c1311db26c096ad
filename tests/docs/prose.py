#!/usr/bin/env python3
"""Idioms that are no plain English, in pages, in comments and in the titles of tests.

    prose.py [PATH...]          lists idioms; fails where the pages, the comments, or the titles have more than 20
    prose.py --list [PATH...]   lists them and does not fail

Without paths it reads README.md, CONTRIBUTING.md and the folders of FOLDERS. Code, quotes in backticks, CHANGELOG.md, and the parts of
a page that a program writes (between <!-- name --> and <!-- end -->) are skipped.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
AT_MOST = 20
FOLDERS = ["docs", "include", "tests", "benchmarks", "examples"]

UNIT = "(?:bit|block|bucket|byte|call|column|copy|element|entry|group|hop|index|level|message|pair|rank|round|row|" \
       "scale|slice|step|symbol|tensor|thread|tile|value|vector|warp|word)(?!-)"
LINK = "(?:after|as|at|before|by|for|from|if|in|is|of|on|per|than|that|times|to|when|where|which|with|within)"
ENTITY = r"(?:it|they|this rank|ranks|all(?: \w+)?|others|(?:a|an|the|each|every|one) \w+)"
MOVED = "(?:decode|emit|encode|get|keep|receive|select|send)s?|kept|left|made|makes|picked|sent|wrote"
GONE = "added|cut|decoded|drawn|encoded|fed|gathered|kept|left|picked|received|selected|sent|summed|written"
RULES = {
    "per": [rf"(?<!in\s)(?:an?|one|two|three|four|[\d.^]*\d|many) (?!{LINK}\b)[a-z-]+ an? {UNIT}(?! (?:at a|is|has|sends)\b)\b",
            rf"(?:bits|bytes|calls|elements|instructions|means|messages|scales|symbols|times|words) an? {UNIT}"
            r"(?! (?!as\b|is\b|plus\b|less\b)(?:[a-z]+s|at|can|may|must|has)\b)\b"],
    "after, again, predicted": ["behind(?! the scenes)", "anew", "foretold", "meanwhile", "in front of"],
    "code does not speak": ["tells?", "told", "hears?", "heard", "asks?", "asked", "knows?", "believes?"],
    "name the thing": ["nobody", "no one", "(?:that|which|who) (?:is|are|was|were) none", "none of (?:them|it) is",
                       "nothing(?:,)? (?:if|of|where)", "if there (?:is|are|was) none"],
    "no noun of what": [rf"what (?:was|is|were|are|has been) (?:not )?(?:{GONE})", "what waits", "what comes",
                        rf"what {ENTITY} (?:{MOVED})", "what (?:reaches|travels|passes|arrived|still)"],
    "one fact": ["of which", "of whom", "of whose"],
}
TITLE_RULES = {
    "a subject first": ["^(?:after|also|among|and|as|at|before|between|but|by|for|from|has|if|in|is|neither|nor|not|of|on|only|so|to|until|"
                        "when|where|while|with|within|without)"],
    "name the thing": ["what", "who"],
}


def compiled(rules):
    return [(rule, re.compile(r"\b(?:" + "|".join(ways).replace(" ", r"\s+") + r")\b", re.I)) for rule, ways in rules.items()]


PATTERNS = compiled(RULES)
TITLE_PATTERNS = PATTERNS + compiled(TITLE_RULES)
TITLE = re.compile(r'TEST_CASE(?:_TEMPLATE)?\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//+<?(.*)')


def of_page(lines):
    """The lines of a page, with "|" in place of those that are no prose."""
    fenced = made = code = False
    before = ""
    for i, line in enumerate(lines):
        if line.startswith("<!--"):
            made = next((later for later in lines[i + 1 :] if later.startswith("<!--")), "") == "<!-- end -->"
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = line.startswith("    ") and (code or not before.strip())
        skipped = made or fenced or fence or code or not line.strip()
        yield "|" if skipped else re.sub("`[^`]*`", "`code`", line).replace("|", " | ")
        before = line


def of_source(lines):
    """The comments of a source, with "|" in place of lines without one."""
    for line in lines:
        comment = next((m[1] for m in COMMENT.finditer(line) if m[1] is not None), "|")
        yield re.sub("`[^`]*`", "`code`", comment) if comment.strip() else "|"


def titles(source):
    """The line and the words of each title of a test case."""
    for m in TITLE.finditer(source):
        yield source.count("\n", 0, m.start(1)) + 1, "".join(re.findall(r'"((?:\\.|[^"\\])*)"', m[1]))


def hits_in(text, first_line, patterns):
    for rule, pattern in patterns:
        for m in pattern.finditer(text):
            yield text.count("\n", 0, m.start()) + first_line, rule, " ".join(m[0].split())


def hits(path):
    """Triples of a kind of text, a line, and the idiom in it."""
    source = path.read_text()
    is_page = path.suffix == ".md"
    text = "\n".join((of_page if is_page else of_source)(source.splitlines()))
    for line, rule, words in sorted(hits_in(text, 1, PATTERNS)):
        yield "pages" if is_page else "comments", line, f"{rule}: {words}"
    for line, title in titles(source):
        for _, rule, words in hits_in(title, line, TITLE_PATTERNS):
            yield "titles", line, f"{rule}: {words}: {title}"


def files(paths):
    for path in map(pathlib.Path, paths):
        inside = sorted(p for p in path.rglob("*") if p.suffix in (".md", ".h", ".hpp", ".cuh", ".cpp", ".cu")) if path.is_dir() else [path]
        yield from (p for p in inside if p.name != "CHANGELOG.md")


def main():
    given = [a for a in sys.argv[1:] if a != "--list"]
    counts = {"pages": 0, "comments": 0, "titles": 0}
    for path in files(given or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / folder for folder in FOLDERS)]):
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for kind, line, found in hits(path):
            counts[kind] += 1
            print(f"{shown}:{line}: {found}")
    print(", ".join(f"{where}: {n}" for where, n in counts.items()))
    if "--list" not in sys.argv and max(counts.values()) > AT_MOST:
        sys.exit(f"more than {AT_MOST}: see the rules in CONTRIBUTING.md")


if __name__ == "__main__":
    main()
