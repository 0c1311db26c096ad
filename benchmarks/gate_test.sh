#!/usr/bin/env bash
# benchmarks/gate_test.sh — the gate accepts the counts that it should, and no others.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/gate.sh"
table=$(mktemp)
trap 'rm "$table"' EXIT
measured_as "# Things." "GNU 12 Release" <<<$'100 encode a\n0.5 decode a|b' >"$table"

passes() { compare "$table" 1.15 <<<"$1" >/dev/null || { echo "refused: $1"; exit 1; }; }
fails() { ! compare "$table" 1.15 <<<"$1" >/dev/null || { echo "let pass: $1"; exit 1; }; }

passes $'100 encode a\n0.5 decode a|b'
passes $'0.1 decode a|b\n114.9 encode a'
fails $'115.1 encode a\n0.5 decode a|b'
fails $'100 encode a\n0.6 decode a|b'
fails $'100 encode a'
fails $'100 encode a\n0.5 decode a|b\n1 encode c'
fails ''
(require_compiler "$table" "GNU 12 Release")
status=0
said=$(require_compiler "$table" "GNU 13 Release") || status=$?
[[ $status == 77 && $said == "skipped: with GNU 12 Release, but this is GNU 13 Release" ]]
status=0
said=$(require_compiler "$table.none" "Clang 14 Release") || status=$?
[[ $status == 77 && $said == "skipped: no table with Clang 14 Release" ]]
