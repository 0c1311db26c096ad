#!/usr/bin/env bash
# examples/run.sh — installs what is missing, builds the training example and runs it with the arguments given.
#
#   examples/run.sh [argument of train]...
#   examples/run.sh --no-install [argument of train]...   names what is missing, and fails
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/cmake/dependencies.sh"

build() {
  cd "$root"
  say "host: configure and build"
  cmake --preset host
  cmake --build --preset host --target train
}

install=yes
if [[ ${1-} == --no-install ]]; then
  install=no
  shift
fi

provide $install "${packages[@]}"
look_for_cuda
(build)
say "train $*"
"$root/build/host/examples/train/train" "$@"
