#!/usr/bin/env python3
"""What a path says of a header: doors.py DESIGN EXAMPLES INCLUDE

  - folders include each other in one direction: no cycle between folders of include/pith;
  - the table of folders in DESIGN, docs/design.md, names the folders that a folder includes;
  - a header whose every name is in a namespace detail is in a folder detail/;
  - a header that opens a namespace of pith opens its inline namespace PITH_ABI, except around error types, and includes
    pith/config.hpp, which defines this macro;
  - examples include no header of a folder detail/ and name no namespace detail.
"""
import collections
import pathlib
import re
import sys

DETAIL = re.compile(r"namespace\s+(?:wire::)?detail\s*\{")


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
    return has_detail and not re.sub(r"(inline )?namespace [\w: ]+\{|\}", "", rest).strip()


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


def folders_included(headers, source):
    """The folders of the included headers, also through headers outside folders."""
    found = set()
    for other in includes(source):
        found |= {folder(other)} if folder(other) else folders_included(headers, headers[other])
    return found


def graph_of(headers):
    """The folders that each folder includes."""
    graph = collections.defaultdict(set)
    for path, source in headers.items():
        if folder(path):
            graph[folder(path)] |= folders_included(headers, source) - {folder(path)}
    return graph


def reached(graph, nodes):
    """The nodes and all that they include."""
    nodes = set(nodes)
    return nodes.union(*(reached(graph, graph[n]) for n in nodes))


def errors_of_table(graph, page):
    """A row names its folders, what they contain, and what they include; "methods" are the folders of one row."""
    rows = [[re.findall(r"`(\w+)/?`", row[1]), row[3]] for line in page.splitlines()
            if len(row := line.split("|")) == 5 and re.match(r" `\w+/`", row[1])]
    methods = next((folders for folders, _ in rows if len(folders) > 1), [])
    for folders, words in rows:
        named = re.findall(r"`(\w+)`", words)
        general = methods if "methods" in words else folders if "these folders" in words else []
        included = set().union(*(graph[f] for f in folders)) - set(folders)
        for wrong in sorted(set(named) - included):
            yield f"docs/design.md: {folders[0]}/ does not include {wrong}"
        for missing in sorted(included - reached(graph, named + general)):
            yield f"docs/design.md: {folders[0]}/ includes {missing}, which its row does not name"
    for missing in sorted(set(graph) - {f for folders, _ in rows for f in folders}):
        yield f"docs/design.md has no row for {missing}/"


def sees_config(headers, path):
    """Whether the header includes pith/config.hpp, also through other headers."""
    return path == "pith/config.hpp" or any(sees_config(headers, other) for other in includes(headers[path]))


def errors_of_namespace(headers, path):
    """The linker would merge functions of source files with different flags without PITH_ABI in their names."""
    text = without_comments(headers[path])
    if not re.search(r"namespace pith\b", text):
        return
    others = re.sub(r"namespace pith \{ inline namespace v0 \{(\s*struct \w+ : std::runtime_error \{[^}]*\};)+\s*\}\}", "", text)
    if re.search(r"namespace pith\b(?! \{ inline namespace PITH_ABI\b)", others):
        yield f"{path} opens a namespace that lacks the flags: open its inline namespace PITH_ABI"
    if not sees_config(headers, path):
        yield f"{path} does not include pith/config.hpp, which defines PITH_ABI"


def errors_of_headers(headers, page):
    graph = graph_of(headers)
    for path, source in headers.items():
        yield from errors_of_namespace(headers, path)
        if "/detail/" not in path and is_wholly_detail(source):
            yield f"{path} has nothing but details: move it to {folder(path)}/detail/"
    if found := cycle(graph):
        yield "folders include each other in a cycle: " + " -> ".join(found + found[:1])
    else:
        yield from errors_of_table(graph, page)


def errors_of_examples(root):
    for path in sorted(root.rglob("*.?pp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bdetail::|/detail/", line):
                yield f"{path}:{number} names a detail: {line.strip()}"


def main():
    design, examples, include = map(pathlib.Path, sys.argv[1:])
    headers = {str(p.relative_to(include)): p.read_text() for p in sorted(include.rglob("*.?pp")) + sorted(include.rglob("*.h")) + sorted(include.rglob("*.cuh"))}
    errors = list(errors_of_headers(headers, design.read_text())) + list(errors_of_examples(examples))
    print("\n".join(errors) or f"{len(headers)} headers: no cycle between folders, every detail in its folder")
    return 1 if errors or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
