#!/bin/bash
# The containers of the stack on this machine: /opt/engine-room/engine-room COMMAND.
#
# next/ has the Compose file and the values of the stack file that `up` brings; services makes it current/, which
# engine-room.service starts after each boot.
set -euo pipefail
umask 022

readonly FOLDER=/etc/engine-room
readonly CURRENT=$FOLDER/current
readonly NEXT=$FOLDER/next
readonly RUN=/run/engine-room
readonly DATABASES=/srv/databases
readonly PROJECT=engine-room

# Amazon Linux 2023 has no package of Compose: https://github.com/amazonlinux/amazon-linux-2023/issues/186
readonly COMPOSE_VERSION=2.40.3
readonly COMPOSE_SHA256=dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372
# Docker looks there first.
readonly COMPOSE_PLUGIN=/usr/local/lib/docker/cli-plugins/docker-compose

# use FOLDER: the stack that the functions below are about.
use() {
  STACK_FOLDER=$1
  # shellcheck source=/dev/null
  . "$STACK_FOLDER/stack.env"
}

compose() {
  docker compose --project-name "$PROJECT" --file "$STACK_FOLDER/compose.yaml" --progress plain "$@"
}

container_of() {
  echo "$STACK-$1"
}

retry() {
  local attempt
  for attempt in 1 2 3 4 5 6 7 8 9; do
    if "$@"; then return 0; fi
    echo "attempt $attempt failed" >&2
    sleep 10
  done
  "$@"
}

# Its input without the lines that contain a secret.
redacted() {
  local patterns
  patterns=$(mktemp)
  find "$RUN/secrets" -type f -exec awk NF '{}' + >"$patterns" 2>/dev/null || true
  grep --invert-match --fixed-strings --file="$patterns" || true
  rm -f "$patterns"
}

# fail SERVICE REASON
fail() {
  local container
  container=$(container_of "$1")
  echo "$1 $2. The last lines of \`docker logs $container\`:" >&2
  docker logs --tail 20 "$container" 2>&1 | redacted >&2
  exit 1
}

install_compose() {
  if [ "$(docker compose version --short 2>/dev/null)" = "$COMPOSE_VERSION" ]; then return 0; fi
  local url="https://github.com/docker/compose/releases/download/v$COMPOSE_VERSION/docker-compose-linux-x86_64"
  local new
  new=$(mktemp)
  retry curl --silent --show-error --fail --location --output "$new" "$url"
  echo "$COMPOSE_SHA256  $new" | sha256sum --check --quiet
  install -D -m 0755 "$new" "$COMPOSE_PLUGIN"
  rm -f "$new"
}

