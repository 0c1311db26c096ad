#!/usr/bin/env python3
"""The sources that pages show, each between <!-- FILE --> and <!-- end -->.

    sources.py PAGE...            fails where a page differs from the files, or a method has more than 45 lines of code
    sources.py PAGE... --update   writes the sources into the pages

The methods are the files of examples/own.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"<!-- (\S+\.(?:[ch]pp|cu)) -->\n.*?<!-- end -->", re.S)
METHODS, AT_MOST = "examples/own/", 45


def shown(found):
    source = (ROOT / found[1]).read_text()
    return f"<!-- {found[1]} -->\n```cpp\n{source}```\n<!-- end -->"


def lines_of_code(source):
    return sum(1 for line in source.splitlines() if line.strip() and not line.lstrip().startswith("//"))


def check(path, page, made):
    files = [found[1] for found in SHOWN.finditer(page)]
    if page != made:
        sys.exit(f"{path} differs from the files: run tests/docs/sources.py {path} --update")
    methods = {file: lines_of_code((ROOT / file).read_text()) for file in files if file.startswith(METHODS)}
    long = [f"{file}: {lines} lines of code" for file, lines in methods.items() if lines > AT_MOST]
    if long or not files:
        sys.exit(f"{path} shows methods of at most {AT_MOST} lines of code, got " + (", ".join(long) or "no file"))


def main():
    for path in map(pathlib.Path, (a for a in sys.argv[1:] if a != "--update")):
        page = path.read_text()
        made = SHOWN.sub(shown, page)
        if "--update" in sys.argv:
            path.write_text(made)
        else:
            check(path, page, made)


if __name__ == "__main__":
    main()
