#!/usr/bin/env bash
# benchmarks/choosing/run.sh — the tables of docs/choosing.md and its figures, of what network/run.sh and grace/run.sh wrote.
#
#   benchmarks/choosing/run.sh              seconds, behind minutes of compiling
#   benchmarks/choosing/run.sh --no-build   with the program that is there
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
