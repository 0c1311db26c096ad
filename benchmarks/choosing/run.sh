#!/usr/bin/env bash
# benchmarks/choosing/run.sh — the table of docs/choosing.md, from the CSV of network/run.sh.
#
#   benchmarks/choosing/run.sh              seconds, after minutes of compiling
#   benchmarks/choosing/run.sh --no-build   with the program of an earlier build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ ${1-} != --no-build ]]; then
  cmake --preset host
  cmake --build --preset host --target choosing
fi
build/host/benchmarks/choosing docs/figures/network.csv --into docs/choosing.md
