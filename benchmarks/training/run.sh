#!/usr/bin/env bash
# benchmarks/training/run.sh — trains models with several codecs and writes the loss of every step as CSV.
#
#   benchmarks/training/run.sh [--python PYTHON] [--out DIR] [--lstm TRAINER WIKITEXT2] [--resnet TRAINER CIFAR10]
#
# Losses do not depend on links, so the four ranks of the GPT run inside one process, one after another, on one thread.
# PYTHON has torch and pith_torch (docs/pytorch.md). DIR is benchmarks/training/results. --lstm also trains an LSTM, and
# --resnet a ResNet-20, on four MPI ranks: TRAINER is the program train_libtorch (docs/libtorch.md), WIKITEXT2 a folder
# with train.txt and valid.txt, and CIFAR10 one with data_batch_1.bin, data_batch_2.bin and test_batch.bin. A run whose
# file is complete is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=python3
out=benchmarks/training/results
trainer=
text=
images=
while (($# > 0)); do
  case $1 in
    --python) python=${2?--python needs a program}; shift ;;
    --out) out=${2?--out needs a folder}; shift ;;
    --lstm) trainer=${2?--lstm needs a program}; text=${3?--lstm needs a folder}; shift 2 ;;
    --resnet) trainer=${2?--resnet needs a program}; images=${3?--resnet needs a folder}; shift 2 ;;
    *) sed -n '/^#   /s/^# //p' benchmarks/training/run.sh >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"

# gpt SEED NAME CODEC ARGUMENT...
gpt() {
  local file=$out/gpt_$2_$1.csv
  if [[ -e $file ]]; then return; fi
  OMP_NUM_THREADS=1 "$python" examples/torch/train_gpt.py --local-ranks 4 --codec "$3" --seed "$1" \
    --evaluate-every 250 --out "$file.part" "${@:4}"
  mv "$file.part" "$file"
}

# torch_power_sgd RANK : torch's hook, on four processes. With two buckets in flight, it hangs on gloo.
torch_power_sgd() {
  local file=$out/gpt_torch_power_sgd_$1_1.csv
  if [[ -e $file ]]; then return; fi
  OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --nproc-per-node 4 examples/torch/train_gpt.py --hook powersgd \
    --power-sgd-rank "$1" --bucket-mb 100 --out "$file.part"
  mv "$file.part" "$file"
}

# on_mpi NAME ARGUMENT... : four ranks of the trainer.
on_mpi() {
  local file=$out/$1.csv
  if [[ -e $file ]]; then return; fi
  OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --oversubscribe --bind-to none -n 4 "$trainer" "${@:2}" --out "$file.part"
  mv "$file.part" "$file"
}

# lstm SEED NAME CODEC
lstm() {
  on_mpi "lstm_$2_$1" --model lstm --data "$text" --codec "$3" --seed "$1" --learning-rate 2 --momentum 0.9 \
    --evaluate-every 500
}

# resnet NAME ARGUMENT... : five epochs of 20,000 images.
resnet() {
  on_mpi "resnet_$1_1" --model resnet --data "$images" --steps 780 --evaluate-every 390 "${@:2}"
}

int4='block_int<4>'
int2='block_int<2>(32,clip)'
signs='scaled_sign(32)'

gpt 1 dense identity
gpt 1 bfloat16 'cast<bfloat16>'
gpt 1 block_int8 'two_shot(block_int<8>)'
gpt 1 block_int4 "ef($int4)"
gpt 1 power_sgd_4 'ef(power_sgd(4))'
gpt 1 power_sgd_16 'ef(power_sgd(16))'
gpt 1 power_sgd_4_bfloat16 'ef(power_sgd(4,2,bfloat16))'
gpt 1 power_sgd_16_bfloat16 'ef(power_sgd(16,2,bfloat16))'
gpt 1 top_k_1 'ef(top_k(0.01))'
gpt 1 scaled_sign 'ef(scaled_sign)'
gpt 1 top_k_1_qsgd8 'ef(top_k(0.01,packed_indices)|qsgd<8>)'
gpt 1 top_k_10 'ef(top_k(0.1))'
gpt 1 qsgd8 'two_shot(qsgd<8>)'
gpt 1 block_int4_two_shot "ef(two_shot($int4,ef($int4)))"
gpt 1 block_int2 "ef($int2)"
gpt 1 block_int2_two_shot "ef(two_shot($int2,ef($int2)))"
gpt 1 scaled_sign_32 "ef($signs)"
gpt 1 scaled_sign_32_two_shot "ef(two_shot($signs,ef($signs)))"
gpt 1 jitter identity --jitter 0.003
torch_power_sgd 1
torch_power_sgd 4
for seed in 2 3; do
  gpt $seed dense identity
  gpt $seed bfloat16 'cast<bfloat16>'
  gpt $seed block_int4_two_shot "ef(two_shot($int4,ef($int4)))"
  gpt $seed block_int2_two_shot "ef(two_shot($int2,ef($int2)))"
done

if [[ -n $text ]]; then
  lstm 1 dense identity
  lstm 1 bfloat16 'cast<bfloat16>'
  lstm 1 top_k_1_qsgd8 'ef(top_k(0.01,packed_indices)|qsgd<8>)'
  lstm 1 block_int4_two_shot "ef(two_shot($int4,ef($int4)))"
  lstm 1 power_sgd_4 'ef(power_sgd(4))'
  lstm 1 power_sgd_4_bfloat16 'ef(power_sgd(4,2,bfloat16))'
  lstm 1 power_sgd_16_bfloat16 'ef(power_sgd(16,2,bfloat16))'
  lstm 1 qsgd8 'two_shot(qsgd<8>)'
  for seed in 2 3; do
    lstm $seed dense identity
    lstm $seed bfloat16 'cast<bfloat16>'
    lstm $seed block_int4_two_shot "ef(two_shot($int4,ef($int4)))"
    lstm $seed top_k_1_qsgd8 'ef(top_k(0.01,packed_indices)|qsgd<8>)'
  done
fi

if [[ -n $images ]]; then
  resnet dense --codec identity
  resnet top_k_10x --codec 'ef(top_k(0.1))'
  resnet gradiveq --controller gradiveq --decisions "$out/resnet_gradiveq.decisions.csv"
  for controller in gravac gravac_by_gradients accordion; do
    resnet $controller --controller $controller --window 40 --decisions "$out/resnet_${controller}.decisions.csv"
  done
  resnet top_k_1000x --codec 'ef(top_k(0.001))'
  resnet top_k_100x --codec 'ef(top_k(0.01))'
fi
