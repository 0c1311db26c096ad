#!/usr/bin/env bash
# benchmarks/network/cluster.sh — hosts on one Linux machine, each with a link of a given rate.
#
#   cluster.sh run HOSTS LINK PROGRAM ARGUMENT...   makes the hosts, runs an MPI program on them, one rank each, and
#                                                   removes them
#   cluster.sh up HOSTS LINK                        makes the hosts,
#   cluster.sh on HOST COMMAND...                   runs a command on a host,
#   cluster.sh probe                                prints the round trip and the rate from host 0 to host 1,
#   cluster.sh cut HOST                             takes a host's link down,
#   cluster.sh down                                 removes them
#   cluster.sh check                                returns whether hosts can be made
#
# LINK is a rate: 10mbit, 1gbit, or none for no limit; or a rate and a round trip: 100mbit+20ms.
#
# A host is a network namespace with an interface eth0. A bridge in a separate namespace connects the hosts, so the
# machine's network stays unchanged. With a round trip, delay_switch.cpp takes the place of the bridge. The script makes
# and removes only namespaces called pith-host<N> and pith-bridge. It needs root, ip, tc and Open MPI; for round trips,
# also a C++ compiler and /dev/net/tun; `probe` needs python3. If a tool is missing it prints so and returns 77.
set -euo pipefail

subnet=10.83.0
address() { echo "$subnet.$(($1 + 1))"; }
in_host() { ip netns exec "pith-host$1" "${@:2}"; }
namespaces() { ip netns list | awk '{ print $1 }' | grep -E '^pith-(host[0-9]+|bridge)$' || true; }

skip() { echo "cluster.sh: skipped: $*" >&2; exit 77; }
fail() { echo "cluster.sh: $*" >&2; exit 1; }
usage() { sed -n '/^#   /s/^# //p' "$0" >&2; exit 2; }

require() {
  local tool
  [[ $(uname) == Linux ]] || skip "needs Linux"
  for tool in ip tc mpirun unshare; do command -v $tool >/dev/null || skip "needs $tool"; done
  ((EUID == 0)) || skip "needs root, to make network namespaces"
  [[ $(mpirun --version) == *"Open MPI"* ]] || skip "needs Open MPI's mpirun"
}

bits() {
  [[ $1 =~ ^([1-9][0-9]*)([kmg])bit$ ]] || fail "a link is like 100mbit, 100mbit+20ms, 1gbit or none, not $1"
  case ${BASH_REMATCH[2]} in
    k) echo $((BASH_REMATCH[1] * 1000)) ;;
    m) echo $((BASH_REMATCH[1] * 1000000)) ;;
    g) echo $((BASH_REMATCH[1] * 1000000000)) ;;
  esac
}

largest() { echo $(($1 > $2 ? $1 : $2)); }

# limit NAMESPACE DEVICE RATE : a token bucket. Its burst is 1 ms of traffic, because a larger one passes small messages
# at full speed. Its queue is 50 ms and at least 1 MiB, because senders that share a smaller one lose packets.
limit() {
  [[ $3 != none ]] || return 0
  local rate burst
  rate=$(bits "$3")
  burst=$(largest $((rate / 8 / 1000)) 6144)
  ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "${rate}bit" burst "$burst" \
    limit $((burst + $(largest $((rate / 8 / 20)) 1048576)))
}

# set_tcp HOST BYTES : Reno uses the full rate of a token bucket, unlike other algorithms. Buffers of fixed size make runs
# reproducible.
set_tcp() {
  in_host "$1" sh -c 'cd /proc/sys/net/ipv4 && echo reno > tcp_congestion_control &&
    echo 4096 $0 $0 > tcp_rmem && echo 4096 $(($0 / 2)) $0 > tcp_wmem' "$2"
}

add_host() {
  ip netns add "pith-host$1"
  ip -n "pith-host$1" link set lo up
}

connect_to_bridge() {
  ip -n "pith-host$1" link add eth0 type veth peer name "port$1" netns pith-bridge
  ip -n "pith-host$1" address add "$(address "$1")/24" dev eth0
  ip -n pith-bridge link set "port$1" master bridge
  set_tcp "$1" 524288
  limit "pith-host$1" eth0 "$2"        # what it sends
  limit pith-bridge "port$1" "$2"      # what it receives
  ip -n "pith-host$1" link set eth0 up
  ip -n pith-bridge link set "port$1" up
}

rate_of() { echo "${1%+*}"; }

# round_trip_of LINK : in milliseconds; nothing for a link without one.
round_trip_of() {
  [[ $1 == *+* ]] || return 0
  [[ $1 =~ \+([1-9][0-9]*)ms$ ]] || fail "a round trip is like 20ms, not ${1#*+}"
  echo "${BASH_REMATCH[1]}"
}

probe() {
  local program port=29400
  program=$(dirname "${BASH_SOURCE[0]}")/probe.py
  command -v python3 >/dev/null || skip "needs python3"
  in_host 1 timeout 30 python3 "$program" serve "$(address 1)" $port &
  in_host 0 timeout 30 python3 "$program" measure "$(address 1)" $port 3
  wait $!
}

