import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { COMMANDS } from "../../../scripts/commands/index.ts";
import { logEntry } from "../../../scripts/commands/logs.ts";
import { needs } from "../../harness/requirements.ts";
import { runCommand } from "../plan/run-plan.ts";

const NAMES = Object.keys(COMMANDS);

describe("an option that npm consumed", () => {
  test("is named where a script of package.json was called, with or without a value", async () => {
    vi.stubEnv("npm_lifecycle_script", "node scripts/cli.mjs plan prod");
    vi.stubEnv("npm_config_stack", "true");
    const { exitCode, stderr } = await runCommand("plan", "prod");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("npm took --stack for itself; write `--` before the options.");

    vi.stubEnv("npm_config_stack", undefined);
    vi.stubEnv("npm_config_samples", "");
    expect((await runCommand("start")).stderr).toContain("npm took --no-samples for itself");
  });

  test.each([
    ["the command got it as well", "node scripts/cli.mjs plan"],
    ["npx was called", "engine-room"],
  ])("is not reported if %s", async (_what, script) => {
    vi.stubEnv("npm_lifecycle_script", script);
    vi.stubEnv("npm_config_json", "true");
    const { exitCode, stdout } = await runCommand("plan", "--stack", "local", "--json");
    expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { plan: { platform: "local" } }]);
  });
});

test.each([
  ["sleep", "`npx engine-room down --stack local` ends it and keeps its documents."],
  ["wake", "`npx engine-room start --stack local` brings it up."],
  ["images", "the stack local has `platform: local`, which runs without images."],
])("`%s` of a local stack is refused with exit code 2, and the alternative", async (name, words) => {
  const { exitCode, stderr } = await runCommand(name);
  expect(exitCode).toBe(2);
  expect(stderr.split("\n")[0]).toContain(words);
});

test.each([
  ["ask one --text two --as curl", 'Two prompts: "one" and --text. Give one.'],
  ["ask --as curl", 'Missing prompt: npx engine-room ask "TEXT".'],
  ["ask x --as crul", 'Unknown --as "crul". Did you mean curl?'],
  ["ask x --max-tokens", "Option '--max-tokens <n>' argument missing."],
  ["ask x --temperature -1", '--temperature is "-1"; it must be a number from 0 to 2.'],
  ["images --only mongodb", 'Unknown --only "mongodb". Did you mean mongo?'],
  ["plna", "Unknown command 'plna'. Did you mean plan?"],
  ["plan --jsno", "Unknown option '--jsno'. Did you mean --json?"],
  ["plan prod", "Unexpected argument: prod."],
  ["ask who are you", "Unexpected argument: are you; put the text in quotes."],
  ["test unti", 'Unknown suite "unti". Did you mean unit?'],
  ["connect everything", 'Unknown part "everything". Choose from triton, databases, grafana.'],
  ["logs gateway --lines abc", "--lines must be a number from 1 to 9999999; it is abc."],
  ...["key", "test", "ci", "expire"].map((name) => [
    `${name} --config-file x.yaml`,
    "Unknown option '--config-file'.",
  ]),
])("`%s` is refused with exit code 2: %s", async (line = "", sentence = "") => {
  const { exitCode, stdout, stderr } = await runCommand(...line.split(" "));
  expect([exitCode, stdout]).toEqual([2, ""]);
  const [first, second] = stderr.split("\n");
  expect(first).toBe(sentence);
  expect(second).toMatch(/^`npx engine-room (?:\S+ )?--help` prints the usage\.$/);
});

test("the help lists each command on a line of at most 80 columns, in groups", async () => {
  const { exitCode, stdout } = await runCommand("--help");
  expect(exitCode).toBe(0);
  const lines = stdout.split("\n");
  for (const [name, { summary }] of Object.entries(COMMANDS))
    expect(
      lines.filter((line) => line.startsWith(`  ${name} `) && line.endsWith(` ${summary}`)),
    ).toHaveLength(1);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(await runCommand()).toEqual({ exitCode, stdout, stderr: "" });
});

