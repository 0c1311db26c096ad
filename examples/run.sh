#!/usr/bin/env bash
# examples/run.sh — installs missing packages, builds the training example and runs it.
#
#   examples/run.sh [argument of train]...
#   examples/run.sh --no-install [argument of train]...   lists the missing packages, and fails
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/cmake/dependencies.sh"

build() {
  cd "$root"
  say "examples: configure and build"
  quietly cmake --preset examples
  cmake --build --preset examples --target train
}

install=yes
if [[ ${1-} == --no-install ]]; then
  install=no
  shift
fi

provide $install "${examples_packages[@]}"
(build)
say "train $*"
"$root/build/examples/examples/train/train" "$@"