# Checks before any namespace is made or removed.
check_arguments() {
  local rate
  [[ $1 =~ ^[0-9]+$ ]] && (($1 >= 1 && $1 <= 64)) || fail "1 to 64 hosts, not $1"
  rate=$(rate_of "$2")
  [[ $rate == none ]] || bits "$rate" >/dev/null
  round_trip_of "$2" >/dev/null
  [[ -z $(namespaces) ]] || fail "there are hosts already: remove them with 'cluster.sh down'"
}

up() {
  local host round_trip
  round_trip=$(round_trip_of "$2")
  [[ -z $round_trip ]] || build_switch
  for ((host = 0; host < $1; ++host)); do add_host "$host"; done
  if [[ -n $round_trip ]]; then
    up_switch "$1" "$(rate_of "$2")" "$round_trip"
  else
    up_bridge "$1" "$2"
  fi
}

up_bridge() {
  local host
  ip netns add pith-bridge
  ip -n pith-bridge link set lo up
  ip -n pith-bridge link add bridge type bridge stp_state 0 forward_delay 0
  ip -n pith-bridge link set bridge up
  for ((host = 0; host < $1; ++host)); do connect_to_bridge "$host" "$2"; done
}

switch=/run/pith/delay_switch

# Returns 77 before anything is made if a tool is missing. /run can be written by root alone.
build_switch() {
  local source
  source=$(dirname "${BASH_SOURCE[0]}")/delay_switch.cpp
  [[ -e /dev/net/tun ]] || skip "needs /dev/net/tun"
  mkdir -p "$(dirname "$switch")"
  [[ $switch -nt $source ]] && return
  command -v "${CXX:-g++}" >/dev/null || skip "needs a C++ compiler"
  "${CXX:-g++}" -std=c++20 -O2 "$source" -o "$switch.new"
  mv "$switch.new" "$switch"
}

# up_switch HOSTS RATE ROUND_TRIP : TCP's buffers hold twice what a link carries during a round trip, and at least
# 512 KiB, because larger ones overflow the queues of the devices.
up_switch() {
  local host rate=0 buffer names=()
  [[ $2 == none ]] || rate=$(bits "$2")
  buffer=$(largest $((rate / 8 * $3 * 2 / 1000)) 524288)
  for ((host = 0; host < $1; ++host)); do names+=("pith-host$host"); done
  : > "$switch.log"
  setsid "$switch" "$(awk "BEGIN { print $rate / 1e6 }")" "$3" "${names[@]}" > "$switch.log" 2>&1 < /dev/null &
  timeout 5 sh -c 'until [ -s "$0" ]; do sleep 0.1; done' "$switch.log" || true
  if [[ $(< "$switch.log") != ready ]]; then cat "$switch.log" >&2; return 1; fi
  for ((host = 0; host < $1; ++host)); do
    set_tcp "$host" "$buffer"
    ip -n "pith-host$host" address add "$(address "$host")/24" dev eth0
    ip -n "pith-host$host" link set eth0 mtu 1500 txqueuelen 5000 up
  done
}

down() {
  local name
  pkill -f "^$switch " || true
  for name in $(namespaces); do
    ip netns pids "$name" | xargs --no-run-if-empty kill 2>/dev/null || true
    ip netns delete "$name"
  done
}

# mpirun starts a host's daemon with this in place of ssh: AGENT [OPTION]... ADDRESS COMMAND... A separate host name
# prevents MPI from sharing memory between hosts.
write_agent() {
  cat > "$1" <<AGENT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=pith-host\$((\${1##*.} - 1))
shift
exec ip netns exec "\$host" unshare --uts -- sh -c 'hostname "\$0" && eval "\$*"' "\$host" "\$@"
AGENT
  chmod +x "$1"
}

# The hosts share few cores, which MPI does not detect: ranks are not bound to cores, and a waiting rank yields. With
# put among its flags, TCP would transfer the two directions between two ranks one after the other.
launch() {
  local work=$1 hosts=$2 host
  shift 2
  for ((host = 0; host < hosts; ++host)); do echo "$(address "$host") slots=1"; done > "$work/hosts"
  write_agent "$work/agent"
  in_host 0 unshare --uts -- sh -c 'hostname pith-host0 && exec "$@"' sh \
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    mpirun -np "$hosts" --hostfile "$work/hosts" --map-by node --bind-to none \
    --mca plm_rsh_agent "$work/agent" --mca orte_keep_fqdn_hostnames 1 --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca btl_tcp_flags send,inplace \
    --mca mpi_yield_when_idle 1 "$@"
}

run() {
  local hosts=$1 link=$2
  shift 2
  check_arguments "$hosts" "$link"
  work=$(mktemp --directory)
  trap 'down; rm -r "$work"' EXIT
  trap 'exit 130' INT TERM
  up "$hosts" "$link"
  launch "$work" "$hosts" "$@" & wait $!  # so that a signal is heard at once
}

(($# > 0)) || usage
command=$1
shift
require
case $command in
  check) unshare --net true || skip "this root may make no network namespaces" ;;
  run) (($# >= 3)) || usage; run "$@" ;;
  up) (($# == 2)) || usage; check_arguments "$@"; trap down EXIT; up "$@"; trap - EXIT ;;
  on) (($# >= 2)) || usage; in_host "$@" ;;
  probe) (($# == 0)) || usage; probe ;;
  cut) (($# == 1)) || usage; ip -n "pith-host$1" link set eth0 down ;;
  down) down ;;
  *) usage ;;
esac
