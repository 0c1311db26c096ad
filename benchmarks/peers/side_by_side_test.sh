#!/usr/bin/env bash
# benchmarks/peers/side_by_side_test.sh — unequal work fails; missed targets are marked; without torch: skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v python3 > /dev/null || { echo "skipped: needs python3"; exit 77; }
rows=$(mktemp)
trap 'rm "$rows"' EXIT

# row PEER METHOD NANOSECONDS ERROR : for each of $n values of $data.
data=normal
n=4194304
verb=encode
row() { echo "$data,1,$1,$2,$verb,$n,$(awk "BEGIN { print $3 * $n / 1e9 }"),5,524292,$4,in words" >> "$rows"; }
begin() {
  echo data,turn,peer,method,verb,n,seconds,rounds,bytes,error,computes > "$rows"
  verb=copy row "pith (GNU)" memcpy 0.5 0
  row "$@"
}
says() { grep -qF "$1" <<< "$said" || { echo "expected \"$1\", got \"$said\""; exit 1; }; }
passes() { said=$(PYTHONDONTWRITEBYTECODE=1 ./side_by_side.py "$rows"); says "$1"; }
fails() {
  said=$(PYTHONDONTWRITEBYTECODE=1 ./side_by_side.py "$rows" 2>&1) && { echo "let pass: $1"; exit 1; }
  says "$1"
}

begin "pith (GNU)" one_bit 1 0.36
row torch one_bit 5.1 0.360001
passes '| `one_bit` | encode | 2 | 0.125 | 0.36 | torch | in words | 10 | 0.125 | 0.36 | 5.1 | 5 | yes |'
row GRACE one_bit 4.9 0.36
passes '| 4.9 | 5 | **no** |'
row "pith (GNU)" one_bit 0.5 0.36
row "pith (GNU)" one_bit 0.5 0.36
passes '| 9.8 | 5 | yes |'
row "also torch" one_bit 4.9 0.3601
fails 'not the same work'

begin "pith (GNU)" qsgd8 1 0.0013
row torch qsgd8 21 0.001304
passes '| 21 | 20 | yes |'
row GRACE qsgd8 21 0.00131
fails 'qsgd8, encode: GRACE (in words) has an error of 0.00131, expected 0.0013'

begin "pith (GNU)" "ef(power_sgd)" 1 15.87
row torch "ef(power_sgd)" 2 15.87
passes '| 2 |  |  |'
row GRACE "ef(power_sgd)" 2 15.95
fails 'ef(power_sgd)'

n=262144
begin "pith (GNU)" qsgd8 1 0.0013
row torch qsgd8 21 0.0013
passes '| 21 |  |  |'
data=captured
begin "pith (GNU)" qsgd8 1 0.0013
row torch qsgd8 21 0.0026
passes '| 21 |  |  |'
row "pith (GNU)" one_bit 1 0.36
row torch one_bit 2 0.3601
fails 'captured, one_bit'

begin "pith (GNU)" half 1 4e-8
row torch half 2 nan
fails 'nan'

status=0
said=$(PYTHON=false ./run.sh --no-build 2>&1) || status=$?
[[ $status == 77 ]] || { echo "expected 77, got $status"; exit 1; }
says 'skipped: false has no torch'
status=0
said=$(./run.sh --slowly 2>&1) || status=$?
[[ $status == 2 ]] || { echo "expected 2, got $status"; exit 1; }
says 'run.sh --quick'