# Machines of earlier releases have a unit of systemd for each container.
remove_old_units() {
  local file unit container
  for file in /etc/systemd/system/engine-room-*.service /etc/systemd/system/engine-room.{secrets,network,images}.service; do
    if [ ! -e "$file" ]; then continue; fi
    unit=${file##*/}
    container=$(sed -n 's/^Container=//p' "$file")
    systemctl disable --now --quiet "$unit" || true
    if [ -n "$container" ]; then docker rm --force "$container" >/dev/null; fi
    rm -f "$file"
    echo "removed $unit"
  done
  rm -rf /var/lib/engine-room/applied /opt/engine-room/{fetch-secrets,make-network,pull-images}
  systemctl daemon-reload
}

# The value goes from the answer into the file: no argument, no variable and no log has it.
fetch_secret() {
  local file=$1 id=$2 region=$3
  aws secretsmanager get-secret-value --region "$region" --secret-id "$id" \
    --query SecretString --output text | tr -d '\n' >"$file.new"
  [ -s "$file.new" ] || return 1
  # User of every image of this project.
  chown 1000 "$file.new"
  chmod 0400 "$file.new"
  mv "$file.new" "$file"
}

fetch_secrets() (
  umask 077
  install -d -m 0711 "$RUN" "$RUN/secrets"
  while read -r name id region; do
    if [ -n "$name" ]; then retry fetch_secret "$RUN/secrets/$name" "$id" "$region" </dev/null; fi
  done <<<"$SECRETS"
)

log_in() {
  aws ecr get-login-password --region "$2" | docker login --username AWS --password-stdin "$1" >/dev/null
}

# Images that are there need no registry. Passwords are good for twelve hours, and are kept in memory until the end.
pull_images() (
  local image images registry missing=() registries=()
  images=$(compose config --images | sort --unique)
  for image in $images; do
    if ! docker image inspect "$image" >/dev/null 2>&1; then missing+=("$image"); fi
  done
  if [ "${#missing[@]}" -eq 0 ]; then return 0; fi
  umask 077
  install -d -m 0711 "$RUN"
  DOCKER_CONFIG=$(mktemp -d "$RUN/docker-XXXXXX")
  export DOCKER_CONFIG
  trap 'rm -rf "$DOCKER_CONFIG"' EXIT
  mapfile -t registries < <(printf '%s\n' "${missing[@]}" | sed -nE 's#^([0-9]{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com)/.*#\1 \2#p' | sort --unique)
  for registry in "${registries[@]}"; do retry log_in "${registry% *}" "${registry#* }"; done
  for image in "${missing[@]}"; do retry docker pull --quiet "$image"; done
)

# make KIND NAME OPTION…: a network or volume that is there stays as it is.
make() {
  local kind=$1 name=$2
  shift 2
  if docker "$kind" inspect "$name" >/dev/null 2>&1; then return 0; fi
  docker "$kind" create --label "engine-room.stack=$STACK" "$@" "$name" >/dev/null
}

# A disk of another size is grown while it is used; the kernel sees the size a moment after EC2 has changed it.
is_grown() {
  local device
  device=$(findmnt --noheadings --output SOURCE --mountpoint "$DATABASES")
  [ "$(blockdev --getsize64 "$device")" -ge "$((DATABASE_DISK_GIB * 2 ** 30))" ]
}

# Documents are on the databases' disk: the root disk goes with the machine, and a stop may empty Docker's own folder.
make_network_and_volumes() {
  local volume owner
  make network "$NETWORK"
  for volume in $VOLUMES; do make volume "$volume" --label engine-room.role=volume; done
  if [ -z "$DATABASE_VOLUMES" ]; then return 0; fi
  systemctl start srv-databases.mount
  retry is_grown
  xfs_growfs "$DATABASES" >/dev/null
  while read -r volume owner; do
    install -d -m 0700 -o "$owner" -g "$owner" "$DATABASES/$volume"
    make volume "$volume" --label engine-room.role=volume \
      --opt type=none --opt o=bind --opt "device=$DATABASES/$volume"
  done <<<"$DATABASE_VOLUMES"
}

# Digest by which Compose replaces services whose secrets have changed.
digest_secrets() {
  SECRET_DIGEST=$(find "$RUN/secrets" -type f | sort | xargs --no-run-if-empty cat /etc/machine-id | sha256sum)
  export SECRET_DIGEST=${SECRET_DIGEST%% *}
}

prepare() {
  fetch_secrets
  digest_secrets
  make_network_and_volumes
  pull_images
}

# Containers of services that the stack file no longer has.
remove_others() {
  local services id service
  services=$(compose config --services)
  docker ps --all --filter "label=com.docker.compose.project=$PROJECT" \
    --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
    while read -r id service; do
      if grep --quiet --line-regexp --fixed-strings "$service" <<<"$services"; then continue; fi
      docker rm --force "$id" >/dev/null
      echo "removed $service"
    done
}

# Prepares the machine for every later command. Services that the stack no longer has are removed first: a build may need their GPU.
setup() {
  use "$NEXT"
  systemctl daemon-reload
  install_compose
  remove_old_units
  compose config --quiet
  remove_others
  prepare
}

# Whether the build has ended with success as the stack file has it now.
is_built() {
  local hash found
  hash=$(compose config --hash "$1")
  found=$(docker inspect --format \
    '{{index .Config.Labels "com.docker.compose.config-hash"}} {{.State.Status}} {{.State.ExitCode}}' \
    "$(container_of "$1")" 2>/dev/null) || return 1
  [ "$found" = "${hash##* } exited 0" ]
}

# start_build SERVICE SERVER…: stops the servers whose GPU the build needs; they start again with the services, or when it
# fails.
start_build() {
  use "$NEXT"
  local build=$1 server
  shift
  if is_built "$build"; then return 0; fi
  for server in "$@"; do docker stop "$(container_of "$server")" >/dev/null 2>&1 || true; done
  compose up --detach --no-deps "$build"
}

# await_build SERVICE SECONDS LAST SERVER…: LAST is 1 where a build that still runs then has failed.
await_build() {
  use "$NEXT"
  local build=$1 seconds=$2 last=$3 state container
  shift 3
  container=$(container_of "$build")
  until [ "$SECONDS" -ge "$seconds" ]; do
    state=$(docker inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$container" 2>/dev/null) || state=absent
    case "$state" in
      "exited 0") return 0 ;;
      created* | running*) ;;
      *) give_up "$build" "failed ($state)" "$@" ;;
    esac
    sleep 5
  done
  if [ "$last" = 0 ]; then
    echo "$build still runs"
    return 0
  fi
  docker stop "$container" >/dev/null || true
  give_up "$build" "did not end in the time it has" "$@"
}

