/** A stand-in for the Pulumi CLI with a state of its own: its lists, histories and words are those of Pulumi 3.248.0. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface FakeStack {
  /** Kinds of operations with the hours since they ended, the newest first. @default one `update`, as old as `ageHours` */
  readonly history?: readonly (readonly [kind: string, hoursAgo: number, result?: "failed"])[];
  readonly ageHours?: number;
  /** `config:` of the last `up`, without the project's prefix. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly resourceCount?: number;
  readonly updateInProgress?: boolean;
  /** What `destroy` does with it. @default "ends" */
  readonly destroy?: "ends" | "fails" | "locked";
  /** A stack that has its `up` while this one is destroyed. */
  readonly upMeanwhile?: string;
  /** Whether its history can't be read. */
  readonly isBroken?: boolean;
}

const PROGRAM = `#!/usr/bin/env node
const fs = require("node:fs");
const path = require("node:path");
const here = path.dirname(process.argv[1]);
const args = process.argv.slice(2);
const option = (name) => args[args.indexOf(name) + 1];
const name = option("--stack");
const words = args.slice(0, 2).join(" ");
fs.appendFileSync(path.join(here, "calls"), JSON.stringify([words, name]) + "\\n");
const file = path.join(here, "state.json");
const state = JSON.parse(fs.readFileSync(file));
const keep = () => fs.writeFileSync(file, JSON.stringify(state));
const ago = (hours) => new Date(Date.now() - hours * 3_600_000).toISOString();
const historyOf = (stack) => stack.history ?? [["update", stack.ageHours]];
const fail = (text) => { console.error("error: " + text); process.exit(1); };
if (words === "stack ls")
  console.log(JSON.stringify(Object.entries(state).map(([key, stack]) => ({
    name: "organization/engine-room/" + key, current: false, resourceCount: stack.resourceCount ?? 191,
    ...(stack.updateInProgress ? { updateInProgress: true } : { lastUpdate: ago(historyOf(stack)[0][1]) }),
  }))));
else if (words === "stack history") {
  if (state[name].isBroken) fail("history is gone");
  const from = (option("--page") - 1) * option("--page-size");
  const config = Object.fromEntries(Object.entries(state[name].config).map(([key, value]) => ["engine-room:" + key,
    typeof value === "object" ? { value: JSON.stringify(value), objectValue: value, secret: false } : { value: String(value), secret: false }]));
  const entries = historyOf(state[name]).map(([kind, hours, result = "succeeded"]) =>
    ({ version: 0, kind, startTime: ago(hours), endTime: ago(hours), result, config: { ...config, "engine-room:hub": { secret: true } } }));
  console.log(JSON.stringify(entries.slice(from, from + Number(option("--page-size")))));
} else if (words === "config refresh")
  fs.writeFileSync(option("--config-file"), JSON.stringify({ encryptionsalt: "v1:salt",
    config: Object.fromEntries(Object.entries(state[name].config).map(([key, value]) => ["engine-room:" + key, value])) }));
else if (words === "stack export") {
  const { resourceCount = 191 } = state[name];
  const resources = Array.from({ length: resourceCount }, (_, index) => ({ urn: "urn:pulumi:" + name + "::engine-room::test:index:Part::part-" + index }));
  console.log(JSON.stringify({ deployment: { resources } }));
}
else if (args[0] === "destroy") {
  const { destroy = "ends", upMeanwhile } = state[name];
  if (destroy === "locked") fail("the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the lock file with \`pulumi cancel\`.");
  if (destroy === "fails") fail("DependencyViolation: the vpc has dependencies and cannot be deleted");
  if (upMeanwhile !== undefined) state[upMeanwhile].history = [["update", 0]];
  state[name].resourceCount = 0;
  keep();
} else if (words === "stack rm") { delete state[name]; keep(); }
`;

export class FakePulumi {
  readonly folder = mkdtempSync(join(tmpdir(), "engine-room-expire-test-"));

  constructor(stacks: Readonly<Record<string, FakeStack>>) {
    writeFileSync(join(this.folder, "pulumi"), PROGRAM);
    chmodSync(join(this.folder, "pulumi"), 0o755);
    writeFileSync(join(this.folder, "state.json"), JSON.stringify(stacks));
  }

  get stacks(): string[] {
    return Object.keys(JSON.parse(readFileSync(join(this.folder, "state.json"), "utf8")) as object);
  }

  /** Stacks that `destroy` was asked for, in order. */
  get destroyed(): string[] {
    const file = join(this.folder, "calls");
    if (!existsSync(file)) return [];
    const calls = readFileSync(file, "utf8").trim().split("\n");
    return calls
      .map((line) => JSON.parse(line) as [string, string])
      .flatMap(([words, name]) => (words.startsWith("destroy") ? [name] : []));
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true });
  }
}
