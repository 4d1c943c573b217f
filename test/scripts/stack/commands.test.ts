import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Endpoints } from "../../../infra/plan/endpoints.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { endpointTable, unreachableEndpoints } from "../../../scripts/stack/endpoint-table.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { saveState } from "../../../scripts/tryout/state.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { useFakePulumi } from "./fake-pulumi.ts";

describe("preview", () => {
  const NAME = "preview-test";

  const event = (op: string, name: string) => {
    const state = { custom: true, inputs: {} };
    const urn = `urn:pulumi:${NAME}::engine-room::local:index:Process::${name}`;
    const metadata = { op, urn, type: "local:index:Process", new: state };
    return `${JSON.stringify({ resourcePreEvent: { metadata } })}\n${JSON.stringify({ resOutputsEvent: { metadata } })}`;
  };

  const PREVIEW = `
if [ "$1" = preview ]; then
  printf '%s\\n' '{"diagnosticEvent":{"severity":"warning","message":"<{%fg 1%}>warning: <{%reset%}>the stack file is old"}}' >> "$log"
  printf '%s\\n' '{"diagnosticEvent":{"severity":"debug","message":"RegisterResource with a secret"}}' >> "$log"
  case "$FAKE_PREVIEW" in
    same) printf '%s\\n' '${event("same", "gateway")}' >> "$log" ;;
    changed) printf '%s\\n' '${event("create", "gateway")}' >> "$log" ;;
    broken)
      printf '%s\\n' '{"diagnosticEvent":{"severity":"error","message":"error: no resource plugin"}}' >> "$log"
      exit 255 ;;
  esac
fi
`;

  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-preview-"));
    useFakePulumi(folder, PREVIEW);
    vi.stubEnv("ENGINE_ROOM_RUNNER", "");
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state");
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  const preview = (result: string, ...options: string[]) => {
    vi.stubEnv("FAKE_PREVIEW", result);
    const file = join(projectRoot, "Pulumi.local.yaml");
    return runCommand("preview", "--stack", NAME, "--config-file", file, ...options);
  };

  test("`preview` shows changes and succeeds", async () => {
    const { exitCode, stdout, stderr } = await preview("changed");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("+ create  gateway (Process)");
    expect(stdout).toContain("1 to create\n");
    expect(stdout).toContain("warning: the stack file is old\n");
    expect(stdout).not.toContain("RegisterResource");
    expect(stdout + stderr).not.toContain("error");
  });

  test("`preview --json` prints the changes as one object, and readable text on standard error", async () => {
    const { exitCode, stdout, stderr } = await preview("changed", "--json");
    expect([exitCode, JSON.parse(stdout)]).toEqual([
      0,
      {
        stack: NAME,
        changes: [
          {
            operation: "create",
            name: "gateway",
            type: "local:index:Process",
            urn: `urn:pulumi:${NAME}::engine-room::local:index:Process::gateway`,
          },
        ],
        unchanged: 0,
      },
    ]);
    expect(stderr).toContain("1 to create\n");
  });

  test("`preview --expect-no-changes` fails with one sentence if something would change", async () => {
    const { exitCode, stdout, stderr } = await preview("changed", "--expect-no-changes");
    expect(exitCode).toBe(1);
    expect(stdout).toContain("1 to create\n");
    expect(stderr).toBe("The preview has changes, and --expect-no-changes expects none.\n");
    const same = await preview("same", "--expect-no-changes");
    expect(same).toMatchObject({ exitCode: 0, stderr: "" });
    expect(same.stdout).toContain("1 unchanged\n");
  });

  test("a failed `preview` is reported with the Pulumi CLI's error", async () => {
    const { exitCode, stdout, stderr } = await preview("broken");
    expect(exitCode).toBe(1);
    expect(stdout).toContain("error: no resource plugin\n");
    expect(stderr).toContain("`pulumi preview` ended with exit code 255; its errors are above.");
  });
});

