#!/usr/bin/env bash
# benchmarks/network/cluster_test.sh — cluster.sh and run.sh print why they cannot run, and leave no namespace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# refuses STATUS WORDS COMMAND... : the command ends with this status and says these words.
refuses() {
  local status=0 said
  said=$("${@:3}" 2>&1) || status=$?
  [[ $status == "$1" && $said == *"$2"* ]] && return
  echo "expected $1 and \"$2\", got $status and \"$said\": ${*:3}"
  exit 1
}

as_nobody=()
if ((EUID == 0)); then as_nobody=(setpriv --reuid=65534 --clear-groups); fi
skip() { echo "skipped: needs $1"; exit 77; }
[[ $(uname) == Linux ]] || skip Linux
for tool in ip tc mpirun unshare setpriv; do command -v $tool >/dev/null || skip $tool; done
refuses 77 'skipped: needs root' "${as_nobody[@]}" ./cluster.sh run 2 100mbit true
refuses 77 'skipped: needs root' "${as_nobody[@]}" ./run.sh --quick
refuses 2 'cluster.sh run HOSTS LINK' ./cluster.sh
refuses 2 'run.sh --quick' ./run.sh --slowly
if ./cluster.sh check 2>/dev/null; then
  before=$(ip netns list)
  refuses 1 'not 100' ./cluster.sh run 2 100 true
  refuses 1 '1 to 64 hosts, not 65' ./cluster.sh run 65 100mbit true
  refuses 1 'like 20ms, not 20' ./cluster.sh run 2 100mbit+20 true
  [[ $(ip netns list) == "$before" ]]
fi
