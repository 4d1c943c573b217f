import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { clear, filesBelow, runCommand, type Workplace, workplace } from "../canary/run-commands.ts";
import { type BaseName, bases, canaryOf, placesOf, planted } from "../canary/stacks.ts";

/**
 * Commands as they are run: each begins as it would for a user, with stand-ins for Docker, kubectl, ssh and Pulumi's CLI that
 * fail. `local` has no `up` here, which downloads and starts servers.
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
  ["diff", "--base", "HEAD", "--format", "json"],
  ["refresh"],
  ["down"],
];

/** Commands with a reason not to be among them. */
const others: Readonly<Record<string, string>> = {
  up: "creates, and downloads what a local stack runs",
  start: "installs packages, then is `up`",
  seed: "takes nothing of the stack file but the gateway's address",
  bench: "builds things of its own for minutes",
  ci: "reads no stack file; what it says comes from GitHub and from files of the job",
  key: "reads no stack file; its secret is what it is for",
  test: "runs the tests",
};

test("every command is run, or has a reason not to be", () => {
  const commands = readdirSync(join(projectRoot, "scripts/commands"))
    .map((file) => file.replace(/\.ts$/, ""))
    .filter((name) => !["main", "command"].includes(name));
  const known = new Set([...lines.map(([name]) => name), ...Object.keys(others)]);
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
    for (const words of lines) await runCommand(place, stack, words);
  }, 600_000);

  afterAll(() => {
    clear(place, stack);
    rmSync(secrets, { recursive: true, force: true });
  });

  test("commands said something", () => {
    expect(place.printed.get("plan")).toMatch(/\S/);
    expect(lines.filter((words) => (place.printed.get(words.join(" ")) ?? "").trim() === "")).toEqual([]);
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
