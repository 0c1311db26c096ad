#!/usr/bin/env python3
"""Compares the installed files with the lists in the recipes of vcpkg and Spack, which no test runs, and with the version.

    files.py PREFIX      PREFIX is what cmake --install has filled
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "cmake/packages"
PORT, SPACK = RECIPES / "vcpkg/pith/portfile.cmake", RECIPES / "spack_repo/pith/packages/pith/package.py"


def between(path, begin, end):
    text = path.read_text()
    return text.split(begin)[1].split(end)[0]


def check(what, expected, got):
    if sorted(expected) != sorted(got):
        sys.exit(f"{what}: expected {sorted(expected)}, got {sorted(got)}")


def main():
    prefix = pathlib.Path(sys.argv[1])
    installed = [str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file()]
    headers = [str(p.relative_to(ROOT)) for p in (ROOT / "include").rglob("*") if p.is_file()]
    others = [file for file in installed if not file.startswith("include/")]
    check("the installation of include/", headers, [file for file in installed if file.startswith("include/")])
    check(PORT, [pathlib.Path(file).name for file in others], between(PORT, "set(installed_files", ")").split())
    check(SPACK, others, re.findall('"(.*?)"', between(SPACK, "sanity_check_is_file = [", "]")))

    numbers = re.findall(r"#define PITH_VERSION_\w+ (\d+)", (ROOT / "include/pith/version.hpp").read_text())
    for path in [RECIPES / "cpm.cmake", RECIPES / "conan/conanfile.py", RECIPES / "vcpkg/pith/vcpkg.json", SPACK]:
        if ".".join(numbers) not in path.read_text():
            sys.exit(f"{path}: expected version {'.'.join(numbers)}")


if __name__ == "__main__":
    main()
