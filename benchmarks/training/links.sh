#!/usr/bin/env bash
# benchmarks/training/links.sh — seconds per step of a GPT on four hosts, whose links have a rate.
#
#   benchmarks/training/links.sh [--python PYTHON] [--out DIR] [--steps N] [RATE]...
#
# RATE is 10mbit, 100mbit or 1gbit; without a rate, all three. The four ranks are processes of DDP on gloo, with one
# thread each (benchmarks/network/cluster.sh). PYTHON has torch and pith_torch (docs/pytorch.md). DIR is
# benchmarks/training/results. N is 40. A run whose file is complete is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=python3
out=benchmarks/training/results
steps=40
rates=()
while (($# > 0)); do
  case $1 in
    --python) python=${2?--python needs a program}; shift ;;
    --out) out=${2?--out needs a folder}; shift ;;
    --steps) steps=${2?--steps needs a number}; shift ;;
    *bit) rates+=("$1") ;;
    *) sed -n '/^#   /s/^# //p' benchmarks/training/links.sh >&2; exit 2 ;;
  esac
  shift
done
if ((${#rates[@]} == 0)); then rates=(10mbit 100mbit 1gbit); fi
mkdir -p "$out"
cluster=benchmarks/network/cluster.sh
$cluster check

# rank NUMBER ARGUMENT... : one process of the training.
rank() {
  $cluster on "$1" env RANK="$1" WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=10.83.0.1 MASTER_PORT=29500 OMP_NUM_THREADS=1 \
    GLOO_SOCKET_IFNAME=eth0 "$python" examples/torch/train_gpt.py --steps "$steps" --evaluate-every 0 "${@:2}"
}

# gpt RATE NAME ARGUMENT...
gpt() {
  local file=$out/links_$1_$2.csv number
  if [[ -e $file ]]; then return; fi
  for number in 1 2 3; do rank $number "${@:3}" & done
  rank 0 "${@:3}" --out "$file.part"
  wait
  mv "$file.part" "$file"
}

for rate in "${rates[@]}"; do
  $cluster up 4 "$rate"
  trap '$cluster down' EXIT
  gpt "$rate" torch_dense --hook none
  gpt "$rate" torch_bfloat16 --hook bf16
  gpt "$rate" torch_power_sgd_one_bucket --hook powersgd --bucket-mb 100
  gpt "$rate" dense --codec identity
  gpt "$rate" bfloat16 --codec 'cast<bfloat16>'
  gpt "$rate" block_int8 --codec 'two_shot(block_int<8>)'
  gpt "$rate" block_int4 --codec 'ef(block_int<4>)'
  gpt "$rate" block_int4_two_shot --codec 'ef(two_shot(block_int<4>,ef(block_int<4>)))'
  gpt "$rate" block_int2_two_shot --codec 'ef(two_shot(block_int<2>(32,clip),ef(block_int<2>(32,clip))))'
  gpt "$rate" power_sgd_4 --codec 'ef(power_sgd(4))'
  gpt "$rate" power_sgd_16 --codec 'ef(power_sgd(16))'
  gpt "$rate" top_k_1_qsgd8 --codec 'ef(top_k(0.01)|qsgd<8>)'
  $cluster down
done
