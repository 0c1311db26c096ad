#!/usr/bin/env bash
# benchmarks/peers/run.sh — compares this library with its peers, method by method: builds, measures, reports.
#
#   benchmarks/peers/run.sh [--grace DIR]      minutes on a quiet machine, after one of compiling: writes
#                                              docs/figures/peers_<instructions>.csv and a table of docs/peers.md
#   benchmarks/peers/run.sh --quick            half a minute: fewer values and rounds; prints the table
#   benchmarks/peers/run.sh --no-build [...]   with the program of an earlier build
#   benchmarks/peers/run.sh --device cuda      torch and GRACE on a GPU: prints only their rows
#
# Peers are torch of $PYTHON (python3) and GRACE (github.com/sands-lab/grace), cloned to DIR. Without torch the script
# prints so and returns 77. A row of the CSV is the median of one turn: bytes are those of the payload, error is
# |D(C(x)) - x|^2 / |x|^2, with feedback |residual|^2 / |x|^2 after four steps of the same x.
set -euo pipefail
here=benchmarks/peers
program=build/host/benchmarks/pith_peers
python=${PYTHON-python3}
build=yes
quick=no
device=cpu
grace=
instructions=$(grep -owm1 -e avx512bw -e avx2 /proc/cpuinfo | sort -r | head -n 1 | sed s/bw//)
while (($# > 0)); do
  case $1 in
    --no-build) build=no ;;
    --quick) quick=yes ;;
    --device) device=${2?--device needs a name}; shift ;;
    --grace) grace=$(realpath "${2?--grace needs a folder}"); shift ;;
    *) sed -n '/^#   /s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
"$python" -c 'import numpy, torch' 2>/dev/null ||
  { echo "skipped: $python has no torch; PYTHON=... names another" >&2; exit 77; }

# One thread each. All programs use 2 MiB pages for large blocks; the temporaries of the peers gain most from them.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

# peers FILE ROUNDS : the rows of all peers.
peers() {
  "$python" "$here/torch_peers.py" "$1" --rounds "$2" --device "$device"
  if [[ -n $grace ]]; then "$python" "$here/grace_peers.py" "$1" --rounds "$2" --device "$device" --grace "$grace"; fi
}

# turns DATA FILE TURNS ROUNDS : appends to $rows; this library is the first and the last of all turns.
turns() {
  local turn
  for ((turn = 1; turn <= $3; ++turn)); do
    echo "== $1: turn $turn of $3" >&2
    { "$program" time "$2" "$4"; peers "$2" "$(($4 / 3 + 1))"; } | sed "s/^/$1,$turn,/" >> "$rows"
  done
  "$program" time "$2" "$4" | sed "s/^/$1,$turn,/" >> "$rows"
}

# captured : a quarter of a million values of a gradient, after the header of the file.
captured() {
  local bytes=$((4 << 18))
  head -c $((128 + bytes)) tests/data/gradients/resnet20.npy | tail -c "$bytes"
}

if [[ $build == yes ]]; then
  cmake --preset host
  cmake --build --preset host --target pith_peers
fi
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
rows=$made/rows.csv
echo data,turn,peer,method,verb,n,seconds,rounds,bytes,error,computes > "$rows"
"$program" values 22 > "$made/normal"
captured > "$made/captured"
if [[ $device != cpu ]]; then
  peers "$made/normal" 31
elif [[ $quick == yes ]]; then
  "$program" values 18 > "$made/normal"
  turns normal "$made/normal" 1 7
  "$python" "$here/side_by_side.py" "$rows"
else
  turns normal "$made/normal" 3 31
  turns ResNet-20 "$made/captured" 3 31
  cp "$rows" "docs/figures/peers_$instructions.csv"
  "$python" "$here/side_by_side.py" "$rows" --update docs/peers.md --instructions "$instructions"
fi
