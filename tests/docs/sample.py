#!/usr/bin/env python3
"""Prints random sentences of the pages and of the comments of include/, for a reader who counts those that are unclear.

    sample.py SEED [PAGES [COMMENTS]]    60 sentences of pages, then 40 of comments; equal seeds print equal samples

A reader of a page has read the heading, the paragraph up to a sentence and, of a list, the paragraph before it and the
previous item. A reader of a comment sees the header's first line, the class and the declaration. So these are printed
above each sentence.
"""
import pathlib
import random
import re
import sys

import prose

SHORTEST = 6  # words
ITEM = re.compile(r"- |\d+\. ")


def sentences(text, place, before=""):
    """Each sentence of a paragraph with its place and the text before it, which begins with `before`."""
    plain = re.sub(r"\s+", " ", text).strip(" -")
    parts = re.split(r"(?<=[.:])\s+(?=[A-Z`\[*])", plain)
    return [(place, " ".join([before, *parts[:i]]), s) for i, s in enumerate(parts) if len(s.split()) >= SHORTEST]


def of_page(path):
    """The sentences of a page, without headings, tables and code."""
    lines = path.read_text().splitlines()
    found, paragraph, heading = [], [], ""
    before_list = previous = ""

    def end():
        nonlocal before_list, previous
        text = " ".join(paragraph)
        is_item = ITEM.match(text)
        found.extend(sentences(text, f"{path.name}: {heading}", f"{before_list} {previous}" if is_item else ""))
        if text:
            before_list, previous = (before_list, text) if is_item else (text, "")
        paragraph.clear()

    for line, kind in zip(lines, prose.of_page(lines)):
        is_prose = kind != "|" and line.strip() and not line.lstrip().startswith(("#", "|"))
        if not is_prose or ITEM.match(line):
            end()
        if line.startswith("#"):
            heading = line.strip("# ")
        elif is_prose:
            paragraph.append(line)
    end()
    return found


def of_header(path):
    """The sentences of a header's /// comments, without contract blocks."""
    lines = path.read_text().splitlines()
    found, block, outer = [], [], ""
    for line in [*lines, ""]:
        comment = re.match(r"\s*///\s?(?!<)(.*)", line)
        if comment and not re.match(r"\s{2,}\w", comment[1]):
            block.append(comment[1])
        elif block and not comment and not line.lstrip().startswith("template"):
            found += sentences(" ".join(block), f"{lines[0].strip('/ ')}; {outer}{line.strip()}")
            block = []
        if re.match(r"(class|struct) .*\{$", line):
            outer = f"{line.strip(' {')}: "
    return found


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    seed, pages, comments = (int(n) for n in [*sys.argv[1:], 60, 40][:3])
    root = prose.ROOT
    texts = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    of_texts = [s for p in texts if p.name != "errors.md" for s in of_page(p)]
    headers = sorted(p for p in (root / "include").rglob("*") if p.suffix in (".hpp", ".cuh"))
    of_headers = [s for p in headers for s in of_header(p)]
    chosen = random.Random(seed)
    for number, (place, before, sentence) in enumerate(chosen.sample(of_texts, pages) + chosen.sample(of_headers, comments), 1):
        print(f"\n{number}. [{place}]\n   {before}\n   >> {sentence}")


if __name__ == "__main__":
    main()
