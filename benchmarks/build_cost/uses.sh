# benchmarks/build_cost/uses.sh — the programs of uses.txt. Sourced by counts.sh and measure.sh.
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$(cd "$sources/../../include" && pwd)
declare -A executors=([seq]='seq' [par]='par()' [cuda_executor]='cuda_executor()')

uses() { grep -v '^#' "$sources/uses.txt"; }

headers_of_codecs() { uses | cut -d' ' -f2 | tr , '\n' | sort -u; }

# name_of USE : its codec, after the name of its program unless that is compress.
name_of() {
  local program headers codec
  read -r program headers codec <<<"$1"
  [[ $program == compress ]] || codec="$program of $codec"
  sed 's/std::declval<\([a-z_]*\)>()/\1/' <<<"$codec"
}

# source_of USE EXECUTOR [HEADER...] : its program, with the given headers before those of the codec.
source_of() {
  local program headers codec executor=$2
  read -r program headers codec <<<"$1"
  printf '#include <pith/%s.hpp>\n' "${@:3}" ${headers//,/ } "exec/$executor"
  printf '#define PITH_CODEC %s\n#define PITH_EXECUTOR %s\n' "$codec" "${executors[$executor]}"
  cat "$sources/$program.cpp"
}
