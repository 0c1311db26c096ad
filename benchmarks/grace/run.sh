#!/usr/bin/env bash
# benchmarks/grace/run.sh — the figures of GRACE's evaluation: builds, measures, and draws into docs/figures.
#
#   benchmarks/grace/run.sh                          all of them: minutes of compiling, then minutes on a quiet machine
#   benchmarks/grace/run.sh latency --log2n 26       one of latency, quality and throughput, with arguments of `grace`
#   benchmarks/grace/run.sh --no-build [...]         with the program of an earlier build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=build/host/benchmarks/grace

# draw SCRIPT NAME ARGUMENT... : docs/figures/grace_NAME.csv and .svg.
draw() {
  local script=benchmarks/grace/$1.gp made=docs/figures/grace_$2
  shift 2
  "$program" "$@" > "$made.part"
  mv "$made.part" "$made.csv"
  gnuplot -c "$script" "$made.csv" "$made.svg"
}

if [[ ${1-} == --no-build ]]; then
  shift
else
  cmake --preset host
  cmake --build --preset host --target grace
fi
if [[ $# -gt 0 ]]; then
  draw "$1" "$1" "$@"
else
  draw latency latency latency
  draw quality quality quality
  draw quality quality_convolutional quality --model convolutional
  draw throughput throughput throughput
fi
