import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { clear, filesBelow, runCommand, type Workplace, workplace } from "../canary/run-commands.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "../canary/stacks.ts";

/**
 * Commands as they are run: each begins as it would for a user, with stand-ins for Docker, kubectl, ssh and Pulumi's CLI that
 * fail.
 */
const lines: readonly (readonly string[])[] = [
  ["plan"],
  ["plan", "--json"],
  ["render"],
  ["preview"],
  ["outputs", "--json"],
  ["status"],
  ["logs", "gateway"],
  ["preflight"],
  ["images"],
  ["connect"],
  ["smoke"],
  ["verify"],
  ["ask", "--endpoint", "gateway", "--text", "x"],
  ["sleep"],
  ["wake"],
  ["diff", "--base", "HEAD"],
  ["diff", "--base", "HEAD", "--format", "markdown"],
  ["diff", "--base", "HEAD", "--format", "json"],
  ["diff", "--base", "HEAD", "--format", "json", "--out", "diff.json"],
  ["ci", "diff-summary", "--diff", "diff.json"],
  ["seed"],
  ["bench"],
  ["refresh"],
  ["down"],
];

/** They download and start servers where nothing is left to stand-ins. */
const creating: readonly (readonly string[])[] = [["up"], ["start", "--no-samples"]];

const linesOf = (name: BaseName) => [...lines, ...(name === "local" ? [] : creating)];

/** Commands with a reason not to be among them. */
const others: Readonly<Record<string, string>> = {
  expire: "reads no stack file; in the state's history secrets stay encrypted",
  key: "reads no stack file; its secret is what it is for",
  test: "runs the tests",
};

test("every command is run, or has a reason not to be", () => {
  const commands = readdirSync(join(projectRoot, "scripts/commands"))
    .map((file) => file.replace(/\.ts$/, ""))
    .filter((name) => !["main", "command", "help"].includes(name));
  const known = new Set([...[...lines, ...creating].map(([name]) => name), ...Object.keys(others)]);
  expect(commands.filter((name) => !known.has(name))).toEqual([]);
});

test("what is no secret is seen, so that a secret would be", async () => {
  const place = workplace({ platform: "canaryinclear" }, []);
  try {
    await runCommand(place, "canary-control", ["plan"]);
    expect(place.printed.get("plan")).toContain("canaryinclear");
  } finally {
    clear(place, "canary-control");
  }
});

describe.each(Object.keys(bases) as BaseName[])("%s", (name) => {
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
    // Without Pulumi's CLI a local stack is previewed in the process itself.
    place = workplace(values, name === "local" ? ["pulumi"] : []);
    for (const words of linesOf(name)) await runCommand(place, stack, words);
  }, 600_000);

  afterAll(() => {
    clear(place, stack);
    rmSync(secrets, { recursive: true, force: true });
  });

  test("commands said something", () => {
    expect(place.printed.get("plan")).toMatch(/\S/);
    const silent = linesOf(name)
      .filter((words) => !words.includes("--out"))
      .map((words) => words.join(" "))
      .filter((words) => (place.printed.get(words) ?? "").trim() === "");
    expect(silent).toEqual([]);
    expect(place.printed.get("ci diff-summary --diff diff.json")).toMatch(/^### Stack `canary-/);
  });

  test("no command printed a secret", () => {
    const leaks = [...place.printed].flatMap(([words, text]) =>
      canaries.filter((canary) => text.includes(canary)).map((canary) => `${words}: ${canary}`),
    );
    expect(leaks).toEqual([]);
  });

  test("no file, argument, variable or input of a program has a secret", () => {
    const files = filesBelow(place.folder, join(projectRoot, ".stacks", stack));
    // The stack file is where the secrets are.
    const written = [...files].filter(([path]) => path !== place.stackFile);
    const leaks = written.flatMap(([path, text]) =>
      canaries.filter((canary) => text.includes(canary)).map((canary) => `${path}: ${canary}`),
    );
    expect(leaks).toEqual([]);
  });
});
