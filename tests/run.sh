#!/usr/bin/env bash
# tests/run.sh — installs what is missing, builds pith and tests it.
#
#   tests/run.sh                the optimised build, then the sanitizers: address, undefined behaviour, threads
#   tests/run.sh --long         the long tests and clang++ too
#   tests/run.sh --no-install   installs nothing: names what is missing, and fails
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/dependencies.sh

build() {
  say "$1: configure and build"
  cmake --preset "$1"
  cmake --build --preset "$1"
}

check() {
  say "$1: test"
  ctest --preset "$1"
}

install=yes
long=no
for argument in "$@"; do
  case $argument in
    --long) long=yes ;;
    --no-install) install=no ;;
    *) echo "usage: tests/run.sh [--long] [--no-install]" >&2; exit 2 ;;
  esac
done

provide $install "${packages[@]}" clang libbenchmark-dev
look_for_cuda

build host
check host
build asan
check asan
build tsan
check tsan
if [[ $long == yes ]]; then
  build clang
  check clang
  check long
fi
