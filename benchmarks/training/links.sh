#!/usr/bin/env bash
# benchmarks/training/links.sh — seconds per step of a GPT and an LSTM on four hosts, whose links have a rate.
#
#   benchmarks/training/links.sh [--python PYTHON] [--lstm TRAINER WIKITEXT2] [--resnet TRAINER CIFAR10] [--out DIR]
#       [--steps N] [LINK]...
#   benchmarks/training/links.sh --whole ...     all steps, with losses, of two or three exchanges per model
#   benchmarks/training/links.sh --adaptive ...  all steps of the LSTM, with constant densities and with controllers
#   benchmarks/training/links.sh --grace ...     all steps of the LSTM, with the methods of GRACE
#
# LINK is one of benchmarks/network/cluster.sh: 100mbit, or 100mbit+20ms with a round trip; the default is 10mbit,
# 100mbit, 1gbit and 100mbit+20ms. The ranks of the GPT are processes of DDP on gloo, those of the LSTM and of the
# ResNet-20 are MPI ranks, with one thread each. PYTHON has torch and pith_torch (docs/pytorch.md). TRAINER is the program
# train_libtorch (docs/libtorch.md), WIKITEXT2 a folder with train.txt and valid.txt, and CIFAR10 one with
# data_batch_1.bin, data_batch_2.bin and test_batch.bin. DIR is benchmarks/training/results. N is 40. A run whose file is
# complete is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=python3
out=benchmarks/training/results
trainer=
text=
images=
steps=40
kind=steps
links=()
while (($# > 0)); do
  case $1 in
    --python) python=${2?--python needs a program}; shift ;;
    --lstm) trainer=${2?--lstm needs a program}; text=${3?--lstm needs a folder}; shift 2 ;;
    --resnet) trainer=${2?--resnet needs a program}; images=${3?--resnet needs a folder}; shift 2 ;;
    --out) out=${2?--out needs a folder}; shift ;;
    --steps) steps=${2?--steps needs a number}; shift ;;
    --whole) kind=whole ;;
    --adaptive) kind=adaptive ;;
    --grace) kind=grace ;;
    *bit*) links+=("$1") ;;
    *) sed -n '/^#   /s/^# //p' benchmarks/training/links.sh >&2; exit 2 ;;
  esac
  shift
