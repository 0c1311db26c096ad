#!/usr/bin/env bash
# benchmarks/gpu_test.sh — gpu.sh reports missing tools, skips the requested parts, and names failed ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
export PATH=$made/bin:$PATH PYTHON=$made/bin/no_torch
mkdir -p "$made/bin" "$made/out/benchmarks"

# stand_in NAME : a program that records its arguments, then runs its standard input.
stand_in() {
  { printf '#!/usr/bin/env bash\necho "%s $*" >>"%s/called"\n' "${1##*/}" "$made"; cat; } >"$1"
  chmod +x "$1"
}
# ends STATUS ARGUMENTS... : gpu.sh exits with STATUS; its output is in $said.
ends() {
  local status=0
  : >"$made/called"
  said=$(benchmarks/gpu.sh --build-dir "$made/out" "${@:2}" 2>&1) || status=$?
  [[ $status == "$1" ]] || fail "expected $1, got $status"
}
says() { grep -qF -- "$1" <<<"$said" || fail "expected \"$1\""; }
called() { grep -q -- "$1" "$made/called" || fail "not called: $1, but $(cat "$made/called")"; }
not_called() { ! grep -q -- "$1" "$made/called" || fail "called: $1"; }
fail() {
  printf '%s: %s\n' "$1" "$said"
  exit 1
}

stand_in "$made/bin/nvidia-smi" <<<'exit 9'
ends 77
says 'skipped: nvidia-smi sees no GPU'
ends 2 --slowly
says 'gpu.sh --quick'

stand_in "$made/bin/nvidia-smi" <<<'case $1 in *name) echo Card X ;; *cap) echo 9.0 ;; *) echo 580.1 ;; esac'
for tool in cmake ninja nvcc; do stand_in "$made/bin/$tool" </dev/null; done
stand_in "$made/bin/ctest" <<<'echo 100% tests passed'
stand_in "$made/bin/compute-sanitizer" </dev/null
stand_in "$made/bin/no_torch" <<<'exit 1'
stand_in "$made/out/benchmarks/gpu_bench" <<'EOF'
echo '{"context": {"cpu": "Card X"}, "benchmarks": [{"name": "encode sign/2^20", "real_time": 2, "q10": 1,'
echo '"bytes_per_element": 4, "of_copy": 0.5, "x_copy": 1.5, "launches": 2, "ratio": 32, "error": 0.4}]}'
EOF
stand_in "$made/out/benchmarks/gpu_tensors" <<<'echo "| \`sign\` | 161 | 1 |"'
ends 0 --quick
says '### Card X, driver 580.1'
says '| build for Card X | passed |'
says '| torch | skipped: '
says '| `encode sign` | 4 | 32.0 | 2 | 2 (50) |'
says '| `sign` | 161 | 1 |'
called 'gpu_tensors --quick'
called 'CMAKE_CUDA_ARCHITECTURES=90-real'
called 'gpu_bench --quick'
called 'target gpu_tests -- -k 0'
called 'memcheck.*/exec_cuda_test --test-case-exclude=an error names the call$'
not_called device_signs
python3 -c 'import json, sys; json.load(open(sys.argv[1]))["benchmarks"][0]' "$made/out/gpu.json"

ends 0 --no-build --no-tests --no-sanitizer --no-bench --no-peers
says '| measurement | left out |'
not_called cmake
not_called ctest
not_called compute-sanitizer
not_called gpu_bench

stand_in "$made/bin/cmake" <<<'[[ $* == *TESTS=OFF* || $* == *gpu_tensors ]]'
ends 1 --no-tests --no-sanitizer --no-peers
says '| build for Card X | passed |'
says '| build of the tests | **failed**, 1 |'
says '| measurement | passed |'

stand_in "$made/bin/ctest" <<<'echo "1 - exec/cuda_test (Skipped)"'
stand_in "$made/bin/compute-sanitizer" <<<'exit 1'
ends 1 --no-peers
says '| bytes of the CPU | **failed**, 1 |'
says '| measurement | passed |'
says "failed: build of the tests; primitives, capture and replay; bytes of the CPU; instructions, by the emulator's formulas; other device tests; accesses to memory; races in"
