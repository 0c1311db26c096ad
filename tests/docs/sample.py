#!/usr/bin/env python3
"""Prints random sentences of the pages and of the comments of include/, for a reader who counts those that are unclear.

    sample.py SEED [PAGES [COMMENTS]]    60 sentences of pages, then 40 of comments; equal seeds print equal samples
"""
import pathlib
import random
import re
import sys

import prose

SHORTEST = 6  # words


def sentences(text):
    plain = re.sub(r"\s+", " ", text).strip(" -")
    return [s for s in re.split(r"(?<=[.:])\s+(?=[A-Z`\[*])", plain) if len(s.split()) >= SHORTEST]


def of_page(path):
    """The sentences of a page, without headings, tables and code."""
    lines = path.read_text().splitlines()
    kept = ["" if kind == "|" or line.lstrip().startswith(("#", "|")) else line
            for line, kind in zip(lines, prose.of_page(lines))]
    return [s for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", "\n".join(kept)) for s in sentences(paragraph)]


def of_header(path):
    """The sentences of a header's /// comments, without contract blocks."""
    found, block = [], []
    for line in [*path.read_text().splitlines(), ""]:
        comment = re.match(r"\s*///\s?(?!<)(.*)", line)
        if comment and not re.match(r"\s{2,}\w", comment[1]):
            block.append(comment[1])
        elif block:
            found += sentences(" ".join(block))
            block = []
    return found


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    seed, pages, comments = (int(n) for n in [*sys.argv[1:], 60, 40][:3])
    root = prose.ROOT
    texts = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    of_texts = [(p.name, s) for p in texts if p.name != "errors.md" for s in of_page(p)]
    headers = sorted(p for p in (root / "include").rglob("*") if p.suffix in (".hpp", ".cuh"))
    of_headers = [(str(p.relative_to(root / "include")), s) for p in headers for s in of_header(p)]
    chosen = random.Random(seed)
    for number, (name, sentence) in enumerate(chosen.sample(of_texts, pages) + chosen.sample(of_headers, comments), 1):
        print(f"{number}. [{name}] {sentence}")


if __name__ == "__main__":
    main()