test("the list of commands loads none of them", () => {
  const argv = ["scripts/cli.mjs", "--help"];
  const { stderr, status } = spawnSync(process.execPath, argv, {
    env: { ...process.env, NODE_DEBUG: "module" },
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  expect(status).toBe(0);
  expect(stderr).toContain("commander");
  expect(stderr).not.toContain("@pulumi");
});

test("`--version` prints the version", async () => {
  expect(await runCommand("--version")).toMatchObject({ exitCode: 0, stdout: "0.1.0\n" });
});

test.each(NAMES)("the help of %s keeps to 80 columns", async (name) => {
  const { exitCode, stdout } = await runCommand(name, "--help");
  expect(exitCode).toBe(0);
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect(stdout.includes("--stack <name>")).toBe(
    !["init", "key", "test", "expire", "completion"].includes(name),
  );
  expect((await runCommand("help", name)).stdout).toBe((await runCommand(name, "--help")).stdout);
});

describe("completion", () => {
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-completion-"));
    for (const shell of ["bash", "zsh"])
      writeFileSync(join(folder, shell), (await runCommand("completion", shell)).stdout);
    writeFileSync(join(folder, "Pulumi.local.yaml"), "config:\n  engine-room:platform: local\n");
    writeFileSync(
      join(folder, "Pulumi.prod.yaml"),
      "config:\n  engine-room:models:\n    - name: llava\n      model: llava-1.5\n    - { name: phi, model: phi-2 }\n  engine-room:pools:\n    - name: gpu\n",
    );
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  const CALL = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _engine_room; printf "%s\\n" "\${COMPREPLY[@]}"`;

  const SHELLS = {
    bash: `source ./bash; ${CALL}`,
    // Called like by bashcompinit; completion itself needs a terminal.
    zsh: `compdef() { :; }; source ./zsh; emulate -L sh; setopt kshglob noshglob braceexpand; ${CALL}`,
  };

  const LINES = [
    ["npx engine", "engine-room"],
    ["npx engine-room pre", "preflight preview"],
    ["engine-room st", "start status"],
    ["engine-room help verif", "verify"],
    ["engine-room plan --js", "--json"],
    ["engine-room test cl", "cluster"],
    ["engine-room ask --endpoint g", "gateway"],
    ["engine-room up --stack p", "prod"],
    ["engine-room ask --stack prod -m ", "llava phi"],
    ["engine-room render --out x", ""],
    ["npx other x", ""],
  ] as const;

  const shells = Object.keys(SHELLS) as (keyof typeof SHELLS)[];

  describe.each(shells)("by %s", (shell) => {
    const isPresent = spawnSync(shell, ["--version"]).status === 0;

    test.each(LINES)(
      "of `%s` is `%s`",
      needs(isPresent ? undefined : `${shell} is not installed`),
      (line, expected) => {
        const { stdout, stderr } = spawnSync(shell, ["-c", SHELLS[shell], shell, ...line.split(" ")], {
          cwd: folder,
          encoding: "utf8",
        });
        // zsh itself omits candidates that do not begin with the word.
        const typed = line.split(" ").at(-1) ?? "";
        const words = stdout.split("\n").filter((word) => shell === "bash" || word.startsWith(typed));
        expect([stderr, words.join(" ").trim()]).toEqual(["", expected]);
      },
    );
  });
});

test.each([
  [
    '{"level":30,"time":1795830361654,"service":"gateway","requestId":"6b","method":"GET","route":"/healthz","status":200,"durationMs":36.069,"model":"","msg":"request"}',
    ["2026-11-28T01:46:01Z", "info", "GET /healthz 200 36 ms"],
  ],
  [
    '{"level":50,"time":1795830361735,"service":"mongo","command":"find","milliseconds":5.77,"ok":false,"msg":"command"}',
    ["2026-11-28T01:46:01Z", "error", "command 5.8 ms command=find ok=false"],
  ],
  [
    '2026-11-28T01:45:51Z W 18971 memory.cc:273] "Unable to allocate"',
    ["2026-11-28T01:45:51Z", "warn", "Unable to allocate (memory.cc:273)"],
  ],
  [
    "[pod/triton-0/triton] I1128 01:45:51.123456 1 server.cc:1] ready",
    ["", "info", "[pod/triton-0/triton] ready (server.cc:1)"],
  ],
  ["{not JSON", ["", "", "{not JSON"]],
  ['{"time":"now"}', ["", "", '{"time":"now"}']],
])("a line of a log has time, level and message: %s", (line, [time, level, message]) => {
  expect(logEntry(line)).toEqual({ time, level, message });
});
