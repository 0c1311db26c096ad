#!/usr/bin/env bash
# benchmarks/gpu_training.sh — trains the 10.65 M GPT with four local ranks on one GPU, uncompressed and with codecs.
#
#   benchmarks/gpu_training.sh [--python PYTHON] [--steps N] [--out DIR]
#
# Writes the milliseconds of a step per codec to DIR/gpu_steps.csv (benchmarks/training/gpu_step.py), and the losses of N
# steps (default 1000) to DIR/gpu_NAME.csv (examples/torch/train_gpt.py). The trainings run side by side, so the seconds
# in these files are not those of one training. PYTHON has torch and pith_torch (docs/pytorch.md), and DIR is
# benchmarks/training/results. Without a GPU, the script returns 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=python3
steps=1000
out=benchmarks/training/results
while (($# > 0)); do
  case $1 in
    --python) python=${2?--python needs a program}; shift ;;
    --steps) steps=${2?--steps needs a number}; shift ;;
    --out) out=${2?--out needs a folder}; shift ;;
    *) sed -n '/^#   /s/^# //p' benchmarks/gpu_training.sh >&2; exit 2 ;;
  esac
  shift
done
[[ $("$python" -c 'import torch; print(torch.cuda.is_available())') == True ]] || { echo "skipped: torch finds no GPU" >&2; exit 77; }
mkdir -p "$out"

names=(dense bfloat16 qsgd8 power_sgd_16 top_k_1)
codecs=(identity 'cast<bfloat16>' 'two_shot(qsgd<8>)' 'ef(power_sgd(16))' 'ef(top_k(0.01))')
"$python" benchmarks/training/gpu_step.py "${codecs[@]}" | tee "$out/gpu_steps.csv"

trainings=()
for i in "${!names[@]}"; do
  "$python" examples/torch/train_gpt.py --device cuda --model 10.6M --local-ranks 4 --codec "${codecs[i]}" \
    --steps "$steps" --evaluate-every 250 --out "$out/gpu_${names[i]}.csv" &
  trainings+=($!)
done
failed=
for i in "${!names[@]}"; do
  wait "${trainings[i]}" || failed+=" ${names[i]}"
done
[[ -z $failed ]] || { echo "gpu_training.sh: failed:$failed" >&2; exit 1; }