describe("a stack without a file", () => {
  const STACK = `unknown-stack-${process.pid}`;

  const { directory, data, tryoutState } = stackPaths(STACK);

  beforeEach(() => {
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state");
  });

  afterEach(() => {
    for (const folder of [directory, data]) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  test.each([
    [["down"]],
    [["down", "--delete-data"]],
    [["refresh"]],
    [["status"]],
    [["status", "--json"]],
    [["outputs"]],
    [["logs"]],
    [["logs", "gateway"]],
    [["smoke"]],
    [["seed"]],
    [["bench"]],
    [["preview"]],
    [["plan"]],
  ])("%j of an unknown stack names the missing stack file", async ([name = "", ...words]) => {
    const { exitCode, stdout, stderr } = await runCommand(name, "--stack", STACK, ...words);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(`The stack ${STACK} has no file Pulumi.${STACK}.yaml.`);
    expect(stderr).toContain("name another file with --config-file");
    expect(existsSync(directory)).toBe(false);
  });

  test.each(["down", "status"])("`%s` names a mistyped --config-file", async (name) => {
    const file = join(directory, "nope.yaml");
    const { exitCode, stderr } = await runCommand(name, "--stack", STACK, "--config-file", file);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`The stack ${STACK} has no file ${file}.`);
  });

  test("`refresh` and `down` of a stack without a file use its state", async () => {
    saveState(tryoutState, { resources: [], pending: [] });
    expect((await runCommand("refresh", "--stack", STACK)).exitCode).toBe(0);
    expect((await runCommand("down", "--stack", STACK)).exitCode).toBe(0);
    expect(existsSync(directory)).toBe(false);
  });

  test("`down --delete-data` deletes the documents that are left of a stack without a file", async () => {
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "a"), "");
    const kept = await runCommand("down", "--stack", STACK);
    expect([kept.exitCode, existsSync(data)]).toEqual([0, true]);
    expect(kept.stderr).toContain("--delete-data");
    expect((await runCommand("down", "--stack", STACK, "--delete-data")).exitCode).toBe(0);
    expect(existsSync(data)).toBe(false);
  });
});

describe("`down` of a stack on a Docker host", () => {
  let folder: string;

  let stackFile: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-end-stack-"));
    stackFile = writtenStackFile(folder, {
      platform: "docker",
      tier: "cpu",
      host: { uri: "ssh://ubuntu@gpu.example.org" },
      models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
    });
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://room-state");
    vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
  });

  function down(docker: string) {
    const program = join(folder, "docker");
    writeFileSync(program, `#!/bin/sh\n${docker}\n`);
    chmodSync(program, 0o755);
    return runCommand("down", "--stack", "end-stack", "--config-file", stackFile);
  }

  test("`down` reports a Docker host that does not answer, and prints nothing before", async () => {
    const { exitCode, stdout, stderr } = await down(
      'echo "Cannot connect to the Docker daemon at http://docker.example.com. Is the docker daemon running?" >&2; exit 1',
    );
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^No Docker engine answers/);
  });

  test("`down` succeeds if the Docker host has no containers of the stack", async () => {
    const { exitCode, stderr } = await down("exit 0");
    expect([exitCode, stderr]).toEqual([0, "  nothing to do: the stack end-stack has no resources\n"]);
  });
});

const endpoints: Endpoints = {
  gateway: "https://models.example.org",
  gatewayReach: "public",
  gatewayDnsName: "demo.elb.amazonaws.com",
  mongo: null,
  vector: null,
  encoders: null,
  models: {},
  reach: "cluster",
};

test("the table of endpoints names who reaches the gateway if others reach the rest", () => {
  const last = (changes: Partial<Endpoints>) =>
    endpointTable({
      endpoints: { ...endpoints, ...changes },
      models: [],
      release: "25.07",
      engineStore: "",
      cost: { hourlyUsd: 0, monthlyUsd: 0, buildUsd: 0, pricesAsOf: null, withoutPrice: [] },
      notes: [],
    })
      .trim()
      .split("\n")
      .at(-1);
  expect(last({})).toBe("  Reachable from: public (gateway), cluster (all others)");
  expect(last({ gatewayReach: "cluster" })).toBe("  Reachable from: cluster");
});

test("endpoints whose port does not accept connections are named, except those of a cluster", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const open = `http://127.0.0.1:${port}`;
  const outputs = (changes: Partial<Endpoints>) => ({
    ...{ models: [], release: "25.07", engineStore: "", notes: [] },
    endpoints: { ...endpoints, gateway: open, gatewayReach: "host" as const, ...changes },
    cost: { hourlyUsd: 0, monthlyUsd: 0, buildUsd: 0, pricesAsOf: null, withoutPrice: [] },
  });
  try {
    expect(await unreachableEndpoints(outputs({ mongo: "mongodb://mongo:27017" }))).toEqual([]);
    // Nothing listens on port 1.
    expect(await unreachableEndpoints(outputs({ vector: "http://127.0.0.1:1", reach: "host" }))).toEqual([
      { name: "vector", address: "http://127.0.0.1:1" },
    ]);
  } finally {
    server.close();
  }
});
