/** Shell text that the tasks of an instance share. */
import type { UnitPlan } from "../types.ts";
import { FILES_FOLDER, READY_FILE, SECRET_FOLDER, STATE_FOLDER, UNIT_FOLDER } from "./names.ts";

/**
 * Functions by their names, with the lines of each. Nothing in a task has two braces behind each other, by which Systems
 * Manager marks parameters.
 * https://docs.aws.amazon.com/systems-manager/latest/userguide/documents-syntax-data-elements-parameters.html
 */
const FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
  // Its input without the lines that a secret stands in.
  redacted: [
    "local patterns",
    "patterns=$(mktemp)",
    `find ${SECRET_FOLDER} -type f -exec awk NF '{}' + >"$patterns" 2>/dev/null || true`,
    'grep --invert-match --fixed-strings --file="$patterns" || true',
    'rm -f "$patterns"',
  ],
  // fail UNIT REASON
  fail: [
    "local unit=$1 reason=$2 container",
    `container=$(sed -n 's/^Container=//p' "${UNIT_FOLDER}/$unit")`,
    'echo "$unit $reason. Its last lines:" >&2',
    'journalctl --unit="$unit" --lines=10 --output=cat --no-pager 2>&1 | redacted >&2',
    'if [ -n "$container" ]; then docker logs --tail 20 "$container" 2>&1 | redacted >&2; fi',
    "exit 1",
  ],
  // put MODE PATH BASE64: nothing is touched that is as it should be.
  put: [
    "local new",
    "new=$(mktemp)",
    'base64 --decode <<<"$3" >"$new"',
    `if ! cmp --silent "$new" "$2" || [ "$(stat -c '0%a' "$2")" != "$1" ]; then`,
    '  install -D -m "$1" "$new" "$2"',
    '  echo "wrote $2"',
    "fi",
    'rm -f "$new"',
  ],
  digest: ['cat -- "$@" | sha256sum'],
  // is_current UNIT FILE…: whether it runs, and was started after the last change of its text, its files and its secrets.
  is_current: [
    "local unit=$1 known",
    "shift",
    `known=$(cat "${STATE_FOLDER}/applied/$unit" 2>/dev/null) || return 1`,
    'systemctl is-active --quiet "$unit" && [ "$(digest "$@")" = "$known" ]',
  ],
  applied: ["local unit=$1", "shift", `digest "$@" >"${STATE_FOLDER}/applied/$unit"`],
  // remove UNIT
  remove: [
    `local unit=$1 file="${UNIT_FOLDER}/$1" alias container`,
    "container=$(sed -n 's/^Container=//p' \"$file\")",
    `alias=\${unit#engine-room-}`,
    'systemctl disable --now --quiet "$unit"',
    'if [ -n "$container" ]; then docker rm --force "$container" >/dev/null; fi',
    `rm -rf -- "$file" "${FILES_FOLDER}/\${alias%.service}" "${STATE_FOLDER}/applied/$unit"`,
    'echo "removed $unit"',
  ],
  // remove_others LIFECYCLE UNIT…: those that the stack has no more.
  remove_others: [
    "local lifecycle=$1 file unit",
    "shift",
    `for file in ${UNIT_FOLDER}/engine-room*.service; do`,
    '  if ! grep --quiet --no-messages --line-regexp "Lifecycle=$lifecycle" "$file"; then continue; fi',
    `  unit=\${file##*/}`,
    '  if [[ " $* " != *" $unit "* ]]; then remove "$unit"; fi',
    "done",
    "systemctl daemon-reload",
  ],
};

/** A script for bash, with the functions that its lines call. */
export function taskScript(lines: readonly string[]): string {
  const needed = new Set<string>();
  const add = (text: readonly string[]) => {
    for (const [name, body] of Object.entries(FUNCTIONS)) {
      if (needed.has(name) || !text.some((line) => new RegExp(`\\b${name}\\b`).test(line))) continue;
      needed.add(name);
      add(body);
    }
  };
  add(lines);
  const functions = Object.entries(FUNCTIONS)
    .filter(([name]) => needed.has(name))
    .flatMap(([name, body]) => [`${name}() {`, ...body.map((line) => `  ${line}`), "}"]);
  return ["#!/bin/bash", "set -euo pipefail", "umask 022", ...functions, ...lines].join("\n");
}

/** What a machine must have done before anything is put on it. */
export const WHEN_READY = [
  // It ends with an error where the user data did, which the file tells as well.
  "cloud-init status --wait >/dev/null || true",
  `if [ ! -e ${READY_FILE} ]; then`,
  '  echo "The first start of the machine failed; /var/log/cloud-init-output.log ends with:" >&2',
  "  tail -n 20 /var/log/cloud-init-output.log >&2",
  "  exit 1",
  "fi",
] as const;

/** Writes units with their files, and tells systemd. */
export function putLines(units: readonly UnitPlan[]): readonly string[] {
  return [
    ...units.flatMap(({ name, text, files }) => [
      ...Object.entries(files).map(([path, file]) => putLine(file.mode, path, file.text)),
      putLine("0644", `${UNIT_FOLDER}/${name}`, text),
    ]),
    "systemctl daemon-reload",
  ];
}

function putLine(mode: string, path: string, text: string): string {
  return `put ${mode} ${path} ${Buffer.from(text, "utf8").toString("base64")}`;
}
