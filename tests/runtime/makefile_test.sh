#!/usr/bin/env bash
# tests/runtime/makefile_test.sh FOLDER — builds pith::runtime for floats by the Makefile, installs it into FOLDER, and
# compiles C programs with its pkg-config files. The library is not optimised, to compile sooner.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
cd "$1"

make -C "$source" install BUILD="$PWD/build" PREFIX="$PWD/prefix" ELEMENTS=float CXXFLAGS="-O0 -DPITH_NO_ISA_DISPATCH"
export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig

expect() { if [[ $1 != *"$2"* ]]; then echo "expected: $2"; echo "got: $1"; exit 1; fi; }
refused() { if "$@" 2>&1; then echo "must fail: $*"; fi; }

cc -std=c11 -pedantic -Wall -Wextra -Werror "$source/tests/runtime/float_only.c" \
  $(pkg-config --cflags --libs pith_runtime) -o float_only
expect "$(./float_only)" "options->element must be PITH_FLOAT, got PITH_BFLOAT16: this library is compiled for float only"

echo '#include <pith/runtime.hpp>
int main() { pith::runtime::parse<pith::bfloat16>("identity").name(); }' >bfloat16.cpp
expect "$(refused c++ -std=c++20 -fsyntax-only bfloat16.cpp $(pkg-config --cflags pith_runtime))" \
  "this pith::runtime is compiled for float only: add bfloat16 to PITH_RUNTIME_ELEMENTS"

if command -v mpicc >/dev/null; then
  # The code of the section From C: includes and a function, and then the statements of a function.
  sed -n '/^## From C/,/^## Other/p' "$source/docs/exchange.md" | sed -n '/^```c$/,/^```$/{/^```/!p}' >block
  { echo '#include <stdio.h>'; sed '/^pith_tensor/,$d' block; echo 'void engine(float* gradients) {'; sed -n '/^pith_tensor/,$p' block; echo '}'; } >block.c
  mpicc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only block.c $(pkg-config --cflags pith_runtime_mpi)
  mpicc -std=c11 "$source/examples/11_c_engine.c" $(pkg-config --cflags --libs pith_runtime_mpi) -o engine
  expect "$(mpirun -n 4 ./engine)" "$(sed -n 's|^//   \(. ranks.*\)|\1|p' "$source/examples/11_c_engine.c")"
fi

expect "$(refused make -C "$source" ELEMENTS=half)" 'ELEMENTS must be float, or float and bfloat16, got "half"'
