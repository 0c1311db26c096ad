#!/usr/bin/env bash
# tests/coverage.sh — prints the share of the lines of include/ that the default tier runs on the host, without the
# tests of benchmarks. Needs clang++, llvm-cov and gcovr.
#
#   tests/coverage.sh [DIR]        builds in DIR (build/coverage)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${1:-build/coverage}
cmake --preset no-cuda -B "$dir" -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DPITH_BUILD_BENCHMARKS=OFF \
  -DCMAKE_CXX_FLAGS='-O0 -g0 --coverage -fprofile-update=atomic'
cmake --build "$dir"
find "$dir" -name '*.gcda' -delete
ctest --test-dir "$dir" -j 2 -LE 'long|static' --output-on-failure
gcovr --root . --filter include/ --object-directory "$dir" --gcov-executable "llvm-cov gcov" --gcov-ignore-parse-errors \
  --print-summary --output "$dir/coverage.txt" "$dir"
