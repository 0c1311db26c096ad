#!/usr/bin/env python3
"""The sources that a page shows, each between <!-- FILE --> and <!-- end -->.

    sources.py docs/extending.md            fails where the page differs from the files, or a file has more than 45 lines of code
    sources.py docs/extending.md --update   writes the sources into the page
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"<!-- (\S+\.[ch]pp) -->\n.*?<!-- end -->", re.S)
AT_MOST = 45


def shown(found):
    source = (ROOT / found[1]).read_text()
    return f"<!-- {found[1]} -->\n```cpp\n{source}```\n<!-- end -->"


def lines_of_code(source):
    return sum(1 for line in source.splitlines() if line.strip() and not line.lstrip().startswith("//"))


def main():
    path = pathlib.Path(sys.argv[1])
    page = path.read_text()
    files = [found[1] for found in SHOWN.finditer(page)]
    made = SHOWN.sub(shown, page)
    if sys.argv[2:] == ["--update"]:
        path.write_text(made)
    elif page != made:
        sys.exit(f"{path} differs from the files: run tests/docs/sources.py {path} --update")
    long = [f"{file}: {lines} lines of code" for file in files if (lines := lines_of_code((ROOT / file).read_text())) > AT_MOST]
    if long or not files:
        sys.exit(f"{path} shows files of at most {AT_MOST} lines of code, got " + (", ".join(long) or "no file"))


if __name__ == "__main__":
    main()
