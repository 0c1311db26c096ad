#!/usr/bin/env python3
"""Every error that the library throws, read from its headers: docs/errors.md.

    tests/docs/errors.py docs/errors.md            fails where the page differs from the headers
    tests/docs/errors.py docs/errors.md --update   writes the page

In place of a value that a header computes, the page has a word in italics (WORDS) or, for a number, a letter.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE, RUNTIME = ROOT / "include/pith", ROOT / "cmake/runtime"
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|::|->|&&|\|\||[<>=!]=|\d(?:\'?\w)*|\w+|\s+|.', re.S)

# Functions that throw what they are called with: the exception, how its words begin, and how many arguments come first.
INVALID = "std::invalid_argument"
THROWING = {
    "require": (INVALID, "pith::", 1),
    "require_argument": (INVALID, "*function*: ", 2),
    "require_wire": ("wire_error", "pith::wire::", 1),
}
FAILING = {"comm/threads.hpp": ("communication_error", "pith::thread_communicator: ", 0), "comm/detail/mpi_request.hpp": ("communication_error", "", 0)}

HEADINGS = {
    INVALID: "an argument, a text, a state, or a call at the wrong time: nothing has changed",
    "workspace_exhausted": "a workspace that is too small: nothing has changed",
    "wire_error": "bytes that are not the frame that is expected: nothing was written",
    "agreement_error": "ranks that exchange different things: thrown on all of them",
    "communication_error": "a transport that failed, or a rank that is gone",
    "cuda_error": "a call of CUDA or cuBLAS that failed",
    "std::runtime_error": "a computation that does not end",
    "std::logic_error": "a codec that contradicts itself",
}

# The word in place of a value: of the first pattern that is found in "header: expression". All other values are numbers.
WORDS = [
    (r"advice_for|or_else|any_chain\.hpp: kind == ", ": *advice*"),
    (r"compress\.hpp: unit", " elements"),
    (r"empty\(\) \? \"no further line\"", "*line*"),
    (r"proposal\(", ": *proposal*."),
    (r"listed\(", "*list*"),
    (r"are_flat_", "*stay or not become*"),
    (r"pith_version", "*version*"),
    (r"least == most", " to *more*"),
    (r"most == 1 \?", " arguments"),
    (r"syntax\.hpp: others", ""),
    (r"syntax\.hpp: beyond", ""),
    (r"syntax\.hpp: (at_<|arguments|word|digits|angle|text_?$)|t\.text|parser\.hpp: t\.arguments", "*text*"),
    (r"syntax\.hpp: (expected|list|what)", "*word*"),
    (r"gone_or_stuck", "*the ranks* are gone or stuck"),
    (r"(cudaGet|cublasGet|ncclGet)\w+|mpi_request\.hpp: text", "*the library's message*"),
    (r"describe\(|failure\.words", "*reason*"),
    (r"agreement\.hpp: failed", "*failure*"),
    (r"agreement::names|check_interval", "*property*"),
    (r"words\(\)$", "*value*"),
    (r"controller_\.name", "*controller*"),
    (r"policy_\.name", "*policy*"),
    (r"gather_name", "*mode*"),
    (r"isa_name", "*instruction set*"),
    (r"phase\)\]", "*phase*"),
    (r"field_kinds|rank_states\.hpp: kind", "*kind*"),
    (r"element_name|name_of|form\.element", "*type*"),
    (r"tensors?(\(\))?(\[.*\])?\.name|state_check\.hpp: tensor|field\.tensor|p\.tensor", "*tensor*"),
    (r"printable\(\{", "*bytes*"),
    (r"[ .]name\(\)$|: (codec|method)$|printable\(h\.codec|frame\.hpp: name", "*codec*"),
    (r": (call|verb|who(se)?_?|name_|memory\.call|collective|size_function|name\(\w\)|shown\(.*call)$", "*function*"),
    (r"nccl\.hpp: what|threads\.hpp: other", "*function*"),
    (r": (communicator|exchange)$", r"*\g<1>*"),
    (r": (argument|what)$", "*argument*"),
    (r": (line|form|line\..*)$", "*line*"),
    (r"syntax\.hpp: name|stages\.hpp: t\.name|: name$", "*name*"),
]


def tokens(source):
    return [t for t in TOKEN.findall(source) if not t.isspace() and not t.startswith("//")]


def arguments(words, at):
    """The arguments of the call whose parenthesis opens at words[at], each a list of tokens."""
    depth, parts = 0, [[]]
    for t in words[at:]:
        depth += (t in "([{") - (t in ")]}")
        if depth == 0:
            return [part for part in parts if part]
        if depth == 1 and t == ",":
            parts.append([])
        elif parts != [[]] or t != "(":
            parts[-1].append(t)
    raise ValueError("a call does not end")


def shown(part):
    """Words as they are, and a value as {what computes it}."""
    if all(t.startswith('"') for t in part):
        return "".join(t[1:-1] for t in part).replace('\\"', '"')
    call = next((i for i, t in enumerate(part) if t in ("sentence", "text")), None)
    if call is not None and part[call + 1 : call + 2] == ["("] and "?" not in part[:call]:
        return ("pith::" if part[call] == "sentence" else "") + "".join(map(shown, arguments(part, call + 1)))
    spaced = "".join(f" {t} " if t in ("?", ":", "==", "+", "-", "*", "/", "&&") else t for t in part)
    return "{" + re.sub(r"\b(detail|std)::", "", spaced) + "}"


def name_of(path):
    return str(path.relative_to(INCLUDE if path.is_relative_to(INCLUDE) else ROOT))


def thrown(path):
    """Pairs of an exception and its words."""
    where = name_of(path)
    throwing = dict(THROWING, **({"fail": FAILING[where]} if where in FAILING else {}))
    words = tokens(path.read_text())
    for i, t in enumerate(words[:-1]):
        if t == "throw" and words[i + 1] != ";":
            opened = words.index("(", i)
            yield "".join(words[i + 1 : opened]), "".join(map(shown, arguments(words, opened)))
        elif t in throwing and words[i + 1] == "(" and words[i - 1] not in ("void", ".", ">"):
            kind, begin, first = throwing[t]
            yield kind, begin + "".join(map(shown, arguments(words, i + 1)[first:]))


def braced(words):
    """Literal words and values {...}, in turn."""
    depth, parts = 0, [""]
    for letter in words:
        depth -= letter == "}"
        if letter in "{}" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
        depth += letter == "{"
    return parts


def readable(where, words):
    """The message as people read it: a word or a letter in place of each value, the same one for equal values."""
    parts, letters = braced(words), {}
    for i in range(1, len(parts), 2):
        value = f"{where}: {parts[i]}"
        known = next((found.expand(word) for pattern, word in WORDS if (found := re.search(pattern, value))), None)
        parts[i] = letters.setdefault(parts[i], "NMKLIJPQRS"[len(letters)]) if known is None else known
    return "".join(parts).replace("<", "\\<").replace("|", "\\|")


def page():
    of_kind = {kind: [] for kind in HEADINGS}
    for path in sorted(INCLUDE.rglob("*.hpp")) + sorted(INCLUDE.rglob("*.cuh")) + sorted(RUNTIME.glob("*.?pp")):
        where = name_of(path)
        for kind, words in thrown(path):
            if words and not words.endswith(("{parts...}", ": ")) and not words.startswith("{"):
                of_kind[kind].append((where, readable(where, words)))
    lines = ["# Errors", "", "Every error that the library throws. A word in *italics* or a capital letter stands for a value.",
             "`tests/docs/errors.py docs/errors.md --update` writes this page from the headers.", ""]
    for kind, errors in of_kind.items():
        lines += [f"## `{kind}`: {HEADINGS[kind]}", "", "| header | error |", "|---|---|"]
        lines += [f"| `{where}` | {words} |" for where, words in dict.fromkeys(errors)]
        lines += [""]
    return "\n".join(lines)


def main():
    path, made = pathlib.Path(sys.argv[1]), page()
    if sys.argv[2:] == ["--update"]:
        path.write_text(made)
    elif path.read_text() != made:
        sys.exit("docs/errors.md differs from the headers: run tests/docs/errors.py docs/errors.md --update")


if __name__ == "__main__":
    main()
