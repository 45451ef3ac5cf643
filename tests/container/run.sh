#!/usr/bin/env bash
# The container test (`make test-container`): builds the CPU image, starts it with docker compose, asks
# it from outside, plain and streamed, stops it, and looks at what is left.
#
# Uses the Docker engine that answers. Where none does, it installs and starts one (engine-up.sh: Debian
# and root). Where no container registry can be reached, a base image made from a Debian mirror stands
# in for the official one (base-image.sh). Cleans up after itself; the build cache stays.
#
# Environment: BASE_IMAGE, TORCH_CPU_INDEX, PIP_INDEX_URL as for the build;
#              KEEP=1 leaves container, volumes, image and engine for a look.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
project=chat-server-test-$$
service=chat-cpu
scratch=$(mktemp -d)
export TEST_IMAGE=chat-server-test:$$ TEST_WHEELS=$scratch/wheels
passed=0
failed=0
engine_is_ours=
container=
mkdir "$TEST_WHEELS"

say() { printf '== %s\n' "$*"; }
pass() { passed=$((passed + 1)); echo "PASS: $*"; }
flunk() { failed=$((failed + 1)); echo "FAIL: $*"; }
check() { # WHAT COMMAND...: the command's success is the verdict
  local what=$1
  shift
  if "$@"; then pass "$what"; else flunk "$what"; fi
}
same() { # WHAT EXPECTED SEEN
  if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1: expected '$2', seen '$3'"; fi
}
abort() { # without this step the rest makes no sense
  flunk "$*"
  exit 1
}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }
compose() {
  docker compose --project-directory "$root" --project-name "$project" --env-file "$scratch/env" \
    --file "$root/docker-compose.yml" --file "$here/compose.test.yml" --profile cpu "$@"
}

finish() {
  local status=$?
  trap - EXIT INT TERM
  if [ "$failed" -gt 0 ] && [ -n "$container" ]; then
    say "the last lines of the container"
    docker logs --tail 60 "$container" 2>&1 || true
  fi
  if [ -n "${KEEP:-}" ]; then
    say "kept: project $project, image $TEST_IMAGE, $scratch"
  else
    if docker info >/dev/null 2>&1; then
      compose down --volumes --remove-orphans --timeout 10 >/dev/null 2>&1 || true
      docker image rm "$TEST_IMAGE" >/dev/null 2>&1 || true
    fi
    [ -z "$engine_is_ours" ] || "$here/engine-up.sh" stop || true
    rm -rf "$scratch"
  fi
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || flunk "stopped with status $status"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] || exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

# ------------------------------------------------------------------------------- engine and base
start_engine() {
  if ! docker info >/dev/null 2>&1; then
    "$here/engine-up.sh" || abort "no Docker engine answers and none could be started: see above"
    engine_is_ours=yes
  fi
  docker compose version >/dev/null 2>&1 || abort "docker has no compose plugin"
  docker version --format 'Docker {{.Server.Version}}, client {{.Client.Version}}'
  docker compose version
}

default_of() { sed -n "s|^ARG $1=\(.*\)|\1|p" "$root/Dockerfile" | tail -n 1; }

