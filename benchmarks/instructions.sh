#!/usr/bin/env bash
# benchmarks/instructions.sh — fails if an operation of a codec takes more instructions per element than before.
#
#   benchmarks/instructions.sh PROGRAM            counts with callgrind, compares with instructions.txt
#   benchmarks/instructions.sh --update PROGRAM   rewrites instructions.txt
#
# PROGRAM is benchmarks/instructions of an optimised build. An operation may take 1 / 0.85 of the table's count.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/gate.sh"
table=$here/instructions.txt
head="# Instructions per element of 65,536 floats, on valgrind's x86-64 with AVX2. Written by instructions.sh --update."

# callgrind counts a repeated string instruction once per byte, so memcpy and memset must use vectors.
export LD_BIND_NOW=1
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000

# The program's lines, each with the count of the dump that it ended.
count() {
  local directory=$1 program=$2 i=0 elements what
  if ! valgrind --tool=callgrind --toggle-collect=measured --dump-after=measured \
    --callgrind-out-file="$directory/dump" "$program" >"$directory/names" 2>"$directory/log"; then
    cat "$directory/log" >&2
    return 1
  fi
  while read -r elements what; do
    i=$((i + 1))
    awk -v n="$elements" -v what="$what" '/^summary:/ { printf "%.3f %s\n", $2 / n, what }' "$directory/dump.$i"
  done < <(tail -n +2 "$directory/names")
}

update=no
if [[ ${1-} == --update ]]; then
  update=yes
  shift
fi
if (($# != 1)); then
  echo "usage: benchmarks/instructions.sh [--update] PROGRAM" >&2
  exit 2
fi
command -v valgrind >/dev/null || skip "no valgrind"
grep -qw avx2 /proc/cpuinfo || skip "valgrind emulates this CPU, which has no AVX2"
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
counts=$(count "$directory" "$1")
compiler=$(head -n 1 "$directory/names")
if [[ $update == yes ]]; then
  measured_as "$head" "$compiler" <<<"$counts" >"$table"
else
  require_compiler "$table" "$compiler"
  compare "$table" 1.1765 <<<"$counts"
fi
