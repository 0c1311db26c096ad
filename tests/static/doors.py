#!/usr/bin/env python3
"""What a path says of a header: doors.py EXAMPLES INCLUDE

  - folders include each other in one direction: no cycle between folders of include/pith;
  - a header whose every name is in a namespace detail is in a folder detail/;
  - examples include no header of a folder detail/ and name no namespace detail.
"""
import collections
import pathlib
import re
import sys

DETAIL = re.compile(r"namespace\s+(?:pith::inline v0::)?(?:wire::)?detail\s*\{")


def without_comments(source):
    source = re.sub(r"//[^\n]*", "", source)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", source, flags=re.M)


def end_of_block(text, at):
    """Returns the index after the brace that closes the block that starts at text[at]."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def is_wholly_detail(source):
    text, at, has_detail = without_comments(source), 0, False
    rest = ""
    while found := DETAIL.search(text, at):
        rest += text[at:found.start()]
        at = end_of_block(text, found.end())
        has_detail = True
    rest += text[at:]
    return has_detail and not re.sub(r"namespace [\w: ]+\{|\}", "", rest).strip()


def includes(source):
    return re.findall(r"#include <(pith/[^>]+)>", source)


def folder(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


def cycle(graph):
    """The folders of a cycle, or none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return None
        path.append(node)
        for following in sorted(graph[node]):
            if found := visit(following):
                return found
        path.pop()
        done.add(node)
        return None

    return next((found for node in sorted(graph) if (found := visit(node))), None)


def errors_of_headers(headers):
    graph = collections.defaultdict(set)
    for path, source in headers.items():
        for other in includes(source):
            if folder(path) and folder(other) and folder(path) != folder(other):
                graph[folder(path)].add(folder(other))
        if "/detail/" not in path and is_wholly_detail(source):
            yield f"{path} has nothing but details: move it to {folder(path)}/detail/"
    if found := cycle(collections.defaultdict(set, graph)):
        yield "folders include each other in a cycle: " + " -> ".join(found + found[:1])


def errors_of_examples(root):
    for path in sorted(root.rglob("*.?pp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bdetail::|/detail/", line):
                yield f"{path}:{number} names a detail: {line.strip()}"


def main():
    examples, include = map(pathlib.Path, sys.argv[1:])
    headers = {str(p.relative_to(include)): p.read_text() for p in sorted(include.rglob("*.?pp")) + sorted(include.rglob("*.cuh"))}
    errors = list(errors_of_headers(headers)) + list(errors_of_examples(examples))
    print("\n".join(errors) or f"{len(headers)} headers: no cycle between folders, every detail in its folder")
    return 1 if errors or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
