#!/usr/bin/env bash
# tests/torch/run.sh — installs torch and pith_torch into a virtual environment of build/torch, and tests the package.
#
#   tests/torch/run.sh newest       the newest torch of PyPI: 5.4 GB
#   tests/torch/run.sh debian       Debian's torch 1.13, as the package python3-torch
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/dependencies.sh

usage() { sed -n '/^#   /s/^# //p' tests/torch/run.sh >&2; exit 2; }
[[ ${1-} == newest || ${1-} == debian ]] || usage
dir=build/torch/$1
mkdir -p "$dir"

# A virtual environment of Debian's python3, because Debian's torch works with no other.
needed=8
if [[ $1 == newest ]]; then needed=14; fi
free=$(df --output=avail -BG "$dir" | tail -n 1 | tr -dc 0-9)
if ((free < needed)); then
  echo "tests/torch: needs $needed GB of free disk in $dir, found $free GB" >&2
  exit 1
fi

if [[ $1 == newest ]]; then
  /usr/bin/python3 -m venv "$dir/env"
  "$dir/env/bin/pip" install --quiet torch
else
  /usr/bin/python3 -m venv --system-site-packages "$dir/env"
fi
say "$1: torch $("$dir/env/bin/python" -c 'import torch; print(torch.__version__)')"
"$dir/env/bin/pip" install --quiet pytest numpy
begun=$SECONDS
"$dir/env/bin/pip" install --quiet ./examples/torch
say "$1: pip install took $((SECONDS - begun)) s"
"$dir/env/bin/python" -m pytest --quiet tests/torch
