#!/usr/bin/env bash
# benchmarks/build_cost/measure.sh — compile times and code sizes of the programs of uses.txt with one compiler.
#
#   benchmarks/build_cost/measure.sh g++|clang++|nvcc [DOCUMENT]   prints a table, or writes it into DOCUMENT
#
# Times are user time, which depends little on other load, over that of a program that includes <span>, <string> and
# <vector>. Takes minutes on a quiet machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/uses.sh"
if (($# < 1 || $# > 2)); then
  echo "usage: benchmarks/build_cost/measure.sh g++|clang++|nvcc [DOCUMENT]" >&2
  exit 2
fi
compiler=$1
command -v "$compiler" >/dev/null || { echo "skipped: no $compiler"; exit 0; }
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
flags=(-std=c++20 -I "$include")
[[ $compiler == nvcc ]] && flags+=(-x cu -arch=sm_90)

# seconds FLAG... : the compile time of the program.
TIMEFORMAT=%U
seconds() {
  { time "$compiler" "${flags[@]}" "$@" -c -o "$directory/use.o" "$directory/use.cpp" 2>"$directory/log"; } 2>&1 ||
    { cat "$directory/log" >&2; exit 1; }
}

# The bytes of the text segment; the bytes of one section.
text_bytes() { size "$directory/use.o" | awk 'END { print $1 }'; }
section_bytes() { size -A "$directory/use.o" | awk -v name="$1" '$1 == name { print $2 }'; }

cell() { awk -v value="$1" -v unit="$2" 'BEGIN { printf " %.1f |", value / unit }'; }

# Cells of a row: front_end USE [HEADER...], optimised USE EXECUTOR [FLAG...].
front_end() {
  source_of "$1" seq "${@:2}" >"$directory/use.cpp"
  local time
  time=$(seconds -fsyntax-only)
  cell "$time" "$baseline"
}
optimised() {
  source_of "$1" "$2" >"$directory/use.cpp"
  local time
  time=$(seconds -O3 "${@:3}")
  cell "$time" "$baseline"
  cell "$(text_bytes)" 1000
}

host_cells() {
  front_end "$1"
  front_end "$1" pith
  optimised "$1" seq
  optimised "$1" seq -DPITH_NO_ISA_DISPATCH
  optimised "$1" par -DPITH_NO_ISA_DISPATCH
}
device_cells() {
  optimised "$1" cuda_executor
  cell "$(section_bytes .nv_fatbin)" 1000
}

rows() {
  local use name
  while read -r use; do
    name=$(name_of "$use")
    printf '| `%s` |' "${name//|/\\|}"
    "$1" "$use"
    echo
  done
}

table() {
  if [[ $compiler == nvcc ]]; then
    echo "| codec | stream | KB | of these for the device |"
    echo "|---|---|---|---|"
    uses | grep '^compress' | rows device_cells
  else
    echo "| codec | front end | with \`pith.hpp\` | seq | KB | seq, one set | KB | par, one set | KB |"
    echo "|---|---|---|---|---|---|---|---|---|"
    uses | rows host_cells
  fi
}

printf '#include <%s>\n' span string vector >"$directory/use.cpp"
baseline=$(for _ in 1 2 3; do seconds -O3; done | sort -n | head -n 1)
{
  printf '\n%s, %s: 1 is %s s.\n\n' "$("$compiler" --version | grep -m 1 '[0-9]\.[0-9]')" "$(date +%F)" "$baseline"
  table
  echo
} | tee "$directory/table"
[[ -z ${2-} ]] || sed -i -e "/<!-- $compiler -->/,/<!-- end -->/{//!d}" -e "/<!-- $compiler -->/r $directory/table" "$2"
