#!/usr/bin/env bash
# tests/coverage.sh — prints which part of the lines of include/ the default tier runs on the host, but for the tests of benchmarks; needs gcovr.
#
#   tests/coverage.sh [DIR]        builds in DIR (build/coverage)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${1:-build/coverage}
cmake --preset no-cuda -B "$dir" -DCMAKE_BUILD_TYPE=Debug -DPITH_BUILD_BENCHMARKS=OFF \
  -DCMAKE_CXX_FLAGS='-O0 -g0 --coverage -fprofile-update=atomic'
cmake --build "$dir"
find "$dir" -name '*.gcda' -delete
ctest --test-dir "$dir" -j 2 -LE 'long|static' --output-on-failure
gcovr --root . --filter include/ --object-directory "$dir" --gcov-ignore-parse-errors --txt-summary "$dir"
