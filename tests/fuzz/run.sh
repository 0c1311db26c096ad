#!/usr/bin/env bash
# tests/fuzz/run.sh — builds the fuzzers, runs each of them, and prints which branches of the decoders they reached.
#
#   tests/fuzz/run.sh                  twenty seconds each
#   tests/fuzz/run.sh --seconds N      N seconds each
#   tests/fuzz/run.sh --runs N         N runs each
#   tests/fuzz/run.sh --build DIR      builds in DIR and not in build/fuzz
#
# An input that breaks a fuzzer stays in the build directory; `fuzz_open FILE` shows what it does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() { sed -n '4,7s/^# *//p' tests/fuzz/run.sh >&2; exit 2; }

build=build/fuzz
limit=-max_total_time=20
flags="-O0 -g1"  # which compiles sooner than -O1, and runs slower
while (($# > 0)); do
  case $1 in
    --seconds) limit=-max_total_time=${2:?} ;;
    --runs) limit=-runs=${2:?} flags="-O1 -g1" ;;
    --build) build=${2:?} ;;
    *) usage ;;
  esac
  shift 2
done

cmake --preset fuzz -B "$build" -DCMAKE_CXX_FLAGS_DEBUG="$flags"
cmake --build "$build" --target fuzzers
build=$(realpath "$build")

# Frames that are right, behind a first byte that mends nothing, and one that mends all.
seed_frames() {
  local frame
  for frame in tests/data/wire/v*/*.frame; do
    { printf '\0'; cat "$frame"; } >"$1/$(basename "$frame")"
    { printf '\7'; cat "$frame"; } >"$1/$(basename "$frame").mended"
  done
}

# llvm's tools of the compiler's version, where they are installed.
llvm_tool() {
  local version
  version=$(clang++ -dumpversion)
  command -v "$1-${version%%.*}" || command -v "$1" || true
}

# Of the functions by which bytes of others are read: the lines and branches that were reached by either fuzzer.
readers='decode|unpack|scatter|thin_times_thin|spoil|trusted|clamp_count|hash|read_header|4wire4open|[0-9](check_|require_)'
print_coverage() {
  local profdata cov
  profdata=$(llvm_tool llvm-profdata)
  cov=$(llvm_tool llvm-cov)
  if [[ -z $profdata || -z $cov ]]; then
    echo "no llvm-cov here; libFuzzer's figures cov and ft above say how far it came"
    return
  fi
  "$profdata" merge -sparse "$build"/fuzz_{open,decode}.profraw -o "$build/fuzz.profdata"
  "$cov" report "$build/tests/fuzz/fuzz_open" -object "$build/tests/fuzz/fuzz_decode" \
    -instr-profile="$build/fuzz.profdata" -show-functions -show-branch-summary \
    include/pith/{wire,quantize,sparsify,lowrank,coding,core} |
    awk -v readers="$readers" '
      $1 ~ /^_Z/ && $1 ~ readers && $1 !~ /decode_mean/ {
        lines += $5; lines_missed += $6; branches += $8; branches_missed += $9
        if ($9 > 0) print "  " $9 " of " $8 " branches missed: " $1
      }
      END {
        printf "decoders: reached %d of %d lines, %d of %d branches\n", lines - lines_missed, lines,
               branches - branches_missed, branches
      }' | c++filt | cut -c 1-160
}

# fuzz NAME : logs to NAME.log.
fuzz() {
  local corpus=$build/corpus/$1
  mkdir -p "$corpus"
  if [[ $1 == fuzz_open ]]; then seed_frames "$corpus"; fi
  LLVM_PROFILE_FILE=$build/$1.profraw "$build/tests/fuzz/$1" "$limit" -max_len=2048 -print_final_stats=1 \
    -artifact_prefix="$build/$1-" "$corpus" 2>"$build/$1.log"
}

# Side by side, since ten million runs of one take minutes.
fuzz fuzz_open & open=$!
fuzz fuzz_decode & decode=$!
for name in open decode; do
  printf '\n== fuzz_%s\n' "$name"
  log=$build/fuzz_$name.log
  wait "${!name}" || { tail -n 60 "$log"; kill $open $decode 2>/dev/null; exit 1; }
  grep -E 'DONE|stat::(number_of_executed_units|average_exec_per_sec)' "$log"
done
printf '\n== coverage\n'
print_coverage
