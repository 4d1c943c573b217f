/** A Pulumi CLI for the PATH that records its arguments, and has the stacks of a file. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { vi } from "vitest";

/** In sh, which starts ten times as fast as Node. Words of a call are separated by tabs. */
const SCRIPT = `#!/bin/sh
here="\${0%/*}"
line="$PULUMI_BACKEND_URL"
for word in "$@"; do
  line="$line\t$word"
  if [ "$previous" = --stack ]; then stack="$word"; fi
  if [ "$previous" = --event-log ]; then log="$word"; fi
  previous="$word"
done
printf '%s\\n' "$line" >> "$here/calls"
case "$1 $2" in
  # Before Pulumi 3.206 events go to a file.
  "version ") echo v3.100.0 ;;
  "stack init") echo "encryptionsalt: v1:salt" > "Pulumi.$3.yaml"; echo "$3" >> "$here/stacks" ;;
  "stack rm") grep -vx "$stack" "$here/stacks" > "$here/left"; mv "$here/left" "$here/stacks" ;;
  "stack ls")
    list=""
    if [ -e "$here/stacks" ]; then
      while read -r name; do list="$list\${list:+,}{\\"name\\":\\"organization/engine-room/$name\\"}"; done < "$here/stacks"
    fi
    echo "[$list]" ;;
  "stack history") printf '%s\\n' "\${FAKE_HISTORY:-[]}" ;;
  "stack export")
    grep -qx "$stack" "$here/stacks" 2> /dev/null || { echo "error: no stack named '$stack' found" >&2; exit 255; }
    if [ -n "$FAKE_STATE" ]; then printf '%s\\n' "$FAKE_STATE"; else echo '{"deployment":{"resources":[{"type":"pulumi:pulumi:Stack","urn":"s","outputs":{"endpoints":{"gateway":"http://gateway"}}}]}}'; fi ;;
  "stack output") echo '{"endpoints":{"gateway":"http://gateway"}}' ;;
esac
case "$1 $2" in
  "preview --json" | "preview --policy-pack") printf '%s\\n' "$FAKE_PREVIEW"; printf '%s' "$FAKE_PREVIEW_ERROR" >&2; exit "\${FAKE_PREVIEW_CODE:-0}" ;;
esac
`;

/**
 * The engine's last events, of every operation. Automation reads the file every 200 ms, and at the end once more; if that read meets
 * another that began before the events were written, it takes the other's end for its own and drops them.
 */
const LAST_EVENTS = `
if [ -n "$log" ]; then
  if [ -z "$FAKE_LOST" ]; then printf '%s\\n' '{"summaryEvent":{"resourceChanges":{}}}' '{"cancelEvent":{}}' >> "$log"; fi
  sleep 0.3
fi
`;

interface PulumiCall {
  /** Address of the state. */
  readonly backend: string;
  readonly args: readonly string[];
}

export interface FakePulumi {
  calls(): readonly PulumiCall[];
  /** Its stacks. */
  stacks(): readonly string[];
  keep(stacks: readonly string[]): void;
}

/** Installs it in a folder, which is then first on the PATH. @param more - Further commands in sh. */
export function useFakePulumi(folder: string, more = ""): FakePulumi {
  writeFileSync(join(folder, "pulumi"), SCRIPT + more + LAST_EVENTS, { mode: 0o755 });
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
  const lines = (name: string) =>
    existsSync(join(folder, name))
      ? readFileSync(join(folder, name), "utf8").split("\n").filter(Boolean)
      : [];
  return {
    calls: () =>
      lines("calls").map((line) => {
        const [backend = "", ...args] = line.split("\t");
        return { backend, args };
      }),
    stacks: () => lines("stacks"),
    keep: (stacks) => writeFileSync(join(folder, "stacks"), stacks.map((name) => `${name}\n`).join("")),
  };
}
