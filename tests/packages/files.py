#!/usr/bin/env python3
"""Compares the installed files with the lists in the recipes of vcpkg and Spack, which no test runs, and with the version.

    files.py PREFIX      PREFIX is what cmake --install has filled
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "cmake/packages"
RUNTIME = pathlib.PurePath("share/cmake/pith/runtime")
PORT, SPACK = RECIPES / "vcpkg/pith/portfile.cmake", RECIPES / "spack_repo/pith/packages/pith/package.py"


def between(path, begin, end):
    text = path.read_text()
    return text.split(begin)[1].split(end)[0]


def check(what, expected, got):
    if sorted(expected) != sorted(got):
        sys.exit(f"{what}: expected {sorted(expected)}, got {sorted(got)}")


def files_in(folder):
    return [str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*") if p.is_file()]


def main():
    prefix = pathlib.Path(sys.argv[1])
    installed = [str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file()]
    check("the installation of include/", files_in("include"), [file for file in installed if file.startswith("include/")])
    sources = [str(RUNTIME / pathlib.Path(file).name) for file in files_in("cmake/runtime")]
    check("the installation of cmake/runtime/", sources, [file for file in installed if file.startswith(f"{RUNTIME}/")])
    others = [file for file in installed if not file.startswith(("include/", f"{RUNTIME}/"))]
    port = [pathlib.Path(file).name for file in [*others, RUNTIME]]
    check(PORT, port, between(PORT, "set(installed_files", ")").split())
    check(SPACK, others, re.findall('"(.*?)"', between(SPACK, "sanity_check_is_file = [", "]")))

    numbers = re.findall(r"#define PITH_VERSION_\w+ (\d+)", (ROOT / "include/pith/version.hpp").read_text())
    for path in [RECIPES / "cpm.cmake", RECIPES / "conan/conanfile.py", RECIPES / "vcpkg/pith/vcpkg.json", SPACK]:
        if ".".join(numbers) not in path.read_text():
            sys.exit(f"{path}: expected version {'.'.join(numbers)}")


if __name__ == "__main__":
    main()
