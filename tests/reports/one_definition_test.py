#!/usr/bin/env python3
"""Source files with different flags define different functions: one_definition_test.py COMPILER INCLUDE

If two object files define an inline function, the linker keeps one of the definitions. With different flags, this
definition may have instructions that the CPU lacks (uxlfoundation/oneDAL#704), or may take NaN for a finite number. So
this test compiles one_definition.cpp with different flags, and looks for functions of pith that two object files
define. Only error types may be common, because one file throws and another file catches them. With PITH_RUNTIME, the
functions that a file takes from pith::runtime must be the same for all flags.
"""
import itertools
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

FLAGS = ["", "-msse4.2", "-mavx", "-mavx2", "-march=x86-64-v3", "-mavx512f", "-march=x86-64-v4",
         "-ffast-math -DPITH_ALLOW_FAST_MATH", "-march=x86-64-v3 -ffast-math -DPITH_ALLOW_FAST_MATH"]
ERROR = re.compile(r"pith::v0::\w+(_error|_exhausted)(::|$)")


def symbols(compiler, include, flags, directory):
    """Returns the names that an object file defines, and the names that it needs."""
    source = pathlib.Path(__file__).parent / "one_definition.cpp"
    made = pathlib.Path(directory) / "unit.o"
    command = [*compiler.split(), "-std=c++20", f"-I{include}", *flags.split(), "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    lines = subprocess.run(["nm", "-C", str(made)], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [re.fullmatch(r"[0-9a-f ]{16} (\w) (.+)", line).groups() for line in lines if "pith::" in line]
    rows = [row for row in rows if not ERROR.search(row[1])]
    return {name for kind, name in rows if kind not in "Utr"}, {name for kind, name in rows if kind == "U"}


def errors(compiler, include, directory):
    made = {flags: symbols(compiler, include, flags, directory)[0] for flags in FLAGS}
    for (a, mine), (b, theirs) in itertools.combinations(made.items(), 2):
        if common := mine & theirs:
            yield f"\"{a}\" and \"{b}\" define {len(common)} functions of one name, such as {min(common)}"
    for flags, names in made.items():
        if len(names) < 100:
            yield f"\"{flags}\": only {len(names)} functions"
    needs = [symbols(compiler, include, f"-DPITH_RUNTIME {flags}", directory)[1] for flags in FLAGS[:7]]
    if not needs[0] or any(needed != needs[0] for needed in needs):
        yield "functions of pith::runtime have other names with other flags"


def main():
    if platform.machine() != "x86_64":
        print("skipped: not an x86-64 CPU")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        found = list(errors(*sys.argv[1:], directory))
    print("\n".join(found) or f"{len(FLAGS)} sets of flags have no function in common")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