done
if ((${#links[@]} == 0)); then links=(10mbit 100mbit 1gbit 100mbit+20ms); fi
mkdir -p "$out"
cluster=benchmarks/network/cluster.sh
$cluster check

# The hosts of another run stay: `up` fails if there are any.
up() { $cluster up 4 "$1" && trap '$cluster down' EXIT; }
down() { $cluster down && trap - EXIT; }

# rank NUMBER ARGUMENT... : one process of the GPT's training.
rank() {
  $cluster on "$1" env RANK="$1" WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=10.83.0.1 MASTER_PORT=29500 OMP_NUM_THREADS=1 \
    GLOO_SOCKET_IFNAME=eth0 "$python" examples/torch/train_gpt.py "${@:2}"
}

# gpt FILE LINK ARGUMENT...
gpt() {
  local file=$out/$1.csv number others=()
  if [[ -e $file ]]; then return; fi
  up "$2"
  for number in 1 2 3; do rank $number "${@:3}" & others+=($!); done
  rank 0 "${@:3}" --out "$file.part"
  for number in "${others[@]}"; do wait "$number"; done
  down
  mv "$file.part" "$file"
}

# on_mpi FILE LINK ARGUMENT...
on_mpi() {
  local file=$out/$1.csv
  if [[ -e $file ]]; then return; fi
  OMP_NUM_THREADS=1 $cluster run 4 "$2" "$trainer" "${@:3}" --out "$file.part"
  mv "$file.part" "$file"
}

# lstm FILE LINK ARGUMENT...
lstm() { on_mpi "${@:1:2}" --model lstm --data "$text" --learning-rate 2 --momentum 0.9 "${@:3}"; }
lstm_without_momentum() { on_mpi "${@:1:2}" --model lstm --data "$text" --learning-rate 2 --momentum 0 "${@:3}"; }
resnet() { on_mpi "${@:1:2}" --model resnet --data "$images" "${@:3}"; }

# probe LINK : what is measured of the link, and where.
probe() {
  local file=$out/links_$1.txt
  if [[ -e $file ]]; then return; fi
  up "$1"
  echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(date +%F)" > "$file.part"
  $cluster probe >> "$file.part"
  down
  mv "$file.part" "$file"
}

int4='block_int<4>'
int2='block_int<2>(32,clip)'
sparse='top_k(0.01,packed_indices)|qsgd<8>'
short='top_k(0.01)|qsgd<8>'

# is_fast LINK : at 10 Mbit/s, a step with floats takes more than four seconds.
is_fast() { [[ $1 != 10mbit* ]]; }

gpt_steps() {
  local name=links_gpt_$1 few=(--steps "$steps" --evaluate-every 0)
  if is_fast "$1"; then
    gpt "${name}_torch_dense" "$1" "${few[@]}" --hook none
    gpt "${name}_dense" "$1" "${few[@]}" --codec identity
  fi
  gpt "${name}_torch_bfloat16" "$1" "${few[@]}" --hook bf16
  gpt "${name}_torch_power_sgd_1" "$1" "${few[@]}" --hook powersgd --bucket-mb 100
  gpt "${name}_torch_power_sgd_4" "$1" "${few[@]}" --hook powersgd --power-sgd-rank 4 --bucket-mb 100
  gpt "${name}_bfloat16" "$1" "${few[@]}" --codec 'cast<bfloat16>'
  gpt "${name}_block_int8" "$1" "${few[@]}" --codec 'two_shot(block_int<8>)'
  gpt "${name}_block_int4" "$1" "${few[@]}" --codec "ef($int4)"
  gpt "${name}_block_int4_two_shot" "$1" "${few[@]}" --codec "ef(two_shot($int4,ef($int4)))"
  gpt "${name}_block_int2_two_shot" "$1" "${few[@]}" --codec "ef(two_shot($int2,ef($int2)))"
  gpt "${name}_power_sgd_4" "$1" "${few[@]}" --codec 'ef(power_sgd(4))'
  gpt "${name}_power_sgd_16" "$1" "${few[@]}" --codec 'ef(power_sgd(16))'
  gpt "${name}_power_sgd_4_bfloat16" "$1" "${few[@]}" --codec 'ef(power_sgd(4,2,bfloat16))'
  gpt "${name}_power_sgd_16_bfloat16" "$1" "${few[@]}" --codec 'ef(power_sgd(16,2,bfloat16))'
  gpt "${name}_top_k_1_qsgd8" "$1" "${few[@]}" --codec "ef($sparse)"
}

lstm_steps() {
  local name=links_lstm_$1 few=(--steps "$steps" --evaluate-every 0)
  if is_fast "$1"; then
    lstm "${name}_mpi_dense" "$1" "${few[@]}" --dense float
    lstm "${name}_dense" "$1" "${few[@]}" --codec identity
  fi
  lstm "${name}_mpi_bfloat16" "$1" "${few[@]}" --dense bfloat16
  lstm "${name}_bfloat16" "$1" "${few[@]}" --codec 'cast<bfloat16>'
  lstm "${name}_bfloat16_pairwise" "$1" "${few[@]}" --codec 'cast<bfloat16>' --pairwise
  lstm "${name}_qsgd8" "$1" "${few[@]}" --codec 'two_shot(qsgd<8>)'
  lstm "${name}_block_int4_two_shot" "$1" "${few[@]}" --codec "ef(two_shot($int4,ef($int4)))"
  lstm "${name}_block_int4_two_shot_pairwise" "$1" "${few[@]}" --codec "ef(two_shot($int4,ef($int4)))" --pairwise
  lstm "${name}_power_sgd_4" "$1" "${few[@]}" --codec 'ef(power_sgd(4))'
  lstm "${name}_power_sgd_4_bfloat16" "$1" "${few[@]}" --codec 'ef(power_sgd(4,2,bfloat16))'
  lstm "${name}_power_sgd_4_bfloat16_pairwise" "$1" "${few[@]}" --codec 'ef(power_sgd(4,2,bfloat16))' --pairwise
  lstm "${name}_power_sgd_16_bfloat16" "$1" "${few[@]}" --codec 'ef(power_sgd(16,2,bfloat16))'
  lstm "${name}_top_k_1_qsgd8" "$1" "${few[@]}" --codec "ef($sparse)"
  lstm "${name}_top_k_1_elias_fano_qsgd8" "$1" "${few[@]}" --codec "ef($short)"
}

resnet_steps() {
  local name=links_resnet_$1 few=(--steps "$steps" --evaluate-every 0)
  resnet "${name}_dense" "$1" "${few[@]}" --codec identity
  resnet "${name}_bfloat16" "$1" "${few[@]}" --codec 'cast<bfloat16>'
  resnet "${name}_top_k_10x" "$1" "${few[@]}" --codec 'ef(top_k(0.1))'
  resnet "${name}_top_k_100x" "$1" "${few[@]}" --codec 'ef(top_k(0.01))'
  resnet "${name}_top_k_1000x" "$1" "${few[@]}" --codec 'ef(top_k(0.001))'
  resnet "${name}_gradiveq" "$1" "${few[@]}" --controller gradiveq --decisions "$out/${name}_gradiveq.decisions.csv"
}

gpt_whole() {
  local name=whole_gpt_$1
  gpt "${name}_block_int4_two_shot" "$1" --codec "ef(two_shot($int4,ef($int4)))"
  gpt "${name}_torch_bfloat16" "$1" --hook bf16
  gpt "${name}_torch_dense" "$1" --hook none
}

# The learning rate is constant, so a codec that loses accuracy may train longer.
lstm_whole() {
  local name=whole_lstm_$1
  lstm "${name}_block_int4_two_shot" "$1" --codec "ef(two_shot($int4,ef($int4)))"
  lstm "${name}_top_k_1_qsgd8" "$1" --codec "ef($sparse)" --steps 2000
  lstm "${name}_mpi_bfloat16" "$1" --dense bfloat16
  lstm "${name}_dense" "$1" --codec identity
}

# The factors of GraVAC's paper. A larger factor may need more steps to reach the loss of the smallest.
lstm_adaptive() {
  local name=adaptive_lstm_$1
  lstm "whole_lstm_$1_dense" "$1" --codec identity  # also one of the whole trainings
  lstm "${name}_top_k_10x" "$1" --codec 'ef(top_k(0.1))'
  lstm "${name}_top_k_100x" "$1" --codec 'ef(top_k(0.01))' --steps 2000
  lstm "${name}_top_k_1000x" "$1" --codec 'ef(top_k(0.001))' --steps 2000
  for controller in gravac gravac_by_gradients accordion; do
    lstm "${name}_$controller" "$1" --controller $controller --window 50 --steps 2000 \
      --decisions "$out/${name}_$controller.decisions.csv"
  done
}
# The codecs of examples/train/methods.hpp. Momentum multiplies the longest step by 1 / (1 - 0.9). DGC has this momentum
# in its memory, before the clipping. Every mean of signs is clipped, so its step has a constant length.
lstm_grace() {
  local name=grace_lstm_$1
  lstm "${name}_none" "$1" --codec identity
  lstm "${name}_bfloat16" "$1" --codec 'cast<bfloat16>'
  lstm "${name}_eight_bit" "$1" --codec 'ef(eight_bit)'
  lstm "${name}_one_bit" "$1" --codec 'ef(one_bit)'
  lstm_without_momentum "${name}_sign" "$1" --codec sign
  lstm_without_momentum "${name}_signum" "$1" --codec 'ef(sign,signum_momentum(0.9))'
  lstm "${name}_ef_sign" "$1" --codec 'ef(scaled_sign,ef_sign(2))'
  lstm "${name}_qsgd" "$1" --codec 'qsgd<8>'
  lstm "${name}_terngrad" "$1" --codec terngrad
  lstm "${name}_natural" "$1" --codec 'ef(natural<8>)'
  lstm "${name}_inceptionn" "$1" --codec 'inceptionn(reference)'
  lstm "${name}_random_k" "$1" --codec 'ef(random_k(0.01))'
  lstm "${name}_top_k" "$1" --codec 'ef(top_k(0.01))'
  lstm "${name}_threshold" "$1" --codec 'ef(threshold(0.01,0.25))'
  lstm_without_momentum "${name}_dgc" "$1" --clip 2.5 --codec 'ef(top_k(0.01),momentum_correction(0.9))'
  lstm "${name}_adaptive_threshold" "$1" --codec 'ef(adaptive_threshold(0.01))'
  lstm "${name}_sketch_ml" "$1" --codec 'ef(sketch_ml<6>,unverified)'
  lstm "${name}_power_sgd" "$1" --codec 'ef(power_sgd(1))'
}

# train MODEL LINK : nothing, if the model has no trainings of this kind.
train() { if declare -F "$1_$kind" > /dev/null; then "$1_$kind" "$2"; fi; }

if [[ $kind != @(steps|whole) && -z $text ]]; then
  echo "links.sh: --$kind needs --lstm" >&2
  exit 2
fi
for link in "${links[@]}"; do
  probe "$link"
  if [[ -n $text ]]; then train lstm "$link"; fi
  if [[ -n $images ]]; then train resnet "$link"; fi
  train gpt "$link"
done
