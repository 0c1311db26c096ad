#!/usr/bin/env bash
# benchmarks/build_cost/runtime.sh — compile times of the library pith::runtime and of programs that use it.
#
#   benchmarks/build_cost/runtime.sh g++|clang++ [DOCUMENT]   prints two tables, or writes them into DOCUMENT
#
# Times are user times. Those of programs are relative to a program that includes <span>, <string> and <vector>. Takes
# minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$(cd "$here/../../include" && pwd)
if (($# < 1 || $# > 2)); then
  echo "usage: benchmarks/build_cost/runtime.sh g++|clang++ [DOCUMENT]" >&2
  exit 2
fi
compiler=$1
command -v "$compiler" >/dev/null || { echo "skipped: no $compiler"; exit 0; }
[[ -x /usr/bin/time ]] || { echo "skipped: no /usr/bin/time, which is in Debian's package time"; exit 0; }
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

# measured SOURCE : seconds of user time and peak memory in MB of its compilation.
measured() {
  /usr/bin/time -f '%U %M' "$compiler" -std=c++20 -O3 -I "$include" -c -o "$directory/use.o" "$1" 2>&1 |
    awk '{ print $1, $2 / 1000 }'
}

library_table() {
  echo "| source | seconds | MB of memory |"
  echo "|---|---|---|"
  local source
  for source in "$here"/../../cmake/runtime/*.cpp; do
    if [[ $source == */mpi.cpp ]]; then continue; fi
    measured "$source" | awk -v name="$(basename "$source")" '{ printf "| `%s` | %.0f | %.0f |\n", name, $1, $2 }'
  done
}

program_table() {
  echo "| program | compile time |"
  echo "|---|---|"
  local name
  for name in runtime_compress runtime_exchange; do
    measured "$here/$name.cpp" | awk -v name="$name" -v unit="$1" '{ printf "| `%s.cpp` | %.1f |\n", name, $1 / unit }'
  done
}

printf '#include <%s>\n' span string vector >"$directory/empty.cpp"
baseline=$(for _ in 1 2 3; do measured "$directory/empty.cpp"; done | sort -n | awk 'NR == 1 { print $1 }')
{
  printf '\n%s, %s: 1 is %s s.\n\n' "$("$compiler" --version | head -n 1)" "$(date +%F)" "$baseline"
  program_table "$baseline"
  echo
  library_table
  echo
} | tee "$directory/tables"
[[ -z ${2-} ]] || sed -i -e '/<!-- runtime -->/,/<!-- end -->/{//!d}' -e "/<!-- runtime -->/r $directory/tables" "$2"
