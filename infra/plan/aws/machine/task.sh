#!/bin/bash
set -euo pipefail
umask 022

# put MODE PATH BASE64: nothing is touched that is as it should be.
put() {
  local new
  new=$(mktemp)
  base64 --decode <<<"$3" >"$new"
  if ! cmp --silent "$new" "$2" || [ "$(stat -c '0%a' "$2")" != "$1" ]; then
    install -D -m "$1" "$new" "$2"
    echo "wrote $2"
  fi
  rm -f "$new"
}

# It ends with an error where the user data did, which the file tells as well.
cloud-init status --wait >/dev/null || true
if [ ! -e /var/lib/engine-room/machine-ready ]; then
  echo "The first start of the machine failed; /var/log/cloud-init-output.log ends with:" >&2
  tail -n 20 /var/log/cloud-init-output.log >&2
  exit 1
fi
