#!/usr/bin/env bash
# benchmarks/gpu.sh — builds, tests, checks memory, measures and reports on a machine with a GPU.
#
#   benchmarks/gpu.sh             writes build/cuda/gpu.json, all figures, and build/cuda/gpu.md, parts and tables
#   benchmarks/gpu.sh --update    also appends gpu.md, with device, date and commit, to docs/performance.md
#   benchmarks/gpu.sh --quick     one size and few rounds; only primitives under the sanitizer
#   benchmarks/gpu.sh --no-build --no-tests --no-sanitizer --no-bench --no-peers      skips parts
#   benchmarks/gpu.sh --build-dir DIR       in place of build/cuda
#
# Needs CMake 3.25, Ninja, g++, nvcc, python3 and, for the tests, doctest; no network. Without a GPU it prints so and
# returns 77. If a part fails, it reports the part, runs the others and returns 1. Device tests cover primitives with
# capture and replay, comparisons with the bytes of the CPU, instructions as the emulator executes them, and others. A
# skipped device test counts as a failure. Peers are CUB, in the same program, and torch of $PYTHON (python3) by
# benchmarks/peers/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/dependencies.sh
here=benchmarks
dir=build/cuda
quick=
update=no
without=
while (($# > 0)); do
  case $1 in
    --quick) quick=--quick ;;
    --update) update=yes ;;
    --no-build | --no-tests | --no-sanitizer | --no-bench | --no-peers) without+=" $1" ;;
    --build-dir) dir=${2?--build-dir needs a folder}; shift ;;
    *) sed -n '/^#   /s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done

# need PROGRAM... : fails if one is missing.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || { echo "gpu.sh: needs $program" >&2; return 1; }
  done
}

# ask FIELD : a field of nvidia-smi for the first GPU.
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader --id=0; }
device=$(ask name 2>/dev/null) && [[ -n $device ]] || { echo "skipped: nvidia-smi sees no GPU" >&2; exit 77; }
look_for_cuda >&2
need python3
mkdir -p "$dir"
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
failed=

# part OPTION NAME COMMAND... : runs a part, unless it is skipped, and records its result: passed, skipped (77), failed.
part() {
  local status=0 verdict=passed
  if [[ " $without " == *" --no-$1 "* ]]; then
    verdict='left out'
  else
    echo "== $2" >&2
    "${@:3}" 2>&1 | tee "$made/said" >&2 || status=$?
    if ((status == 77)); then
      verdict=$(tail -n 1 "$made/said")
    elif ((status != 0)); then
      verdict="**failed**, $status"
      failed+="; $2"
    fi
  fi
  echo "$2|$verdict" >>"$made/parts"
}

# Warnings and register spills of another compiler are not errors here. Without doctest only the tests are missing.
build() {
  local options
  need cmake ninja g++ nvcc || return 1
  options=(-D CMAKE_CUDA_ARCHITECTURES="$(ask compute_cap | tr -d .)-real" -D CMAKE_COMPILE_WARNING_AS_ERROR=OFF)
  { cmake --preset cuda -B "$dir" "${options[@]}" ||
    cmake --preset cuda -B "$dir" "${options[@]}" -D PITH_BUILD_TESTS=OFF; } &&
    cmake --build "$dir" -j "$(nproc)" --target gpu_bench gpu_tensors
}
build_tests() { cmake --build "$dir" -j "$(nproc)" --target gpu_tests -- -k 0; }

# tests ARGUMENTS... : the tests with label gpu; a test that skips itself found no device.
tests() {
  ctest --test-dir "$dir" --output-on-failure --no-tests=error -j 8 -L gpu "$@" | tee "$made/tests" &&
    ! grep -F '(Skipped)' "$made/tests"
}

# sanitize TOOL PROGRAM... : runs programs, without the test whose call of the runtime must fail.
sanitize() {
  local tool=$1 program
  command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; return 77; }
  for program in "${@:2}"; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$dir/tests/$program" --test-case-exclude='an error names the call' ||
      return 1
  done
}

measure() { "$dir/$here/gpu_bench" $quick >"$made/json" && cp "$made/json" "$dir/gpu_bench.json"; }
measure_tensors() { "$dir/$here/gpu_tensors" $quick >"$made/tensors" && cp "$made/tensors" "$dir/gpu_tensors.md"; }

peers() {
  local no_build=
  if [[ $without == *--no-build* ]]; then no_build=--no-build; fi
  "$here/peers/run.sh" $no_build --device cuda | tee "$dir/gpu_peers.csv"
}

rm -f "$dir"/gpu_bench.json "$dir"/gpu_tensors.md "$dir"/gpu_peers.csv
part build "build for $device" build
part build "build of the tests" build_tests
part tests "primitives, capture and replay" tests -R '^exec/cuda_test$'
part tests "bytes of the CPU" tests -R '^device/'
part tests "instructions, by the emulator's formulas" tests -R '^emulator/'
part tests "other device tests" tests -E '^(exec/cuda_test$|device/|emulator/)'
part bench "measurement" measure
part bench "many tensors" measure_tensors
part peers "torch" peers
programs=(exec_cuda_test)
if [[ -z $quick ]]; then programs+=(device_signs device_sums device_selections device_policies); fi
part sanitizer "accesses to memory" sanitize memcheck "${programs[@]}"
part sanitizer "races in shared memory" sanitize racecheck "${programs[@]}"

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
if [[ -n $(git status --porcelain 2>/dev/null) ]]; then commit+=", changed"; fi
PYTHONDONTWRITEBYTECODE=1 python3 "$here/gpu_table.py" "$dir" "$made/parts" \
  "$device, driver $(ask driver_version), $(date -u +%F), commit $commit" >"$dir/gpu.md"
cat "$dir/gpu.md"
if [[ $update == yes ]]; then sed -i "/^<!-- gpu -->$/r $dir/gpu.md" docs/performance.md; fi
if [[ -n $failed ]]; then
  echo "gpu.sh: failed: ${failed#; }" >&2
  exit 1
fi
