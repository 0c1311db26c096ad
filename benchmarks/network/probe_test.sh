#!/usr/bin/env bash
# benchmarks/network/probe_test.sh — links have their rate and their round trip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./cluster.sh check
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }

# measures LINK LEAST MOST : the round trip is between LEAST and MOST ms, and a stream is not faster than 100 Mbit/s.
measures() {
  local said
  ./cluster.sh up 2 "$1"
  trap './cluster.sh down' EXIT
  said=$(./cluster.sh probe)
  ./cluster.sh down
  trap - EXIT
  awk -v least="$2" -v most="$3" '{ exit !($3 >= least && $3 < most && $6 > 0 && $6 <= 100) }' <<< "$said" && return
  echo "expected a round trip of $2 to $3 ms and at most 100 Mbit/s on a link of $1, got \"$said\""
  exit 1
}

measures 100mbit 0 20
measures 100mbit+20ms 20 40
