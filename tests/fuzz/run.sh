#!/usr/bin/env bash
# tests/fuzz/run.sh — builds the fuzzers and runs each of them.
#
#   tests/fuzz/run.sh                  fuzz_open and fuzz_decode for 20 seconds, under the address sanitizer alone
#   tests/fuzz/run.sh --seconds N      ... for N seconds
#   tests/fuzz/run.sh --runs N         these N times, fuzz_state and fuzz_messages N / 25 times, also under the
#                                      undefined-behaviour sanitizer; prints the branch coverage of functions that read bytes
#   tests/fuzz/run.sh --blind N        the same runs without coverage, which takes less time: libFuzzer edits only the inputs
#                                      of tests/data/fuzz
#
# Builds in build/fuzz-quick, build/fuzz-guided and build/fuzz-blind. An input that breaks a fuzzer stays there;
# `fuzz_open FILE` shows its effect.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() { sed -n '/^#   /s/^# *//p' tests/fuzz/run.sh >&2; exit 2; }

mode=quick
limit=-max_total_time=20
runs=
while (($# > 0)); do
  case $1 in
    --seconds) limit=-max_total_time=${2:?} ;;
    --runs) mode=guided limit=-runs=${2:?} runs=$2 ;;
    --blind) mode=blind limit=-runs=${2:?} runs=$2 ;;
    *) usage ;;
  esac
  shift 2
done

names=(fuzz_open fuzz_decode)
flags="-O0 -g0"  # compiles sooner than -O1, and runs slower
if [[ $mode != quick ]]; then
  names+=(fuzz_state fuzz_messages)
  flags="-O1 -g1"
fi
build=build/fuzz-$mode
cmake --preset fuzz -B "$build" -DCMAKE_CXX_FLAGS_DEBUG="$flags" -DPITH_FUZZ_MODE="$mode"
cmake --build "$build" --target "${names[@]}"
build=$(realpath "$build")

# Valid frames, after a first byte that repairs nothing, and after one that repairs all checksums.
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

# The entropic schedule would take four fifths of the time, since these programs have many branches. Without coverage,
# libFuzzer keeps the committed inputs as they are, and edits them at their full length.
options=(-max_len=2048 -malloc_limit_mb=512 -timeout=60 -entropic=0 -print_final_stats=1)
if [[ $mode == blind ]]; then options+=(-keep_seed=1 -reduce_inputs=0 -len_control=0); fi

limit_of() {
  case $1 in
    fuzz_state | fuzz_messages) echo "-runs=$((runs / 25))" ;;
    *) echo "$limit" ;;
  esac
}

# fuzz NAME : begins with the inputs of tests/data/fuzz/NAME.tar.gz, and logs to NAME.log.
fuzz() {
  local corpus=$build/corpus/$1 inputs=$build/inputs/$1
  mkdir -p "$corpus" "$inputs"
  tar -xzf "tests/data/fuzz/$1.tar.gz" -C "$inputs"
  if [[ $1 == fuzz_open ]]; then seed_frames "$corpus"; fi
  LLVM_PROFILE_FILE=$build/$1.profraw "$build/tests/fuzz/$1" "$(limit_of "$1")" "${options[@]}" \
    -artifact_prefix="$build/$1-" "$corpus" "$inputs" 2>"$build/$1.log"
}

report() {
  printf '\n== %s\n' "$1"
  grep -E 'DONE|stat::(number_of_executed_units|average_exec_per_sec)' "$build/$1.log"
}

# All fuzzers side by side, so that no core waits for the slowest.
pids=()
for name in "${names[@]}"; do
  fuzz "$name" & pids+=($!)
done
for i in "${!names[@]}"; do
  wait "${pids[i]}" || { tail -n 60 "$build/${names[i]}.log"; kill "${pids[@]}" 2>/dev/null; exit 1; }
  report "${names[i]}"
done

if [[ $mode == guided ]]; then
  printf '\n== coverage\n'
  print_coverage
fi