# give_up BUILD REASON SERVER…
give_up() {
  local build=$1 reason=$2 server
  shift 2
  for server in "$@"; do docker start "$(container_of "$server")" >/dev/null 2>&1 || true; done
  fail "$build" "$reason"
}

# Starts everything, as after each boot of the machine. Builds that have ended need not run again.
up() {
  use "$CURRENT"
  prepare
  local build services
  for build in $BUILD_NAMES; do
    if is_built "$build"; then continue; fi
    compose up --detach --remove-orphans
    return 0
  done
  read -ra services <<<"$SERVICE_NAMES"
  compose up --detach --remove-orphans --no-deps "${services[@]}"
}

down() {
  use "$CURRENT"
  compose stop
}

# services SECONDS: makes the new stack the current one, and waits until all of it answers.
services() {
  local seconds=$1 service state folder
  install -D -m 0644 -t "$CURRENT" "$NEXT/compose.yaml" "$NEXT/stack.env"
  use "$CURRENT"
  systemctl enable --quiet engine-room.service
  systemctl reset-failed engine-room.service 2>/dev/null || true
  if ! systemctl reload-or-restart engine-room.service; then
    journalctl --unit=engine-room.service --lines=20 --output=cat --no-pager 2>&1 | redacted >&2
    exit 1
  fi
  for service in $SERVICE_NAMES; do
    while true; do
      state=$(docker inspect --format '{{.State.Status}} {{.State.Health.Status}} {{.RestartCount}}' \
        "$(container_of "$service")") || state=absent
      case "$state" in
        "running healthy "*) break ;;
        "restarting "*" 0" | "restarting "*" "[1-4]) ;;
        "restarting "*) fail "$service" "ended too often" ;;
        "exited "* | "dead "*) fail "$service" "ended" ;;
      esac
      if [ "$SECONDS" -ge "$seconds" ]; then fail "$service" "does not answer"; fi
      sleep 5
    done
  done
  curl --silent --show-error --fail --max-time 10 --retry 30 --retry-delay 2 --retry-all-errors \
    --output /dev/null "http://127.0.0.1:$GATEWAY_PORT/healthz"
  # Files and images of releases before this one: no container has them any more.
  for folder in "$FOLDER"/files/*/; do
    if ! grep --quiet --fixed-strings "$folder" "$CURRENT/compose.yaml"; then rm -rf "$folder"; fi
  done
  docker image prune --all --force >/dev/null
}

command=$1
shift
case "$command" in
  setup | start_build | await_build | services | up | down) "$command" "$@" ;;
  *)
    echo "engine-room: unknown command $command" >&2
    exit 2
    ;;
esac
