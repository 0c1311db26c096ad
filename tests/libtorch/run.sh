#!/usr/bin/env bash
# tests/libtorch/run.sh — builds the trainer on libtorch and its tests in build/libtorch, and runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/dependencies.sh

say "libtorch: configure and build"
quietly cmake -S examples/libtorch -B build/libtorch -G Ninja -DPITH_LIBTORCH_TESTS=ON \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DPython3_EXECUTABLE=/usr/bin/python3
cmake --build build/libtorch --target train_libtorch hooks_test
say "libtorch: test"
ctest --test-dir build/libtorch --output-on-failure
