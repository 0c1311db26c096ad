# cmake/dependencies.sh — the Debian packages that pith's programs need, and how many compilers run at once. Sourced by
# the run.sh scripts.

examples_packages=(g++ cmake ninja-build libeigen3-dev libfmt-dev libcli11-dev librange-v3-dev zlib1g-dev
                   gnuplot-nox)
tests_packages=("${examples_packages[@]}" doctest-dev libopenmpi-dev openmpi-bin libthrust-dev clang libbenchmark-dev
                libclang-rt-14-dev libmpich-dev llvm-14 mpich python3 valgrind)
long_tests_packages=(g++-aarch64-linux-gnu qemu-user)
torch_packages=(g++ python3-dev python3-torch python3-venv)
packages_packages=(g++-11 python3-venv)
# Of libtorch, Debian's reference BLAS would take seventeen times as long as OpenBLAS.
libtorch_packages=(g++ cmake ninja-build libtorch-dev libopenblas0-pthread libopenmpi-dev openmpi-bin libcli11-dev
                   libfmt-dev xz-utils)
libtorch_tests_packages=("${libtorch_packages[@]}" doctest-dev python3-pytest)

# One compiler per core: Ninja's default, two more, takes 7 % longer on two cores.
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

# A heading, after the minutes and seconds since the script began.
say() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# quietly COMMAND... : prints its output only if it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { printf '%s\n' "$output" >&2; return 1; }
}

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

# provide yes|no package... : installs the packages that are missing; or, with no, lists them and fails.
provide() {
  local install=$1 missing
  shift
  if ! command -v dpkg-query >/dev/null; then
    say "Not Debian: assuming that the equivalents of these packages are installed: $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return; fi
  if [[ $install == no ]]; then
    echo "missing packages: ${missing[*]}" >&2
    return 1
  fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    echo "installing needs root or sudo; missing packages: ${missing[*]}" >&2
    return 1
  fi
  say "Installing ${missing[*]}"
  quietly as_root apt-get update
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# Puts the CUDA Toolkit of the usual place on PATH, where CMake looks for nvcc.
look_for_cuda() {
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  if command -v nvcc >/dev/null; then
    say "CUDA: found $(command -v nvcc)"
  else
    say "CUDA: no nvcc, so the CUDA part is left out"
  fi
}
