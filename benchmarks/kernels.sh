#!/usr/bin/env bash
# benchmarks/kernels.sh — fails if a kernel spills registers or takes more of a GPU than before; needs no GPU.
#
#   benchmarks/kernels.sh [nvcc]            compiles kernels.cu for sm_90, compares its counts with kernels.txt
#   benchmarks/kernels.sh --update [nvcc]   rewrites kernels.txt and the table of docs/performance.md
#
# A count may be 15 % above the table's. Without nvcc 12 or python3 it prints so and returns 77.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/gate.sh"
table=$here/kernels.txt
head='# Counts of the kernels of kernels.cu on sm_90, from ptxas and from their code. Written by kernels.sh --update.'
export PYTHONDONTWRITEBYTECODE=1

update=no
if [[ ${1-} == --update ]]; then
  update=yes
  shift
fi
if (($# > 1)); then
  echo "usage: benchmarks/kernels.sh [--update] [nvcc]" >&2
  exit 2
fi
nvcc=${1-nvcc}
command -v "$nvcc" >/dev/null || skip "no nvcc"
command -v python3 >/dev/null || skip "no python3"
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
((${release%%.*} >= 12)) || skip "nvcc $release has no C++20"
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
"$nvcc" -std=c++20 -arch=sm_90 -Werror all-warnings -Xptxas=-v -I "$here/../include" --cubin -o "$made/cubin" \
  "$here/kernels.cu" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
count() { python3 "$here/kernels.py" "$here/kernels.cu" "$made/cubin" "$made/log" "$@"; }

compiler="nvcc $release"
counts=$(count)
if [[ $update == yes ]]; then
  measured_as "$head" "$compiler" <<<"$counts" >"$table"
  count --update "$here/../docs/performance.md"
else
  require_compiler "$table" "$compiler"
  compare "$table" 1.15 <<<"$counts"
fi
