#!/usr/bin/env bash
# tests/bare.sh — runs README's two commands on bare installations of Debian 12 and prints the minutes that each took.
#
#   tests/bare.sh [--dir DIR] [INSTALLATION]...
#     plain        no CUDA, no `ip`; as root
#     user         the same as an ordinary user with sudo, in a path with spaces
#     cuda         with this machine's CUDA Toolkit, mounted read-only
#     old-nvcc     with Debian's own CUDA Toolkit 11.8, which is refused: both commands go on without CUDA
#
# Without names: all of them. An installation is a debootstrap in DIR (build/bare), with this machine's package sources
# and the files that are committed; its logs stay there. Needs root, debootstrap and unshare.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/dependencies.sh

usage() { sed -n '/^#   /s/^# //p' tests/bare.sh >&2; exit 2; }
dir=build/bare
names=()
while (($# > 0)); do
  case $1 in
    --dir) dir=${2?--dir needs a folder}; shift ;;
    plain | user | cuda | old-nvcc) names+=("$1") ;;
    *) usage ;;
  esac
  shift
done
if ((${#names[@]} == 0)); then names=(plain user cuda old-nvcc); fi
((EUID == 0)) || { echo "bare.sh: needs root, for chroot" >&2; exit 1; }
mkdir -p "$dir"
dir=$(realpath "$dir")

# All mounts are in a namespace of their own, and end with it.
if [[ -z ${PITH_BARE_NAMESPACE-} ]]; then
  PITH_BARE_NAMESPACE=1 exec unshare --mount --propagation private tests/bare.sh --dir "$dir" "${names[@]}"
fi

# in_root ROOT COMMAND... : runs a command there, with a bare environment.
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C chroot "$@"; }

mirror() { apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Codename: bookworm' | head -n 1; }

make_base() {
  if [[ -e $dir/base/made ]]; then return; fi
  say "debootstrap into $dir/base"
  rm -rf --one-file-system "$dir/base"
  debootstrap --variant=minbase bookworm "$dir/base" "$(mirror)" >"$dir/debootstrap.log"
  cp /etc/apt/apt.conf.d/* "$dir/base/etc/apt/apt.conf.d/"
  # Debian's installer writes this file, debootstrap does not. Without it each start of MPI waits 10 s for a name server.
  echo "127.0.0.1 localhost $(uname -n)" >"$dir/base/etc/hosts"
  touch "$dir/base/made"
}

# make_root NAME : a copy of the base with the committed files in /src; sets root and src.
make_root() {
  root=$dir/$1
  src=/src
  if [[ $1 == user ]]; then src='/home/builder/a folder/pith'; fi
  rm -rf --one-file-system "$root"
  cp -a "$dir/base" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mkdir -p "$root$src"
  git archive HEAD | tar -x -C "$root$src"
}

add_user() {
  in_root "$root" sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends sudo' >/dev/null 2>&1
  in_root "$root" useradd --create-home --shell /bin/bash builder
  echo 'builder ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/builder"
  in_root "$root" chown -R builder: "/home/builder"
}

mount_toolkit() {
  mkdir -p "$root/usr/local/cuda"
  mount --bind -o ro "$(realpath "${CUDA_HOME:-/usr/local/cuda}")" "$root/usr/local/cuda"
}

add_old_nvcc() {
  sed -i 's/ main$/ main contrib non-free/' "$root/etc/apt/sources.list"
  in_root "$root" sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends nvidia-cuda-toolkit' \
    >"$root.nvcc.log" 2>&1
}

# command_in NAME SCRIPT : runs a script of the project there as its users do, into a log, and prints the minutes.
command_in() {
  local log=$root.${2//\//_}.log status=passed start=$SECONDS
  local as=()
  if [[ $1 == user ]]; then as=(su builder -c); else as=(sh -c); fi
  in_root "$root" "${as[@]}" "cd '$src' && $2" >"$log" 2>&1 </dev/null || status="FAILED, see $log"
  printf '%-9s %-16s %5.1f min, %4.1f of them installing: %s\n' "$1" "$2" "$(minutes $((SECONDS - start)))" \
    "$(minutes "$(installing "$log")")" "$status" | tee -a "$dir/minutes.txt"
  [[ $status == passed ]]
}

minutes() { awk -v s="$1" 'BEGIN { print s / 60 }'; }

# The seconds between the heading of the installation and the next one.
installing() {
  awk -F '[ :]' '/^== [0-9]+:[0-9]+ / { now = $2 * 60 + $3; if (begun) { print now - start; begun = 0; found = 1; exit }
                 if ($4 == "Installing") { begun = 1; start = now } } END { if (!found) print 0 }' "$1"
}

make_base
: >"$dir/minutes.txt"
failed=0
for name in "${names[@]}"; do
  say "$name"
  make_root "$name"
  case $name in
    user) add_user ;;
    cuda) mount_toolkit ;;
    old-nvcc) add_old_nvcc ;;
  esac
  command_in "$name" examples/run.sh || failed=1
  command_in "$name" tests/run.sh || failed=1
  if [[ $name == old-nvcc ]]; then grep -h 'is of CUDA 11.8' "$root".*.log || failed=1; fi
done
say "in all"
cat "$dir/minutes.txt"
exit $failed
