#!/usr/bin/env python3
"""Every error that the library throws, read from its headers: docs/errors.md.

    errors.py docs/errors.md            fails where the page differs from the headers
    errors.py docs/errors.md --update   writes the page
"""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include" / "pith"
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|::|->|&&|\|\||[<>=!]=|\d(?:\'?\w)*|\w+|\s+|.', re.S)

# Functions that throw what they are called with: the exception, how its words begin, and how many arguments come first.
INVALID = "std::invalid_argument"
THROWING = {
    "require": (INVALID, "pith::", 1),
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


def thrown(path):
    """Pairs of an exception and its words."""
    where = str(path.relative_to(INCLUDE))
    throwing = dict(THROWING, **({"fail": FAILING[where]} if where in FAILING else {}))
    words = tokens(path.read_text())
    for i, t in enumerate(words[:-1]):
        if t == "throw" and words[i + 1] != ";":
            opened = words.index("(", i)
            yield "".join(words[i + 1 : opened]), "".join(map(shown, arguments(words, opened)))
        elif t in throwing and words[i + 1] == "(" and words[i - 1] not in ("void", ".", ">"):
            kind, begin, first = throwing[t]
            yield kind, begin + "".join(map(shown, arguments(words, i + 1)[first:]))


def page():
    of_kind = {kind: [] for kind in HEADINGS}
    for path in sorted(INCLUDE.rglob("*.*pp")) + sorted(INCLUDE.rglob("*.cuh")):
        where = path.relative_to(INCLUDE)
        for kind, words in thrown(path):
            if not words.endswith(("{parts...}", ": ")) and not words.startswith("{"):
                of_kind[kind].append((str(where), words))
    lines = ["# Errors", "", "What the library throws, with {values} as the headers compute them. `tests/docs/errors.py docs/errors.md`",
             "compares this page with the headers; `--update` writes it.", ""]
    for kind, errors in of_kind.items():
        lines += [f"## `{kind}`: {HEADINGS[kind]}", "", "| header | error |", "|---|---|"]
        lines += [f"| `{where}` | {words.replace('|', chr(92) + '|')} |" for where, words in dict.fromkeys(errors)]
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
