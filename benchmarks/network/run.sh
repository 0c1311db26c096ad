#!/usr/bin/env bash
# benchmarks/network/run.sh — exchanges over links of 10, 100 and 1000 Mbit/s: builds, measures four ranks, reports.
#
#   benchmarks/network/run.sh              a quarter of an hour on a quiet machine, after minutes of compiling: writes
#                                          docs/figures/network.csv and .svg, and the tables of docs/network.md
#   benchmarks/network/run.sh --quick      two minutes: prints the tables of fewer sizes, and writes nothing into docs
#   benchmarks/network/run.sh --no-build [--quick]
#
# Needs root and the tools of cluster.sh. If one is missing it prints so and returns 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
programs=build/host/benchmarks
build=yes
quick=no
for argument in "$@"; do
  case $argument in
    --quick) quick=yes ;;
    --no-build) build=no ;;
    *) sed -n '/^#   /s/^# //p' benchmarks/network/run.sh >&2; exit 2 ;;
  esac
done

# measure RATE SECONDS WORKLOAD... : appends to $table. Up to 100 Mbit/s, pairwise swaps are faster than MPI's
# nonblocking collectives (docs/network.md).
measure() {
  local rate=$1 seconds=$2 choices=() workload
  shift 2
  if ((rate <= 100)); then choices+=(--pairwise); fi
  for workload in "$@"; do choices+=(--workload "$workload"); done
  echo "== $rate Mbit/s: $*" >&2
  benchmarks/network/cluster.sh run 4 "${rate}mbit" "$PWD/$programs/network_bench" --rate "$rate" --interface eth0 \
    --seconds "$seconds" "${choices[@]}" >> "$table"
}

benchmarks/network/cluster.sh check
if [[ $build == yes ]]; then
  cmake --preset host
  cmake --build --preset host --target network_bench network_report
fi

table=$(mktemp)
trap 'rm -f "$table"' EXIT
if [[ $quick == yes ]]; then
  measure 100 0.5 256 1024 4096 ResNet-20
  measure 1000 0.5 256 4096 ResNet-20
  "$programs/network_report" "$table"
else
  # KiB: a step of dense floats takes at most a few seconds.
  measure 10 1 64 256 1024 ResNet-20 VGG-11 LSTM
  measure 100 1 256 1024 4096 16384 ResNet-20 VGG-11 LSTM
  measure 1000 1 256 1024 4096 16384 65536 ResNet-20 VGG-11 LSTM
  awk 'NR == 1 || !/^rate_mbit/' "$table" > docs/figures/network.csv   # each measurement printed the heading
  gnuplot -c benchmarks/network/network.gp docs/figures/network.csv docs/figures/network.svg
  "$programs/network_report" "$table" --into docs/network.md
fi
