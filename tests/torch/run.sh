#!/usr/bin/env bash
# tests/torch/run.sh — installs torch and pith_torch into a virtual environment in build/torch, and tests the package.
#
#   tests/torch/run.sh debian     with Debian's torch 1.13, the package python3-torch
#   tests/torch/run.sh newest     with the newest torch of PyPI, which takes 6 GB
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/dependencies.sh

usage() { sed -n '/^#   /s/^# //p' tests/torch/run.sh >&2; exit 2; }

require_disk() {
  local free
  free=$(df --output=avail --block-size=G "$dir" | tail -n 1 | tr -dc 0-9)
  ((free >= $1)) || { echo "tests/torch: $dir needs $1 GB of free disk, found $free GB" >&2; exit 1; }
}

# Debian's torch works only with Debian's Python.
make_environment() {
  /usr/bin/python3 -m venv "$@" "$dir/env"
  "$dir/env/bin/pip" install --quiet numpy pytest
}

dir=build/torch/${1-}
mkdir -p "$dir"
case ${1-} in
  debian) require_disk 4 && make_environment --system-site-packages ;;
  newest) require_disk 14 && make_environment && "$dir/env/bin/pip" install --quiet torch ;;
  *) usage ;;
esac
say "$1: torch $("$dir/env/bin/python" -c 'import torch; print(torch.__version__)'): pip install ./examples/torch"
"$dir/env/bin/pip" install --quiet ./examples/torch
say "$1: test"
"$dir/env/bin/python" -m pytest --quiet tests/torch