choose_sources() {
  local base index device
  # shellcheck disable=SC2016  # the Dockerfile's own ${...}
  base=$(sed -n 's|^FROM ${BASE_IMAGE:-\(.*\)} AS base-cpu$|\1|p' "$root/Dockerfile")
  if [ -z "${BASE_IMAGE:-}" ] && ! timeout 300 docker pull --quiet "$base" >/dev/null 2>&1; then
    say "$base can't be pulled: a base made from a Debian mirror stands in"
    export BASE_IMAGE=chat-server-base:bookworm
    "$here/base-image.sh" "$BASE_IMAGE" || abort "no base image: $base can't be pulled, none could be made"
  fi
  index=$(default_of TORCH_CPU_INDEX)
  if [ -z "${TORCH_CPU_INDEX+set}" ] && ! curl -fsS --max-time 20 -o /dev/null "$index/torch/" 2>/dev/null; then
    say "$index can't be reached: this machine's pip fetches torch"
    export TORCH_CPU_INDEX=
    python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.11 \
      --dest "$TEST_WHEELS" --requirement "$root/requirements/engine-cpu-torch.txt" ||
      abort "the CPU build of torch was found neither at $index nor by this machine's pip"
  fi
  device=$(ip -o route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
  cat >"$scratch/env" <<ENV
PORT=0
NETWORK_MTU=$(cat "/sys/class/net/${device:-lo}/mtu" 2>/dev/null || echo 1500)
ENV
}

# ----------------------------------------------------------------------------------------- image
build_image() {
  local started
  started=$(now)
  compose --progress plain build "$service" >"$scratch/build.log" 2>&1 ||
    { tail -n 40 "$scratch/build.log"; abort "the CPU image does not build"; }
  pass "the CPU image is built ($(since "$started") s)"
  docker image inspect --format 'image: {{.Size}} bytes, its layers (largest first):' "$TEST_IMAGE"
  docker history --no-trunc --human=false --format '{{.Size}} {{.CreatedBy}}' "$TEST_IMAGE" |
    sort -rn | awk '$1 > 1000000 { printf "  %6.1f MB  %s\n", $1 / 1e6, substr($0, length($1) + 2, 90) }'
}

in_image() { docker run --rm --network none --user 0 --entrypoint "$1" "$TEST_IMAGE" "${@:2}"; }

inspect_image() {
  local weights label package version
  same "the image's user is not root" 10001:10001 "$(docker image inspect -f '{{.Config.User}}' "$TEST_IMAGE")"
  weights=$(in_image find / -xdev -type f -size +5M \
    \( -name '*.safetensors' -o -name '*.gguf' -o -name '*.bin' -o -name '*.pt' -o -name '*.pth' \))
  same "no weights are in the image" "" "$weights"
  same "pip's cache is not in the image" "" "$(in_image find / -xdev -path '*/.cache/pip/*' -type f)"
  for package in sglang torch; do
    label=$(docker image inspect -f "{{index .Config.Labels \"chat-server.engine.$package\"}}" "$TEST_IMAGE")
    version=$(in_image /opt/engine/bin/python -c "from importlib.metadata import version; print(version('$package'))")
    same "the label tells the installed version of $package" "$label" "${version%%+*}"
  done
}

# ------------------------------------------------------------------------------------------- run
address() { compose port "$service" 8080; }
state() { docker inspect -f "{{.State.$1}}" "$container"; }
status_of() { curl -s --noproxy '*' --max-time 5 -o /dev/null -w '%{http_code}' "http://$(address)$1" || true; }

wait_until_ready() { # WHAT: as a client would, from outside; at most 10 minutes
  local started live='' healths=''
  started=$(now)
  while [ "$(status_of /health/ready)" != 200 ]; do
    [ "$(state Status)" = running ] && [ "$(docker inspect -f '{{.RestartCount}}' "$container")" = 0 ] ||
      abort "$1: the container stopped while it loaded"
    [ -n "$live" ] || [ "$(status_of /health/live)" != 200 ] || live="after $(since "$started") s"
    healths+=" $(state Health.Status)"
    [ "${healths%unhealthy*}" = "$healths" ] || abort "$1: unhealthy while it loads"
    awk -v s="$(since "$started")" 'BEGIN { exit s > 600 }' || abort "$1: not ready after 10 minutes"
    sleep 0.5
  done
  pass "$1: ready after $(since "$started") s, alive ${live:-before the first look}, never unhealthy"
  for _ in {1..60}; do [ "$(state Health.Status)" != healthy ] || break; sleep 0.5; done
  same "$1: Docker's health check says so too" healthy "$(state Health.Status)"
}

judge_running() {
  local host
  same "only 127.0.0.1 is listened on" 127.0.0.1 "$(address | cut -d: -f1)"
  host=$(hostname -I | awk '{ print $1 }')
  check "the machine's own address $host refuses" \
    bash -c "! curl -s --noproxy '*' --max-time 5 'http://$host:$(address | cut -d: -f2)/health/live'"
  same "every process in the container runs as the image's user" 10001 \
    "$(docker top "$container" -eo pid,uid | awk 'NR > 1 { print $2 }' | sort -u | xargs)"
  same "its root filesystem is read-only" true "$(docker inspect -f '{{.HostConfig.ReadonlyRootfs}}' "$container")"
  python3 "$here/ask.py" "http://$(address)" >"$scratch/answers" 2>&1 || [ $? -le 20 ]
  cat "$scratch/answers"
  passed=$((passed + $(grep -c '^PASS: ' "$scratch/answers" || true)))
  failed=$((failed + $(grep -c '^FAIL: ' "$scratch/answers" || true)))
  check "the server was asked to the end" grep -q 'same text' "$scratch/answers"
}

stop_container() {
  local started took processes process left=''
  processes=$(docker top "$container" -eo pid | tail -n +2)
  started=$(now)
  compose stop "$service" >"$scratch/stop.log" 2>&1 || flunk "docker compose stop: $(cat "$scratch/stop.log")"
  took=$(since "$started")
  check "it stops by itself, long before Docker would kill it ($took s)" awk -v s="$took" 'BEGIN { exit s > 50 }'
  same "its exit status is 0" 0 "$(state ExitCode)"
  for process in $processes; do [ ! -e "/proc/$process" ] || left+=" $process"; done
  same "no process of it is left" "" "$left"
}

models_in_volume() {
  docker run --rm --network none -v "${project}_models:/m:ro" --entrypoint find "$TEST_IMAGE" \
    /m -type f -printf '%P %s %T@\n' | sort
}

start_engine
unset COMPOSE_PROFILES COMPOSE_FILE COMPOSE_PROJECT_NAME COMPOSE_ENV_FILES
while read -r name; do unset "$name"; done < <(
  # The settings of whoever runs this are not the test's; where the build gets things from is.
  sed -n 's/^#\([A-Z_]*\)=.*/\1/p' "$root/.env.example" | grep -vxE 'BASE_IMAGE|TORCH_CPU_INDEX|PIP_INDEX_URL'
)
choose_sources
check "docker-compose.yml is valid" docker compose --project-directory "$root" config --quiet
check "docker-compose.yml is valid with the cpu profile" compose config --quiet
same "plain 'docker compose up' starts the GPU service only" chat \
  "$(docker compose --project-directory "$root" config --services | xargs)"
build_image
inspect_image

compose up --detach --no-build "$service" >"$scratch/up.log" 2>&1 || { cat "$scratch/up.log"; abort "docker compose up fails"; }
container=$(compose ps --all --quiet "$service")
wait_until_ready "first start"
judge_running
stop_container

before=$(models_in_volume)
compose rm --force "$service" >/dev/null 2>&1
compose up --detach --no-build "$service" >"$scratch/up.log" 2>&1 || { cat "$scratch/up.log"; abort "the second docker compose up fails"; }
container=$(compose ps --all --quiet "$service")
wait_until_ready "a new container with the old volumes"
same "the model in the volume was used again" "$before" "$(models_in_volume)"
check "that volume is not empty" test -n "$before"
stop_container
