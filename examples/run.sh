#!/usr/bin/env bash
# examples/run.sh — installs missing packages, builds the training examples and runs them.
#
#   examples/run.sh                            trains a language model, then classifiers of images
#   examples/run.sh [argument of train]...     trains only the classifiers
#   examples/run.sh --no-install [argument of train]...   lists the missing packages, and fails
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/cmake/dependencies.sh"

build() {
  cd "$root"
  say "examples: configure and build"
  quietly cmake --preset examples
  cmake --build --preset examples --target language train
}

install=yes
if [[ ${1-} == --no-install ]]; then
  install=no
  shift
fi

provide $install "${examples_packages[@]}"
(build)
if (($# == 0)); then
  say "language"
  "$root/build/examples/examples/language/language"
fi
say "train $*"
"$root/build/examples/examples/train/train" "$@"
