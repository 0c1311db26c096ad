#!/usr/bin/env bash
# tests/torch/run.sh — builds the package pith_torch once, and tests it with one or two versions of torch.
#
#   tests/torch/run.sh debian     with Debian's torch 1.13, the package python3-torch
#   tests/torch/run.sh newest     with the newest torch of PyPI, which takes 6 GB
#   tests/torch/run.sh debian newest
#
# The virtual environments and the wheel lie in build/torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/dependencies.sh

usage() { sed -n '/^#   /s/^# //p' tests/torch/run.sh >&2; exit 2; }

require_disk() {
  local free
  free=$(df --output=avail --block-size=G build/torch | tail -n 1 | tr -dc 0-9)
  ((free >= $1)) || { echo "tests/torch: build/torch needs $1 GB of free disk, found $free GB" >&2; exit 1; }
}

# Debian's torch works only with Debian's Python.
make_environment() {
  /usr/bin/python3 -m venv "$@"
  "${!#}/bin/pip" install --quiet numpy pytest
}

build_package() {
  say "pip wheel ./examples/torch"
  rm -f build/torch/*.whl
  /usr/bin/python3 -m venv build/torch/wheel
  build/torch/wheel/bin/pip wheel --quiet --no-deps --wheel-dir build/torch ./examples/torch
}

test_with() {
  local env=build/torch/$1/env
  case $1 in
    debian) make_environment --system-site-packages $env ;;
    newest) make_environment $env && $env/bin/pip install --quiet torch ;;
  esac
  $env/bin/pip install --quiet --force-reinstall --no-deps build/torch/*.whl
  say "$1: torch $($env/bin/python -c 'import torch; print(torch.__version__)'): test"
  $env/bin/python -m pytest --quiet tests/torch
}

(($# > 0)) || usage
mkdir -p build/torch
for torch in "$@"; do
  case $torch in
    debian) require_disk 4 ;;
    newest) require_disk 14 ;;
    *) usage ;;
  esac
done
build_package
for torch in "$@"; do test_with "$torch"; done
