# cmake/dependencies.sh — what pith's programs need from Debian, and how to get it. Sourced by the run.sh scripts.

packages=(g++ cmake ninja-build doctest-dev libeigen3-dev libfmt-dev libcli11-dev zlib1g-dev gnuplot-nox
          libopenmpi-dev openmpi-bin libthrust-dev)

say() { printf '\n== %s\n' "$*"; }

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

# provide yes|no package... : installs the packages that are missing; or, with no, names them and fails.
provide() {
  local install=$1 missing
  shift
  if ! command -v dpkg-query >/dev/null; then
    say "This is no Debian: taking for granted what it calls $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    return
  elif [[ $install == no ]]; then
    echo "missing packages: ${missing[*]}" >&2
    return 1
  fi
  say "Installing ${missing[*]}"
  as_root apt-get -qq update >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# Lets CMake find the CUDA Toolkit's nvcc in its usual place, or says that there is none.
look_for_cuda() {
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  if command -v nvcc >/dev/null; then
    say "CUDA: using $(command -v nvcc)"
  else
    say "CUDA: no nvcc here, so the CUDA part is left out"
  fi
}
