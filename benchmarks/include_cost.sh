#!/usr/bin/env bash
# benchmarks/include_cost.sh — what including pith.hpp costs; fails if it brings many more lines than it used to.
#
#   benchmarks/include_cost.sh COMPILER_NAME [g++]            lines, compared with include_cost.txt, and seconds
#   benchmarks/include_cost.sh --update COMPILER_NAME [g++]   rewrites include_cost.txt
#
# COMPILER_NAME is the table's name for it ("GNU 12 Release"). There may be 15 % more lines. Time is only said.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/gate.sh"
table=$here/include_cost.txt
head='# Lines of a header and all that it includes, preprocessed: what include_cost.sh --update wrote.'

update=no
if [[ ${1-} == --update ]]; then
  update=yes
  shift
fi
if (($# < 1 || $# > 2)); then
  echo "usage: benchmarks/include_cost.sh [--update] COMPILER_NAME [g++]" >&2
  exit 2
fi
name=$1
flags=(-std=c++20 -I "$here/../include" -x c++ -)
compiler=${2-g++}

counts="$("$compiler" -E -P "${flags[@]}" <<<'#include <pith/pith.hpp>' | wc -l) pith/pith.hpp"
if [[ $update == yes ]]; then
  measured_as "$head" "$name" <<<"$counts" >"$table"
  exit
fi
TIMEFORMAT='%R seconds to compile it, optimised'
time "$compiler" -O3 -c -o /dev/null "${flags[@]}" <<<'#include <pith/pith.hpp>'
require_compiler "$table" "$name"
compare "$table" 1.15 <<<"$counts"
