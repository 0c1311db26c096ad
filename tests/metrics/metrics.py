#!/usr/bin/env python3
"""Counts that show how simple the library is: metrics.py [METHOD...]

  - the code lines and the comment lines of include/;
  - the public concepts;
  - the call frames from all_reduce_mean, the function and that of an exchange, to the first addition, by gdb in a build
    with -O0;
  - for each METHOD, the files that name it, but for pages, committed results and benchmarks.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted(p for p in (ROOT / "include").rglob("*") if p.suffix in (".hpp", ".cuh"))
SIZES = (1000, 10_000, 1_000_000)
ADDITION = "pith::v0::ext::residual_source<float, float>::load"


def lines():
    code = comments = 0
    for header in HEADERS:
        for line in header.read_text().splitlines():
            if line.strip().startswith("//"):
                comments += 1
            elif line.strip():
                code += 1
    return code, comments


def concepts():
    """The concepts outside of namespaces and folders detail."""
    found = []
    for header in HEADERS:
        spaces = []
        for line in header.read_text().splitlines() if "detail" not in header.parts else ():
            if opened := re.match(r"namespace ([\w: ]+?) \{", line):
                spaces.append(opened[1])
            elif spaces and re.match(r"\}\s*// namespace", line):
                spaces.pop()
            elif (named := re.match(r"\s*concept (\w+)", line)) and not any("detail" in s for s in spaces):
                found.append(named[1])
    return found


def frames():
    """The frames of load(), which adds gradient and residual, up to the user's call."""
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/frames"
        subprocess.run(["g++", "-std=c++20", "-O0", "-g", "-I", ROOT / "include", "-o", program,
                        ROOT / "tests/metrics/frames.cpp"], check=True)
        return [(call, n, frames_of(program, call, n)) for call in ("function", "exchange") for n in SIZES]


def frames_of(program, call, n):
    shown = subprocess.run(["gdb", "-batch", "-ex", f"rbreak ^{ADDITION}", "-ex", f"run {call} {n}", "-ex", "backtrace", program],
                           check=True, capture_output=True, text=True).stdout
    calls = [line for line in shown.splitlines() if re.match(r"#\d+ ", line)]
    loads = [i for i, line in enumerate(calls) if ADDITION in line.split(" (")[0]]
    return next(i for i, line in enumerate(calls) if f" (anonymous namespace)::call_{call}" in line) - loads[-1]


def files_of(method):
    named = subprocess.run(["git", "grep", "-lwFe", method, "--", "include", "tests", "examples"], cwd=ROOT,
                           capture_output=True, text=True).stdout.split()
    return [f for f in named if not f.startswith(("tests/data/", "tests/metrics/"))]


def main(methods):
    code, comments = lines()
    print(f"include/: {code} lines of code, {comments} lines of comments")
    public = concepts()
    print(f"public concepts: {len(public)}: {' '.join(public)}")
    for call, n, count in frames():
        print(f"frames from all_reduce_mean ({call}) of {n} elements to the first addition: {count}")
    for method in methods:
        files = files_of(method)
        print(f"{method}: {len(files)} files: {' '.join(files)}")


main(sys.argv[1:])
