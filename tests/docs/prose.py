#!/usr/bin/env python3
"""Idioms that are no plain English, in the documentation and in the comments of include/.

    prose.py [PATH...]          lists idioms; fails where the pages, or the comments, have more than 20
    prose.py --list [PATH...]   lists them and does not fail

Without paths it reads README.md, CONTRIBUTING.md, docs/*.md and include/. Code, quotes in backticks, CHANGELOG.md, and the parts of
a page that a program writes (between <!-- name --> and <!-- end -->) are skipped.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
AT_MOST = 20

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
PATTERNS = [(rule, re.compile(r"\b(?:" + "|".join(ways).replace(" ", r"\s+") + r")\b", re.I)) for rule, ways in RULES.items()]
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


def hits(path):
    lines = path.read_text().splitlines()
    text = "\n".join((of_page if path.suffix == ".md" else of_source)(lines))
    found = [(rule, m) for rule, pattern in PATTERNS for m in pattern.finditer(text)]
    return sorted((text.count("\n", 0, m.start()) + 1, rule, " ".join(m[0].split())) for rule, m in found)


def files(paths):
    for path in map(pathlib.Path, paths):
        inside = sorted(p for p in path.rglob("*") if p.suffix in (".md", ".h", ".hpp", ".cuh", ".cpp", ".cu")) if path.is_dir() else [path]
        yield from (p for p in inside if p.name != "CHANGELOG.md")


def main():
    given = [a for a in sys.argv[1:] if a != "--list"]
    counts = {"pages": 0, "comments": 0}
    for path in files(given or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs", ROOT / "include"]):
        for line, rule, words in hits(path):
            counts["pages" if path.suffix == ".md" else "comments"] += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{line}: {rule}: {words}")
    print(", ".join(f"{where}: {n}" for where, n in counts.items()))
    if "--list" not in sys.argv and max(counts.values()) > AT_MOST:
        sys.exit(f"more than {AT_MOST}: see the rules in CONTRIBUTING.md")


if __name__ == "__main__":
    main()
