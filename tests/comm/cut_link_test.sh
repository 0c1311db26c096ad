#!/usr/bin/env bash
# tests/comm/cut_link_test.sh — a link that is cut in mid-exchange is an error on every rank, within the deadline.
#
#   cut_link_test.sh PROGRAM CLUSTER     cut_link, and cluster.sh, which says where there can be no hosts (77)
set -euo pipefail
program=$1 cluster=$2 ranks=3 deadline=4
"$cluster" check
work=$(mktemp --directory)
trap '"$cluster" down; rm -r "$work"' EXIT

# await SECONDS NAME : every rank has written its file.
await() {
  local end=$((SECONDS + $1)) rank
  for ((rank = 0; rank < ranks; ++rank)); do
    until [[ -s $work/$2.$rank ]]; do
      ((SECONDS < end)) || { echo "rank $rank has not $2 within $1 s"; exit 1; }
      sleep 0.1
    done
  done
}

"$cluster" run $ranks 100mbit "$program" "$work" $deadline > "$work/said" 2>&1 &
runner=$!
await 60 begun
"$cluster" cut 1
await $((deadline + 10)) ended
kill $runner
wait $runner || true
cat "$work"/ended.*
for ended in "$work"/ended.*; do
  read -r seconds error < "$ended"
  [[ $error == "pith::mpi_communicator: all_reduce did not end within $deadline s: "* ]] || exit 1
  awk -v s="$seconds" -v d=$deadline 'BEGIN { exit !(s >= d && s < d + 5) }' || exit 1
done
