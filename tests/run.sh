#!/usr/bin/env bash
# tests/run.sh — installs what is missing, builds pith and tests it.
#
#   tests/run.sh                   the default tier: minutes
#   tests/run.sh --long            the long tier: the parts that have not passed for this code, an hour each at most
#   tests/run.sh --long PART...    these parts of it
#   tests/run.sh --no-install ...  installs nothing: lists what is missing, and fails
#
# The default tier is static, clang, asan, tsan and fuzz; the parts of the long tier are
#   asan-all   every test under the address and undefined-behaviour sanitizers
#   tsan-all   every test that runs threads under the thread sanitizer
#   fuzz-all   ten million runs of each fuzzer of frames, 400,000 of those of states and messages
#   host       every test by g++
#   host-all   what host leaves out for time
#   benchmarks every benchmark compiles, and starts
#   device     what the default tier leaves out of CUDA code: other modes of the emulator, another architecture, mutants
#   torch      the Python package pith_torch, with Debian's torch and with the newest; needs 14 GB of disk
#   packages   other projects get pith by CMake 3.22, FetchContent and Conan, and compile the examples by g++ 11
#   libtorch   the hooks and the trainer of examples/libtorch, on two and four ranks of MPI
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/dependencies.sh

usage() { sed -n '/^#   /s/^# //p' tests/run.sh >&2; exit 2; }

configure() { say "$1: configure"; cmake --preset "$1"; }
build() { say "$1: build"; cmake --build --preset "$1"; }
check() { say "$1: test"; ctest --preset "$1"; }
run_preset() { configure "$1" && build "$1" && check "$1"; }

run_part() {
  case $1 in
    static) configure host && check static ;;
    host | clang | asan | tsan | asan-all | tsan-all) run_preset "$1" ;;
    fuzz) say fuzz && tests/fuzz/run.sh --seconds 10 ;;
    fuzz-all) say fuzz-all && tests/fuzz/run.sh --runs 10000000 ;;
    host-all) configure host && build_long && check long ;;
    benchmarks) build_benchmarks && check_benchmarks ;;
    device) configure clang && build_device && check_device ;;
    torch) provide $install "${torch_packages[@]}" && tests/torch/run.sh debian newest ;;
    packages) provide $install "${packages_packages[@]}" && tests/packages/run.sh ;;
    libtorch) provide $install "${libtorch_tests_packages[@]}" && tests/libtorch/run.sh ;;
    *) usage ;;
  esac
}

build_long() {
  say "host: build the long tests"
  cmake --build --preset host --target long_tests
}

# Optimised, a benchmark takes minutes and gigabytes to compile; here they only have to compile.
build_benchmarks() {
  say "benchmarks: compile"
  cmake --preset host -B build/benchmarks -DPITH_BUILD_TESTS=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O0
  cmake --build build/benchmarks --target benchmarks
}

check_benchmarks() {
  say "benchmarks: test"
  ctest --test-dir build/benchmarks -L smoke --output-on-failure
}

build_device() {
  say "device: build"
  cmake --build --preset clang --target gpu_tests gpu_long_tests
}

check_device() {
  say "device: test"
  ctest --test-dir build/clang -L gpu -L long -j 2 --output-on-failure
}

# The parts that passed are noted with the commit, unless files differ from it. Pages and measured results may change
# afterwards: the default tier checks pages.
commit=$(git rev-parse HEAD 2>/dev/null) && [[ -z $(git status --porcelain) ]] || commit=
passed() {
  local of
  [[ -n $commit ]] && of=$(cat "build/passed/$1" 2>/dev/null) &&
    git diff --quiet "$of" "$commit" -- . ':!docs' ':!*.md' ':!benchmarks/*/results' 2>/dev/null
}
note() { mkdir -p build/passed && echo "$commit" >"build/passed/$1"; }

install=yes
long=no
parts=()
for argument in "$@"; do
  case $argument in
    --long) long=yes ;;
    --no-install) install=no ;;
    -*) usage ;;
    *) parts+=("$argument") ;;
  esac
done

packages=("${tests_packages[@]}")
if [[ $long == yes ]]; then packages+=("${long_tests_packages[@]}"); fi
provide $install "${packages[@]}"
look_for_cuda
if [[ $long == no ]]; then
  if ((${#parts[@]} > 0)); then usage; fi
  parts=(static clang asan tsan fuzz)
elif ((${#parts[@]} == 0)); then
  for part in asan-all tsan-all fuzz-all host host-all benchmarks device torch packages libtorch; do
    passed $part || parts+=($part)
  done
fi

times=()
for part in "${parts[@]}"; do
  begun=$SECONDS
  run_part "$part"
  note "$part"
  times+=("$part $(((SECONDS - begun) / 60)):$(printf %02d $(((SECONDS - begun) % 60)))")
done
say "passed: ${times[*]-nothing left to run}"
