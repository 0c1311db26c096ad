#!/usr/bin/env bash
# tests/run.sh — installs what is missing, builds pith and tests it.
#
#   tests/run.sh                the optimised build; under sanitizers (addresses, undefined behaviour, threads) what
#                               reads payloads and what threads run; a minute of fuzzing
#   tests/run.sh --long         the long tests, all under sanitizers, clang++ and ten million runs of each fuzzer too
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

fuzz() {
  say "fuzz: $*"
  tests/fuzz/run.sh "$@"
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

provide $install "${packages[@]}" clang libbenchmark-dev libclang-rt-14-dev libmpich-dev llvm-14 mpich python3 valgrind
look_for_cuda

build host
check host
if [[ $long == yes ]]; then addresses=asan-all; else addresses=asan; fi
build $addresses
check $addresses
build tsan
check tsan
if [[ $long == yes ]]; then fuzz --runs 10000000; else fuzz --seconds 30; fi
if [[ $long == yes ]]; then
  build clang
  check clang
  say "host: build what takes long"
  cmake --build --preset host --target long_tests benchmarks
  check long
fi
