#!/usr/bin/env bash
# benchmarks/build_cost/counts.sh — fails if a header has more lines, or a codec more templates or functions, than before.
#
#   benchmarks/build_cost/counts.sh COMPILER_NAME [g++]            compares with counts_GNU.txt, counts_Clang.txt
#   benchmarks/build_cost/counts.sh --update COMPILER_NAME [g++]   rewrites it
#
# COMPILER_NAME is the compiler's name in the table ("GNU 12 Release"). Each count may be 5 % above the table's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../gate.sh"
source "$here/uses.sh"
head='# Lines of a header with all its includes, and templates and functions of a program. Written by build_cost/counts.sh --update.'
headers=(pith parse exec/{seq,par,cuda_executor} comm/{self,threads,mpi,nccl}
  exchange/{all_reduce_mean,gradient_exchange} control/adaptive_exchange)

update=no
if [[ ${1-} == --update ]]; then
  update=yes
  shift
fi
if (($# < 1 || $# > 2)); then
  echo "usage: benchmarks/build_cost/counts.sh [--update] COMPILER_NAME [g++]" >&2
  exit 2
fi
name=$1
compiler=${2-g++}
table=$here/counts_${name%% *}.txt
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

# Headers of CUDA, MPI and NCCL count as empty, since they differ between machines.
touch "$directory"/{cuda_runtime_api,mpi,nccl}.h

compile() { "$compiler" -std=c++20 -I "$include" "$@"; }

# Specializations of classes, functions and variables, by g++ -fstats; for clang++ the instantiations of -ftime-trace.
templates() {
  if [[ $name == GNU* ]]; then
    compile -fsyntax-only -fstats "$1" 2>&1 |
      awk '/: error: / { print >"/dev/stderr" } /^(decl|type)_specializations:/ { n += $4 } END { print n }'
  else
    compile -c -o "$directory/use.o" -ftime-trace -ftime-trace-granularity=0 "$1"
    grep -oE '"name":"Instantiate(Class|Function)"' "$directory/use.json" | wc -l
  fi
}

# The functions of the object file. A loop counts once for each instruction set.
functions() {
  compile -O1 -c -o "$directory/use.o" "$1"
  nm --defined-only "$directory/use.o" | grep -c ' [tTwW] '
}

# lines_of HEADER, counts_of USE EXECUTOR : lines of the table.
lines_of() {
  local lines
  lines=$(compile -I "$directory" -E -P -x c++ - <<<"#include <pith/$1.hpp>" | wc -l)
  echo "$lines lines pith/$1.hpp"
}
counts_of() {
  local templates functions
  source_of "$@" >"$directory/use.cpp"
  templates=$(templates "$directory/use.cpp")
  echo "$templates templates $(name_of "$1") on $2"
  functions=$(functions "$directory/use.cpp")
  echo "$functions functions $(name_of "$1") on $2"
}

counts() {
  local header use
  for header in "${headers[@]}" $(headers_of_codecs); do lines_of "$header"; done
  while read -r use; do counts_of "$use" seq; done < <(uses)
  counts_of "$(uses | head -n 1)" par
}

[[ $update == yes ]] || require_compiler "$table" "$name"
counts >"$directory/counts"
if [[ $update == yes ]]; then
  measured_as "$head" "$name" <"$directory/counts" >"$table"
else
  compare "$table" 1.05 <"$directory/counts"
fi
