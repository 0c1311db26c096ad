#!/usr/bin/env bash
# examples/libtorch/run.sh — installs missing packages, builds the trainer on libtorch, and trains on four ranks.
#
#   examples/libtorch/run.sh [--wikitext2 DIR] [--cifar10 DIR]    DIR: train.txt and valid.txt; data_batch_1.bin and
#                                                                 test_batch.bin; each may be compressed by xz
#   examples/libtorch/run.sh --no-install ...                     lists the missing packages, and fails
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/cmake/dependencies.sh"
build=$root/build/libtorch

usage() { sed -n '/^#   /s/^# //p' "$root/examples/libtorch/run.sh" >&2; exit 2; }

build() {
  say "libtorch: configure and build; the first time, pith's codecs take 14 CPU minutes"
  quietly cmake -S "$root/examples/libtorch" -B "$build" -G Ninja
  cmake --build "$build" --target train_libtorch
}

# unpack FROM TO : copies a file, or decompresses it.
unpack() {
  [[ -e $2 ]] && return
  mkdir -p "$(dirname "$2")"
  if [[ -e $1 ]]; then cp "$1" "$2"; else xz --decompress --stdout "$1.xz" >"$2"; fi
}

train() {
  say "train_libtorch $*"
  OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun --oversubscribe --bind-to none -n 4 "$build/train_libtorch" "$@"
}

install=yes
wikitext2=
cifar10=
while (($# > 0)); do
  case $1 in
    --no-install) install=no ;;
    --wikitext2) wikitext2=${2:?} && shift ;;
    --cifar10) cifar10=${2:?} && shift ;;
    *) usage ;;
  esac
  shift
done

provide $install "${libtorch_packages[@]}"
build
mkdir -p "$build/data"
gzip --decompress --stdout "$root/examples/data/shakespeare.txt.gz" >"$build/data/shakespeare.txt"
train --data "$build/data/shakespeare.txt" --codec 'ef(power_sgd(4))' --steps 20 --evaluate-every 20
if [[ -n $wikitext2 ]]; then
  for file in train.txt valid.txt; do unpack "$wikitext2/$file" "$build/data/wikitext2/$file"; done
  train --model lstm --data "$build/data/wikitext2" --codec 'two_shot(qsgd<8>)' --steps 20 --evaluate-every 20
fi
if [[ -n $cifar10 ]]; then
  for file in data_batch_1.bin test_batch.bin; do unpack "$cifar10/$file" "$build/data/cifar10/$file"; done
  train --model resnet --data "$build/data/cifar10" --codec 'ef(top_k(0.01)|qsgd<8>)' --steps 10 --evaluate-every 10
fi
