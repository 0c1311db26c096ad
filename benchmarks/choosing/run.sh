#!/usr/bin/env bash
# benchmarks/choosing/run.sh — tables and figures of docs/choosing.md, from CSVs of network/run.sh and grace/run.sh.
#
#   benchmarks/choosing/run.sh              seconds, after minutes of compiling
#   benchmarks/choosing/run.sh --no-build   with the program of an earlier build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ ${1-} != --no-build ]]; then
  cmake --preset host
  cmake --build --preset host --target choosing
fi
choosing() { build/host/benchmarks/choosing docs/figures/network.csv docs/figures/grace_throughput.csv "$@"; }
choosing > docs/figures/choosing.csv
choosing --into docs/choosing.md
gnuplot -c benchmarks/choosing/break_even.gp docs/figures/choosing.csv docs/figures/choosing_break_even.svg
gnuplot -c benchmarks/choosing/steps.gp docs/figures/choosing.csv docs/figures/network.csv docs/figures/choosing_steps.svg
