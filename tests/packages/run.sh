#!/usr/bin/env bash
# tests/packages/run.sh — pith as other projects get it, from a clean copy of the checkout in build/packages.
#
#   tests/packages/run.sh            all of these parts
#   tests/packages/run.sh PART...
#
#   files    the lists in the recipes of vcpkg and Spack name the installed files
#   old      CMake 3.22 installs pith, and finds it, also as a subdirectory; it refuses to build pith's own programs
#   fetch    FetchContent unpacks an archive of the right hash, and refuses another
#   conan    conan create, without a remote
#   gcc11    g++ 11 compiles the examples, which print what their comments say
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/dependencies.sh
dir=$PWD/build/packages
copy=$dir/pith

usage() { sed -n '/^#   /s/^# //p' tests/packages/run.sh >&2; exit 2; }

# A folder without the builds and notes of a developer, and an environment with the tools of PyPI.
prepare() {
  say "prepare $dir"
  rm -rf "$dir" && mkdir -p "$copy"
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
  /usr/bin/python3 -m venv "$dir/env"
  "$dir/env/bin/pip" install --quiet 'cmake==3.22.*' conan
}

old_cmake() { "$dir/env/bin/cmake" "$@"; }

# run_consumer CMAKE NAME OPTION... : configures, builds and runs a project that uses pith.
run_consumer() {
  "$1" -S "$copy/tests/find_package/consumer" -B "$dir/$2" "${@:3}"
  "$1" --build "$dir/$2"
  "$dir/$2/consumer"
}

# expect_failure TEXT COMMAND... : the command fails, and says the text.
expect_failure() {
  local output
  if output=$("${@:2}" 2>&1); then echo "must fail: ${*:2}" >&2; return 1; fi
  grep -qF "$1" <<<"$output" || { printf 'expected "%s", got:\n%s\n' "$1" "$output" >&2; return 1; }
}

install_by() { "$1" -S "$copy" -B "$2" && "$1" --install "$2" --prefix "$2/prefix"; }

test_files() { install_by cmake "$dir/new" && python3 "$copy/tests/packages/files.py" "$dir/new/prefix"; }

test_old() {
  install_by old_cmake "$dir/old"
  run_consumer old_cmake old_found -DCMAKE_PREFIX_PATH="$dir/old/prefix" -DCOMPONENTS=mpi
  run_consumer old_cmake old_subdirectory -DPITH_SOURCE_DIR="$copy" -DCOMPONENTS=mpi
  expect_failure "CMake 3.25 or higher is required" old_cmake -S "$copy" -B "$dir/old_examples" -DPITH_BUILD_EXAMPLES=ON
}

test_fetch() {
  local hash archive=$dir/pith.tar.gz
  tar -czf "$archive" -C "$dir" pith
  hash=$(sha256sum "$archive" | cut -d ' ' -f 1)
  run_consumer cmake fetched -DPITH_ARCHIVE="$archive" -DPITH_ARCHIVE_SHA256="$hash"
  run_consumer old_cmake old_fetched -DPITH_ARCHIVE="$archive" -DPITH_ARCHIVE_SHA256="$hash"
  expect_failure "does not match expected value" \
    run_consumer cmake refused -DPITH_ARCHIVE="$archive" -DPITH_ARCHIVE_SHA256="${hash//[0-9]/0}"
}

test_conan() {
  export CONAN_HOME=$dir/conan
  "$dir/env/bin/conan" profile detect
  "$dir/env/bin/conan" create "$copy/cmake/packages/conan" --no-remote
}

test_gcc11() {
  cmake -S "$copy" -B "$dir/gcc11" -G Ninja -DCMAKE_CXX_COMPILER=g++-11 -DCMAKE_BUILD_TYPE=Release -DPITH_CUDA=OFF \
    -DPITH_BUILD_EXAMPLES=ON
  cmake --build "$dir/gcc11" --target example_tests
  ctest --test-dir "$dir/gcc11" -R 'examples/[0-9]' -LE long --output-on-failure --no-tests=error
}

parts=("$@")
if ((${#parts[@]} == 0)); then parts=(files old fetch conan gcc11); fi
for part in "${parts[@]}"; do declare -F "test_$part" >/dev/null || usage; done
prepare
for part in "${parts[@]}"; do
  say "$part"
  "test_$part"
done
say "passed: ${parts[*]}"
