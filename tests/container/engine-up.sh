#!/usr/bin/env bash
# Starts a Docker engine on a bare Debian machine (12 or newer, root, with or without systemd), so that
# the container test runs on CI machines that have neither Docker nor a container registry.
#
#   engine-up.sh          install what is missing and start the engine; does nothing where one answers
#   engine-up.sh stop     stop the engine that this script started
#
# Environment: STATE_DIR (log, pid file; default /var/lib/chat-server-test), DOCKER_SUITE (the Debian
# suite that Docker's packages come from; default trixie, whose compose and buildx are new enough).
set -euo pipefail

STATE_DIR=${STATE_DIR:-/var/lib/chat-server-test}
DOCKER_SUITE=${DOCKER_SUITE:-trixie}
PID_FILE=$STATE_DIR/dockerd.pid
LOG=$STATE_DIR/dockerd.log
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

say() { printf 'engine-up: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
engine_answers() { timeout 20 docker info >/dev/null 2>&1; }

is_running() { # PID NAME: that process lives under that name, and is neither a zombie nor a reused number
  [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ] && ! grep -qs '^State:.*Z' "/proc/$1/status"
}

have_tools() {
  command -v dockerd && command -v iptables && docker compose version && docker buildx version
} >/dev/null 2>&1

install_tools() {
  local own suite scratch mirror
  command -v apt-get >/dev/null || fail "no apt-get here: install Docker with compose and buildx, then try again"
  own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  suite=$DOCKER_SUITE
  scratch=$(mktemp -d)
  mkdir "$scratch/sources" "$scratch/preferences"
  # This machine's own sources and pins, and for these calls only one more suite, pinned so that
  # nothing but Docker's packages can come from it: the machine is not upgraded by the way.
  cp /etc/apt/sources.list.d/* "$scratch/sources/" 2>/dev/null || true
  cp /etc/apt/preferences.d/* "$scratch/preferences/" 2>/dev/null || true
  local docker=(docker.io docker-cli docker-buildx docker-compose containerd)
  if [ "$suite" != "$own" ]; then
    mirror=$(apt-get --print-uris update | sed -n "s|^'\(.*\)/dists/$own/InRelease'.*|\1|p" | head -n 1)
    [ -n "$mirror" ] || fail "this machine's apt sources name no Debian mirror"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
      >"$scratch/sources/docker-suite.list"
    cat >"$scratch/preferences/00docker-suite" <<PINS
Package: *
Pin: release n=$suite
Pin-Priority: -1

Package: ${docker[*]}
Pin: release n=$suite
Pin-Priority: 990
PINS
  fi
  local apt=(apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold
    -o "Dir::Etc::sourceparts=$scratch/sources" -o "Dir::Etc::preferencesparts=$scratch/preferences")
  # An unreachable source of a third party is no reason to stop; a missing package is, below.
  "${apt[@]}" update >"$STATE_DIR/apt.log" 2>&1 || true
  "${apt[@]}" install -y --no-install-recommends iptables runc mmdebstrap "${docker[@]}" >>"$STATE_DIR/apt.log" 2>&1 ||
    { tail -n 20 "$STATE_DIR/apt.log" >&2; fail "apt-get could not install Docker"; }
  rm -r "$scratch"
}

mount_cgroups() { # what an init system does; these machines may have none
  mountpoint -q /sys/fs/cgroup && return
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  local controller
  while read -r controller; do
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || rmdir "/sys/fs/cgroup/$controller"
  done < <(awk '!/^#/ && $4 == 1 { print $1 }' /proc/cgroups)
}

clear_leftovers() { # of an engine that was killed: its pid files would stop the next one
  local file pid
  for file in "$PID_FILE" /run/docker.pid; do
    [ -s "$file" ] || continue
    ! is_running "$(cat "$file")" dockerd || fail "dockerd $(cat "$file") runs but does not answer"
    rm "$file"
  done
  file=/run/docker/containerd/containerd.pid
  [ -s "$file" ] || return 0
  pid=$(cat "$file")
  if is_running "$pid" containerd; then
    kill "$pid"
    for _ in {1..40}; do is_running "$pid" containerd || break; sleep 0.25; done
  fi
  rm -f "$file"
}

try_engine() { # FLAGS: 0 once dockerd answers, 1 when it dies or says nothing for 40 s
  local pid attempt
  : >"$LOG"
  setsid nohup dockerd --pidfile="$PID_FILE" "$@" >>"$LOG" 2>&1 </dev/null 9>&- &
  pid=$!
  for attempt in {1..160}; do
    if engine_answers; then say "engine started with $*"; return 0; fi
    # In its first moments the process is still setsid or nohup, which then become dockerd.
    if [ "$attempt" -gt 8 ] && ! is_running "$pid" dockerd; then return 1; fi
    sleep 0.25
  done
  kill "$pid" 2>/dev/null || true
  return 1
}

start_engine() {
  local device mtu
  clear_leftovers
  mount_cgroups
  sysctl -qw net.ipv4.ip_forward=1 2>/dev/null || true
  device=$(ip -o route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
  mtu=$(cat "/sys/class/net/${device:-lo}/mtu" 2>/dev/null || echo 1500)
  [ "$mtu" -le 1500 ] || mtu=1500
  # A machine inside a container may have no overlay file system. The slow driver gets a folder of its
  # own: a build cache does not survive a change of driver.
  try_engine --storage-driver=overlay2 --mtu="$mtu" ||
    try_engine --storage-driver=vfs --data-root=/var/lib/docker-vfs --mtu="$mtu" ||
    { tail -n 30 "$LOG" >&2; fail "dockerd does not start, see $LOG"; }
}

stop_engine() {
  local pid
  [ -s "$PID_FILE" ] || { say "no engine of this script's runs"; return; }
  pid=$(cat "$PID_FILE")
  is_running "$pid" dockerd || { rm -f "$PID_FILE"; return; }
  kill "$pid"
  for _ in {1..200}; do is_running "$pid" dockerd || { say "engine stopped"; return; }; sleep 0.25; done
  fail "dockerd $pid still runs 50 s after SIGTERM"
}

case ${1:-up} in
  up)
    if engine_answers && docker compose version >/dev/null 2>&1; then say "an engine already answers"; exit 0; fi
    [ "$(id -u)" = 0 ] || fail "no Docker engine answers, and starting one needs root"
    mkdir -p "$STATE_DIR"
    exec 9>"$STATE_DIR/lock"
    flock -w 600 9 || fail "another run holds $STATE_DIR/lock"
    have_tools || install_tools
    engine_answers || start_engine
    ;;
  stop) stop_engine ;;
  *) fail "unknown argument $1" ;;
esac
