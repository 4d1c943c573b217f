/** A stand-in for the Pulumi CLI with its own state; its lists, histories and messages are those of Pulumi 3.248.0. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface FakeStack {
  /** Kinds of operations with the hours since they ended, the newest first. @default one `update`, as old as `ageHours` */
  readonly history?: readonly (readonly [kind: string, hoursAgo: number, result?: "failed"])[];
  readonly ageHours?: number;
  /** `config:` of the last `up`, without the project's prefix. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly resourceCount?: number;
  readonly updateInProgress?: boolean;
  /** Result of `destroy`. @default "ends" */
  readonly destroy?: "ends" | "fails" | "locked";
  /** A stack that has its `up` while this one is destroyed. */
  readonly upMeanwhile?: string;
  /** Whether its history can't be read. */
  readonly isBroken?: boolean;
}

/** Entries of a page of a history; commands ask for pages of that size. */
const PAGE_SIZE = 20;

/** In sh, because a command starts it dozens of times and sh starts fast. Its output is in files. */
const PROGRAM = `#!/bin/sh
here=\${0%/*}
words="$1 $2"
while [ $# -gt 0 ]; do
  case "$1" in
    --stack) name=$2 ;;
    --page) page=$2 ;;
    --page-size) [ "$2" = ${PAGE_SIZE} ] || [ "$2" = 1 ] || { echo "error: pages have ${PAGE_SIZE} entries" >&2; exit 1; } ;;
    --config-file) file=$2 ;;
    --event-log) log=$2 ;;
  esac
  shift
done
stack="$here/stacks/$name"
echo "$words $name" >> "$here/calls"
fail() { echo "error: $1" >&2; exit 1; }
case "$words" in
  # Before Pulumi 3.206 events go to a file.
  "version ") echo v3.100.0 ;;
  "stack ls")
    separator=
    printf "["
    while read -r each; do
      [ -d "$here/stacks/$each" ] || continue
      printf %s "$separator"
      cat "$here/stacks/$each/listed"
      separator=,
    done < "$here/names"
    printf "]" ;;
  "stack history")
    [ ! -e "$stack/is-broken" ] || fail "history is gone"
    cat "$stack/history-$page" 2> /dev/null || printf "[]" ;;
  "config refresh") cat "$stack/config" > "$file" ;;
  "stack export") cat "$stack/exported" ;;
  "stack rm") rm -r "$stack" ;;
  "destroy "*)
    read -r end < "$stack/destroy"
    case "$end" in
      locked) fail "the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the lock file with \\\`pulumi cancel\\\`." ;;
      fails) fail "DependencyViolation: the vpc has dependencies and cannot be deleted" ;;
    esac
    if read -r other < "$stack/up-meanwhile"; then
      for part in listed history-1; do cp "$here/stacks/$other/up/$part" "$here/stacks/$other/$part"; done
    fi
    for part in listed exported; do cp "$stack/destroyed/$part" "$stack/$part"; done
    echo '{"summaryEvent":{"resourceChanges":{}}}' > "$log"
    # As in test/scripts/stack/fake-pulumi.ts.
    sleep 0.3 ;;
esac
`;

export class FakePulumi {
  readonly folder = mkdtempSync(join(tmpdir(), "engine-room-expire-test-"));

  constructor(stacks: Readonly<Record<string, FakeStack>>) {
    writeFileSync(join(this.folder, "pulumi"), PROGRAM);
    chmodSync(join(this.folder, "pulumi"), 0o755);
    const names = Object.keys(stacks);
    writeFileSync(join(this.folder, "names"), names.map((name) => `${name}\n`).join(""));
    for (const [name, stack] of Object.entries(stacks)) {
      const files = {
        ...answers(name, stack),
        config: configFile(stack),
        destroy: `${stack.destroy ?? "ends"}\n`,
        "up-meanwhile": stack.upMeanwhile === undefined ? "" : `${stack.upMeanwhile}\n`,
        ...(stack.isBroken === true ? { "is-broken": "" } : {}),
        ...within("up", answers(name, { ...stack, history: [["update", 0]] })),
        ...within("destroyed", answers(name, { ...stack, resourceCount: 0 })),
      };
      for (const [file, text] of Object.entries(files)) {
        const path = join(this.folder, "stacks", name, file);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
      }
    }
  }

  get stacks(): string[] {
    const there = readdirSync(join(this.folder, "stacks"));
    const names = readFileSync(join(this.folder, "names"), "utf8").trim().split("\n");
    return names.filter((name) => there.includes(name));
  }

  /** Stacks that `destroy` was asked for, in order. */
  get destroyed(): string[] {
    const file = join(this.folder, "calls");
    if (!existsSync(file)) return [];
    return [...readFileSync(file, "utf8").matchAll(/^destroy .* (\S+)$/gm)].map(([, name = ""]) => name);
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true, maxRetries: 5 });
  }
}

type Files = Readonly<Record<string, string>>;

function within(folder: string, files: Files): Files {
  return Object.fromEntries(Object.entries(files).map(([file, text]) => [join(folder, file), text]));
}

/** Files that change while commands run, by name. */
function answers(name: string, stack: FakeStack): Files {
  const { resourceCount = 191, updateInProgress = false, ageHours = 0 } = stack;
  const history = stack.history ?? [["update", ageHours] as const];
  const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
  const config = { ...historyConfig(stack), "engine-room:hub": { secret: true } };
  const entries = history.map(([kind, hours, result = "succeeded"]) => {
    const endTime = ago(hours);
    return { version: 0, kind, startTime: endTime, endTime, result, config };
  });
  const pages = Array.from({ length: Math.ceil(entries.length / PAGE_SIZE) }, (_, page) => [
    `history-${page + 1}`,
    JSON.stringify(entries.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE)),
  ]);
  const resources = Array.from({ length: resourceCount }, (_, index) => ({
    urn: `urn:pulumi:${name}::engine-room::test:index:Part::part-${index}`,
  }));
  const since = updateInProgress
    ? { updateInProgress: true }
    : { lastUpdate: ago(history[0]?.[1] ?? ageHours) };
  return {
    listed: JSON.stringify({
      name: `organization/engine-room/${name}`,
      current: false,
      resourceCount,
      ...since,
    }),
    exported: JSON.stringify({ deployment: { resources } }),
    ...Object.fromEntries(pages),
  };
}

function historyConfig({ config }: FakeStack): object {
  const entries = Object.entries(config).map(([key, value]) => [
    `engine-room:${key}`,
    typeof value === "object"
      ? { value: JSON.stringify(value), objectValue: value, secret: false }
      : { value: String(value), secret: false },
  ]);
  return Object.fromEntries(entries);
}

/** Output of `pulumi config refresh`. */
function configFile({ config }: FakeStack): string {
  const entries = Object.entries(config).map(([key, value]) => [`engine-room:${key}`, value]);
  return JSON.stringify({ encryptionsalt: "v1:salt", config: Object.fromEntries(entries) });
}
