import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../../scripts/commands/index.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { clear, filesBelow, runCommands, type Workplace, workplace } from "../canary/run-commands.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "../canary/stacks.ts";
import { isThorough } from "../harness/thorough.ts";

/** Command lines, run with failing stand-ins for Docker, kubectl, ssh and Pulumi's CLI. */
const lines: readonly (readonly string[])[] = [
  ["plan"],
  ["plan", "--json"],
  ["outputs", "--json"],
  ["status"],
  ["logs", "gateway"],
  ["shell", "gateway"],
  ["preflight"],
  ["images"],
  ["connect"],
  ["smoke"],
  ["verify"],
  ["ask", "--endpoint", "gateway", "--text", "x"],
  ["sleep"],
  ["wake"],
  ["seed"],
  ["bench"],
  ["refresh"],
  ["down"],
];

/** Commands that run the stack's program, which a process does once. */
const programs: readonly (readonly string[])[] = [["preview"], ["render"]];

/** Forms of a difference. It renders two trees: only at night; by default the unit tests of `diff` look for secrets. */
const diffs: readonly (readonly string[])[] = [
  ["diff", "--base", "HEAD"],
  ["diff", "--base", "HEAD", "--format", "json", "--out", "diff.json"],
  ["ci", "diff-summary", "--diff", "diff.json"],
];

const names = Object.keys(bases) as BaseName[];

/** Commands that download and start servers, except on platforms where stand-ins fail first. */
const creating: readonly (readonly string[])[] = [["up"], ["start", "--no-samples"]];

/** Commands by process: one process is enough if Pulumi's CLI is a stand-in, which runs no program. */
const batchesOf = (name: BaseName) => {
  const first = [...lines, ...(isThorough ? diffs : [])];
  return name === "local" ? [[...first, ["render"]], [["preview"]]] : [[...first, ...creating, ...programs]];
};

/** Commands with a reason not to be among them. */
const others: Readonly<Record<string, string>> = {
  completion: "reads no values of a stack file",
  expire: "reads no stack file; in the state's history secrets stay encrypted",
  init: "writes a stack file, and reads none",
  key: "reads no stack file; its secret is what it is for",
  test: "runs the tests",
};

test("every command is in the canary's lists, or has a reason not to be", () => {
  const known = new Set([
    ...[...lines, ...programs, ...diffs, ...creating].map(([name]) => name),
    ...Object.keys(others),
  ]);
  expect(Object.keys(COMMANDS).filter((name) => !known.has(name))).toEqual([]);
});

test("a word of the stack file that is not a secret is found in a command's output", async () => {
  const place = workplace({ platform: "canaryinclear" }, []);
  try {
    await runCommands(place, "canary-control", [["plan"]]);
    expect(place.printed.get("plan")).toContain("canaryinclear");
  } finally {
    clear(place, "canary-control");
  }
});

describe.each(names)("%s", (name) => {
  const stack = `canary-${name}`;
  const canaries = placesOf(name).map((place) => canaryOf(name, place));
  let place: Workplace;
  /** Files that the stack file names: they are the user's, and nothing copies them. */
  let secrets: string;

  beforeAll(async () => {
    secrets = mkdtempSync(join(tmpdir(), "engine-room-secrets-"));
    const values = planted(name, (secret) => {
      const canary = canaryOf(name, secret);
      const text = secret.path.at(-1)?.startsWith("uri")
        ? `mongodb://user:${canary}@db.example.org/`
        : canary;
      if (secret.kind === "text") return text;
      const file = join(secrets, secret.path.join("-"));
      writeFileSync(file, text, { mode: 0o600 });
      return file;
    });
    // Without Pulumi's CLI a local stack is previewed in the process.
    place = workplace(values, name === "local" ? ["pulumi"] : []);
    for (const batch of batchesOf(name)) await runCommands(place, stack, batch);
  }, 600_000);

  afterAll(() => {
    clear(place, stack);
    rmSync(secrets, { recursive: true, force: true });
  });

  test(`every command prints something of a stack on ${name}`, () => {
    expect(place.printed.get("plan")).toMatch(/\S/);
    const silent = batchesOf(name)
      .flat()
      .map((words) => words.join(" "))
      .filter((words) => !words.includes("--out") && (place.printed.get(words) ?? "").trim() === "");
    // A shell has the streams of the command itself.
    const byKubectl = place.printed.get("(process)")?.includes("kubectl: nothing is there") === true;
    expect(silent).toEqual(byKubectl ? ["shell gateway"] : []);
    if (isThorough)
      expect(place.printed.get("ci diff-summary --diff diff.json")).toMatch(/^### Stack `canary-/);
  });

  test(`no command prints a secret of a stack on ${name}`, () => {
    const leaks = [...place.printed].flatMap(([words, text]) =>
      canaries.filter((canary) => text.includes(canary)).map((canary) => `${words}: ${canary}`),
    );
    expect(leaks).toEqual([]);
  });

  test(`no file, argument, variable or input of a program has a secret of a stack on ${name}`, () => {
    const files = filesBelow(place.folder, join(projectRoot, ".stacks", stack));
    // The stack file has the secrets.
    const written = [...files].filter(([path]) => path !== place.stackFile);
    const leaks = written.flatMap(([path, text]) =>
      canaries.filter((canary) => text.includes(canary)).map((canary) => `${path}: ${canary}`),
    );
    expect(leaks).toEqual([]);
  });
});
