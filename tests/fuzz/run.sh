#!/usr/bin/env bash
# tests/fuzz/run.sh — builds the fuzzers and runs each of them.
#
#   tests/fuzz/run.sh                  those of frames and payloads for twenty seconds, under the address sanitizer alone
#   tests/fuzz/run.sh --seconds N      ... for N seconds
#   tests/fuzz/run.sh --runs N         these N times, those of states and messages N / 10 times, also for undefined
#                                      behaviour, and prints which branches of what reads bytes were reached
#   tests/fuzz/run.sh --build DIR      builds in DIR and not in build/fuzz
#
# An input that breaks a fuzzer stays in the build directory; `fuzz_open FILE` shows what it does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() { sed -n '4,8s/^# *//p' tests/fuzz/run.sh >&2; exit 2; }

build=build/fuzz
limit=-max_total_time=20
runs=          # of each fuzzer, or as many as there is time for
flags="-O0 -g0"  # which compiles sooner than -O1, and runs slower
targets=(fuzz_open fuzz_decode)
while (($# > 0)); do
  case $1 in
    --seconds) limit=-max_total_time=${2:?} ;;
    --runs) limit=-runs=${2:?} runs=$2 flags="-O1 -g1" targets=(fuzzers) ;;
    --build) build=${2:?} ;;
    *) usage ;;
  esac
  shift 2
done

cmake --preset fuzz -B "$build" -DCMAKE_CXX_FLAGS_DEBUG="$flags" -DPITH_FUZZ_QUICKLY=$([[ -z $runs ]] && echo ON || echo OFF)
cmake --build "$build" --target "${targets[@]}"
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

# The branches that were reached by any fuzzer.
print_coverage() {
  local profdata cov
  profdata=$(llvm_tool llvm-profdata)
  cov=$(llvm_tool llvm-cov)
  if [[ -z $profdata || -z $cov ]]; then
    echo "no llvm-cov here; libFuzzer's figures cov and ft above say how far it came"
    return
  fi
  "$profdata" merge -sparse "$build"/fuzz_{open,decode,state,messages}.profraw -o "$build/fuzz.profdata"
  "$cov" export "$build/tests/fuzz/fuzz_open" -object "$build/tests/fuzz/fuzz_decode" \
    -object "$build/tests/fuzz/fuzz_state" -object "$build/tests/fuzz/fuzz_messages" \
    -instr-profile="$build/fuzz.profdata" -skip-expansions include/pith | python3 tests/fuzz/coverage.py --missed
}

# fuzz NAME : begins with the inputs of tests/data/fuzz/NAME, and logs to NAME.log. The entropic schedule would take four
# fifths of the time, since these programs have many branches.
fuzz() {
  local corpus=$build/corpus/$1
  mkdir -p "$corpus"
  if [[ $1 == fuzz_open ]]; then seed_frames "$corpus"; fi
  LLVM_PROFILE_FILE=$build/$1.profraw "$build/tests/fuzz/$1" "$(limit_of "$1")" -max_len=2048 -entropic=0 \
    -malloc_limit_mb=512 -timeout=60 -print_final_stats=1 -artifact_prefix="$build/$1-" "$corpus" "tests/data/fuzz/$1" \
    2>"$build/$1.log"
}

limit_of() {
  case $1 in
    fuzz_state | fuzz_messages) echo "-runs=$((runs / 10))" ;;
    *) echo "$limit" ;;
  esac
}

report() {
  printf '\n== %s\n' "$1"
  grep -E 'DONE|stat::(number_of_executed_units|average_exec_per_sec)' "$build/$1.log"
}

# All fuzzers side by side, so that no core waits for the slowest.
names=(fuzz_open fuzz_decode)
if [[ -n $runs ]]; then names+=(fuzz_state fuzz_messages); fi
pids=()
for name in "${names[@]}"; do
  fuzz "$name" & pids+=($!)
done
for i in "${!names[@]}"; do
  wait "${pids[i]}" || { tail -n 60 "$build/${names[i]}.log"; kill "${pids[@]}" 2>/dev/null; exit 1; }
  report "${names[i]}"
done

if [[ -n $runs ]]; then
  printf '\n== coverage\n'
  print_coverage
fi
