import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PulumiState } from "../../../scripts/expire/pulumi-states.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { approvedPreview } from "../../../scripts/stack/approved-preview.ts";
import { openStack } from "../../../scripts/stack/backend.ts";
import { lockName, lockStack, StackLockedError } from "../../../scripts/stack/lock.ts";
import { PulumiBackend } from "../../../scripts/stack/pulumi-backend.ts";
import { findProgram, loginUrl, PulumiError, runPulumi } from "../../../scripts/stack/pulumi-cli.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { unfinishedResources } from "../../../scripts/stack/state.ts";
import { type FakePulumi, useFakePulumi } from "./fake-pulumi.ts";

describe("calls of the Pulumi CLI", () => {
  const FAKE = `#!/bin/sh
case "$1" in
  state) echo "$* $PULUMI_BACKEND_URL [$PULUMI_CONFIG_PASSPHRASE]" ;;
  *) echo "half of it"; echo "error: $1" >&2; exit 3 ;;
esac
`;

  const folder = mkdtempSync(join(tmpdir(), "engine-room-cli-"));

  const cli = join(folder, "pulumi");

  writeFileSync(cli, FAKE, { mode: 0o755 });

  afterAll(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

  test("the Pulumi CLI is called without questions, with a backend and an empty passphrase", async () => {
    vi.stubEnv("PULUMI_CONFIG_PASSPHRASE", undefined);
    expect(await runPulumi(cli, ["state"], "s3://room")).toBe("state --non-interactive s3://room []\n");
    vi.stubEnv("PULUMI_CONFIG_PASSPHRASE", "own");
    expect(await runPulumi(cli, ["state"], "s3://room")).toContain("[own]");
  });

  test("the error of a failed call has the CLI's error", async () => {
    await expect(runPulumi(cli, ["no such thing"], "s3://room")).rejects.toThrow(
      new PulumiError("`pulumi no such thing` failed: error: no such thing", "half of it\n"),
    );
    await expect(runPulumi(cli, ["incorrect passphrase"], "s3://room")).rejects.toThrow(
      "set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE to it",
    );
  });

  test("the last `up` of a stack has the commit of its history", async () => {
    const update = { kind: "update", result: "failed", endTime: "2026-11-28T11:00:00Z", config: {} };
    const commit = "0123456789abcdef0123456789abcdef01234567";
    const lastUp = async (environment: object) => {
      const history = JSON.stringify([
        { ...update, kind: "refresh" },
        { ...update, environment },
      ]);
      const executable = join(folder, "pulumi-with-history");
      writeFileSync(executable, `#!/bin/sh\necho '${history}'\n`, { mode: 0o755 });
      return new PulumiState(executable, "s3://room").lastUp("dev");
    };
    expect(await lastUp({ "git.head": commit, "git.dirty": "true" })).toMatchObject({ commit });
    expect(await lastUp({ "git.head": "$(id)" })).toMatchObject({ commit: null });
    expect(await lastUp({})).toMatchObject({ commit: null });
  });

  test("a call that does not end in time is reported with the CLI's output", async () => {
    const slow = join(folder, "slow");
    writeFileSync(slow, "#!/bin/sh\necho 'warning: waiting' >&2\nexec sleep 600\n", { mode: 0o755 });
    await expect(runPulumi(slow, ["preview", "--json"], "s3://room", folder, 500)).rejects.toThrow(
      /^`pulumi preview --json` failed: it did not end within 0\.5 seconds\./,
    );
  });

  test("the backend is that of the variable, the project, the login or the access token, in this order", () => {
    const login = (environment: NodeJS.ProcessEnv) =>
      loginUrl({ PULUMI_HOME: folder, ...environment }, folder);
    writeFileSync(join(folder, "Pulumi.yaml"), "name: room\n");
    expect(login({})).toBeNull();
    expect(login({ PULUMI_ACCESS_TOKEN: "token" })).toBe("https://api.pulumi.com");
    writeFileSync(join(folder, "credentials.json"), JSON.stringify({ current: "file://~" }));
    expect(login({ PULUMI_ACCESS_TOKEN: "token" })).toBe("file://~");
    writeFileSync(join(folder, "Pulumi.yaml"), "name: room\nbackend:\n  url: s3://project\n");
    expect(login({})).toBe("s3://project");
    expect(login({ PULUMI_BACKEND_URL: "s3://variable" })).toBe("s3://variable");
  });
});

test("the Pulumi CLI is the first on PATH that can be executed, and never npm's downloader", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-find-"));
  const place = (path: string, mode = 0o755): string => {
    const file = join(folder, path, "pulumi");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "", { mode });
    return file;
  };
  const find = (...folders: string[]) =>
    findProgram("pulumi", { PATH: folders.map((path) => join(folder, path)).join(delimiter) });
  try {
    place("node_modules/.bin");
    place("text", 0o644);
    expect(findProgram("pulumi", {})).toBeUndefined();
    expect(find("empty", "node_modules/.bin", "text")).toBeUndefined();
    const program = place("bin");
    place("other");
    expect(find("node_modules/.bin", "text", "bin", "other")).toBe(program);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const directory = `/test/${process.pid}/stack`;

test("a held lock is refused with its holder, and is free after its release", async () => {
  const lock = await lockStack("demo", directory, "up");
  const second = lockStack("demo", directory, "down");
  await expect(second).rejects.toThrow(StackLockedError);
  await expect(second).rejects.toThrow(`locked by process ${process.pid} (\`up\`, since `);
  lock.release();
  (await lockStack("demo", directory, "down")).release();
});

test("two stacks have two locks", async () => {
  const lock = await lockStack("demo", directory, "up");
  (await lockStack("demo", `${directory}-2`, "up")).release();
  lock.release();
});

test("a lock is free after its holder was killed with SIGKILL", async () => {
  const module = new URL("../../../scripts/stack/lock.ts", import.meta.url).href;
  const script = `import { lockStack } from ${JSON.stringify(module)}; await lockStack("demo", ${JSON.stringify(directory)}, "up"); console.log("held"); setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(holder.stdout, "data");
  await expect(lockStack("demo", directory, "up")).rejects.toThrow(`process ${holder.pid}`);
  holder.kill("SIGKILL");
  await once(holder, "close");
  (await lockStack("demo", directory, "up")).release();
});

test.each<NodeJS.Platform>(["darwin", "linux"])(
  "a lock on %s is held once, and its abandoned name is taken over",
  async (platform) => {
    const name = lockName(`${directory}-${platform}`, platform);
    const script = `require("node:net").createServer().listen(${JSON.stringify(name)}, () => process.kill(process.pid, "SIGKILL"))`;
    await once(spawn(process.execPath, ["-e", script]), "close");
    const lock = await lockStack("demo", directory, "up", name);
    await expect(lockStack("demo", directory, "down", name)).rejects.toThrow(`process ${process.pid}`);
    lock.release();
  },
);

test("a lock has a name of the operating system's form", () => {
  expect(lockName("/a", "linux")).toMatch(/^\0engine-room-[0-9a-f]{32}$/);
  expect(lockName("/a", "darwin")).toMatch(/^\/.*\/engine-room-[0-9a-f]{32}\.sock$/);
});

describe("a stack in the backend of the CLI", () => {
  const URL_OF_STATE = "s3://room-state/pulumi";

  const NAME = "backend-test";

  let folder: string;

  let stack: ReturnType<typeof stackReference>;

  let pulumi: FakePulumi;

  const operations = () => pulumi.calls().map(({ args }) => args.slice(0, 2).join(" "));

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-shared-"));
    pulumi = useFakePulumi(folder);
    stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.kind.yaml") };
    vi.stubEnv("PULUMI_BACKEND_URL", URL_OF_STATE);
    vi.stubEnv("ENGINE_ROOM_RUNNER", "");
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  test("a stack is created once in the backend, where a second machine finds it", async () => {
    await (await openStack(stack)).up();
    expect(pulumi.stacks()).toEqual([NAME]);
    rmSync(stackPaths(NAME).directory, { recursive: true, maxRetries: 5 });
    await (await openStack(stack)).up();
    expect(operations().filter((operation) => operation === "stack init")).toHaveLength(1);
    const asked = pulumi.calls().filter(({ args: [command] }) => command !== "version");
    expect(new Set(asked.map(({ backend }) => backend))).toEqual(new Set([URL_OF_STATE]));
  });

  test("`up` with policies enforces them in a preview before the update, and in the update", async () => {
    const withPack = () =>
      pulumi
        .calls()
        .filter(({ args }) => args.includes("--policy-pack"))
        .map(({ args: [command] }) => command);
    await (await openStack(stack)).up();
    expect(withPack()).toEqual([]);
    await (await openStack(stack)).up({ enforcesPolicies: true });
    expect(withPack()).toEqual(["preview", "up"]);
  });

  describe("an approved preview", () => {
    const previewOf = (...operations: string[]) =>
      JSON.stringify({
        steps: operations.map((op) => ({
          op,
          urn: `urn:pulumi:${NAME}::engine-room::aws:efs/fileSystem:FileSystem::${op}`,
          [op === "delete" ? "oldState" : "newState"]: {
            type: "aws:efs/fileSystem:FileSystem",
            custom: true,
            inputs: { encrypted: true },
          },
        })),
        changeSummary: {},
      });

    test("an approved preview is what `up` applies, without a refresh", async () => {
      vi.stubEnv("FAKE_PREVIEW", previewOf("create"));
      await (await openStack(stack)).up({ approved: approvedPreview(NAME, previewOf("create")) });
      const up = pulumi.calls().find(({ args: [command] }) => command === "up");
      expect(up?.args).not.toContain("--refresh");
      await (await openStack(stack)).up();
      expect(pulumi.calls().findLast(({ args: [command] }) => command === "up")?.args).toContain("--refresh");
    });

    test("an approved preview stops `up` before it creates or changes the stack, if the present preview differs", async () => {
      vi.stubEnv("FAKE_PREVIEW", previewOf("create", "delete"));
      const up = (await openStack(stack)).up({ approved: approvedPreview(NAME, previewOf("create")) });
      await expect(up).rejects.toThrow(
        /^Nothing of the stack backend-test was changed, because .* 1 resource differs\.\n- .*: unchanged in the approved preview, delete now\n/,
      );
      const inState = pulumi.calls().filter(({ backend }) => backend === URL_OF_STATE);
      expect(new Set(inState.map(({ args }) => args.slice(0, 2).join(" ")))).toEqual(
        new Set(["stack export"]),
      );
    });

    test("an approved preview of a stack without a state compares with an empty state, and a preview that fails gives the reason", async () => {
      vi.stubEnv("FAKE_PREVIEW", previewOf("create"));
      const preview = () => new PulumiBackend(stack, join(folder, "pulumi")).previewJson();
      expect(JSON.parse(await preview())).toEqual(JSON.parse(previewOf("create")));
      const changed = pulumi.calls().filter(({ args }) => args[1] === "init" || args[0] === "preview");
      expect(changed.map(({ backend }) => backend)).not.toContain(URL_OF_STATE);
      vi.stubEnv("FAKE_PREVIEW_CODE", "1");
      vi.stubEnv(
        "FAKE_PREVIEW",
        JSON.stringify({
          steps: [],
          diagnostics: [{ severity: "error", message: "The role may not read." }],
        }),
      );
      await expect(preview()).rejects.toThrow("The role may not read.");
    });

    test("an approved preview that fails is reported with both outputs of the CLI", async () => {
      const backend = new PulumiBackend(stack, join(folder, "pulumi"));
      vi.stubEnv("FAKE_PREVIEW_CODE", "255");
      vi.stubEnv("FAKE_PREVIEW", "warning: an old CLI");
      vi.stubEnv("FAKE_PREVIEW_ERROR", "error: KMS refuses the key");
      await expect(backend.previewJson()).rejects.toThrow(
        /^This is not the output of [^\n]+\n`pulumi preview --json` failed: error: KMS refuses the key$/,
      );
      vi.stubEnv("FAKE_PREVIEW", "Previewing update (dev):");
      vi.stubEnv("FAKE_PREVIEW_ERROR", "error: failed to load policy pack");
      await expect(backend.previewPolicies()).rejects.toThrow(
        /^Previewing update \(dev\):\n`pulumi preview --policy-pack` failed: error: failed to load policy pack$/,
      );
    });

    test("an approved preview has the CLI's findings of policies, and fails with them if a policy is broken", async () => {
      vi.stubEnv("FAKE_PREVIEW", "Resources:\n    + 3 to create\nPolicies:\n    - [mandatory] a rule");
      const policies = () => new PulumiBackend(stack, join(folder, "pulumi")).previewPolicies();
      expect(await policies()).toBe("Policies:\n    - [mandatory] a rule\n");
      vi.stubEnv("FAKE_PREVIEW_CODE", "1");
      await expect(policies()).rejects.toThrow(
        /^Policies:\n {4}- \[mandatory\] a rule\n`pulumi preview --policy-pack` failed: it ended with exit code 1\.$/,
      );
    });
  });

  test.each(["preview", "up", "refresh", "down"] as const)(
    "`%s` fails where the CLI succeeds and its summary is lost, and succeeds once it arrives",
    async (operation) => {
      await (await openStack(stack)).up();
      vi.stubEnv("FAKE_LOST", "1");
      const run = (await openStack(stack))[operation]();
      await expect(run).rejects.toThrow(
        /^`pulumi \w+` ended without an error, but its summary did not arrive, .* again\. .* \(this is 3\.100\.0\)/,
      );
      expect(pulumi.stacks()).toEqual([NAME]);
      vi.stubEnv("FAKE_LOST", "");
      await (await openStack(stack))[operation]();
    },
  );

  test("outputs are read from the backend, and are undefined for a stack that it lacks", async () => {
    const backend = await openStack(stack);
    expect(await backend.outputs()).toBeUndefined();
    pulumi.keep([NAME]);
    expect(await backend.outputs()).toEqual({ endpoints: { gateway: "http://gateway" } });
  });

  test("`down` removes the stack from the backend and its folder from this machine", async () => {
    await (await openStack(stack)).up();
    await (await openStack(stack)).down();
    expect(pulumi.stacks()).toEqual([]);
    expect(operations().at(-1)).toBe("stack rm");
    expect(pulumi.calls().at(-1)?.args).toContain("--preserve-config");
    expect(existsSync(stackPaths(NAME).directory)).toBe(false);
  });

  test("`down` deletes no resource of a stack with a protected resource", async () => {
    await (await openStack(stack)).up();
    const urn = "urn:pulumi:room::engine-room::aws:efs/fileSystem:FileSystem::files";
    const unprotected = {
      urn: "urn:pulumi:room::engine-room::aws:lb/listener:Listener::door",
      protect: false,
    };
    vi.stubEnv(
      "FAKE_STATE",
      JSON.stringify({ deployment: { resources: [{ urn, protect: true }, unprotected] } }),
    );
    await expect((await openStack(stack)).down()).rejects.toThrow(
      /^1 of the resources of the stack backend-test are protected \(files\), so nothing is deleted\. To end/,
    );
    expect(pulumi.stacks()).toEqual([NAME]);
    expect(operations()).not.toContain("destroy");
  });

  test("a preview of a new stack leaves nothing in the backend, and keeps an existing stack", async () => {
    await (await openStack(stack)).preview();
    const changed = pulumi.calls().filter(({ args }) => args[1] === "init" || args[0] === "preview");
    expect(changed.map(({ backend }) => backend)).not.toContain(URL_OF_STATE);
    pulumi.keep([NAME]);
    await (await openStack(stack)).preview();
    expect(pulumi.stacks()).toEqual([NAME]);
  });

  test("a stack of another backend is refused with the ways to use it", async () => {
    await (await openStack(stack)).up();
    vi.stubEnv("PULUMI_BACKEND_URL", "s3://other");
    const up = (await openStack(stack)).up();
    await expect(up).rejects.toThrow(
      /^The stack backend-test belongs to the backend s3:\/\/room-state\/pulumi, and Pulumi uses s3:\/\/other\.\n.*`pulumi login s3:\/\/room-state\/pulumi`/,
    );
    await expect(up).rejects.toThrow("pulumi stack import --stack backend-test --file backend-test.json");
    await expect((await openStack(stack)).outputs()).rejects.toThrow(
      "belongs to the backend s3://room-state",
    );
  });

  test("a stack that plain `pulumi up` created in another backend is refused", async () => {
    const { directory, owner } = stackPaths(NAME);
    mkdirSync(directory, { recursive: true });
    writeFileSync(owner, JSON.stringify({ owner: "Pulumi" }));
    await expect((await openStack(stack)).up()).rejects.toThrow(
      `\`pulumi up\` made the stack ${NAME} in another backend than ${URL_OF_STATE}`,
    );
    pulumi.keep([NAME]);
    await (await openStack(stack)).up();
  });

  test("the try-out runner refuses a stack of a backend, and names it", async () => {
    await (await openStack(stack)).up();
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    await expect(openStack(stack)).rejects.toThrow(
      "The stack backend-test belongs to the Pulumi CLI (its state is in s3://room-state/pulumi). Unset ENGINE_ROOM_RUNNER",
    );
  });

  test("`up` moves the state of the try-out runner, unless the backend has resources too", async () => {
    const { directory, tryoutState } = stackPaths(NAME);
    mkdirSync(directory, { recursive: true });
    writeFileSync(tryoutState, JSON.stringify({ version: 3, deployment: { resources: [] } }));
    expect((await openStack(stack)).title).toContain("try-out runner");
    await (await openStack(stack, "up")).up();
    expect(operations()).toContain("stack import");
    expect(existsSync(tryoutState)).toBe(false);
    writeFileSync(tryoutState, JSON.stringify({ version: 3, deployment: { resources: [] } }));
    await expect((await openStack(stack, "up")).up()).rejects.toThrow(
      `Two states have resources of the stack ${NAME}: ${tryoutState} and the backend ${URL_OF_STATE}.`,
    );
  });

  test("a stack that an earlier version kept in .stacks/ is refused with the way to move it", async () => {
    const { earlierState } = stackPaths(NAME);
    const states = join(earlierState, ".pulumi", "stacks", "engine-room");
    mkdirSync(states, { recursive: true });
    writeFileSync(join(states, `${NAME}.json`), "{}");
    const up = (await openStack(stack)).up();
    await expect(up).rejects.toThrow(`PULUMI_BACKEND_URL=file://${earlierState} pulumi stack export`);
    await expect(up).rejects.toThrow(`&& rm -r ${earlierState}`);
  });

  test("`down` of a stack without a state only reads the state by the CLI", async () => {
    await (await openStack(stack)).down();
    expect(operations()).toEqual(["stack export"]);
  });
});

test("the next `up` replaces failed tasks and containers that never became healthy", () => {
  const type = "docker:index/container:Container";
  const task = (urn: string, exitCode: number | null, initErrors?: string[]) => ({
    ...{ urn, type, inputs: { attach: true }, outputs: { exitCode } },
    ...(initErrors === undefined ? {} : { initErrors }),
  });
  const service = { type, inputs: {}, outputs: { exitCode: null } };
  const resources = [
    task("succeeded", 0),
    task("failed", 1),
    task("given-up", null, ["context deadline exceeded"]),
    task("given-up-and-refreshed", null),
    task("made-and-not-started", 0, ["could not select device driver"]),
    { ...service, urn: "healthy" },
    { ...service, urn: "unhealthy", initErrors: ["container failed to be in healthy state"] },
    { urn: "no-container", type: "docker:index/network:Network", initErrors: ["x"] },
    { urn: "stack", type: "pulumi:pulumi:Stack" },
  ];
  expect(unfinishedResources(resources)).toEqual([
    ...["failed", "given-up", "given-up-and-refreshed", "made-and-not-started", "unhealthy"],
  ]);
});

test("the next `up` replaces a machine's failed command, unless its successor exists", () => {
  const type = "aws:ssm/association:Association";
  const initErrors = ["unexpected state 'Failed', wanted target 'Success'"];
  const resources = [
    { urn: "setup", type, id: "1" },
    { urn: "build", type, id: "2", initErrors },
    { urn: "services", type, id: "3", initErrors, delete: true },
  ];
  expect(unfinishedResources(resources)).toEqual(["build"]);
});

test("the next `up` replaces node groups that EKS could not create, but not those whose update failed", () => {
  const type = "aws:eks/nodeGroup:NodeGroup";
  const initErrors = ["waiting for EKS Node Group: unexpected state"];
  const resources = [
    { urn: "cpu", type, id: "dev:cpu-1", outputs: { status: "ACTIVE" } },
    { urn: "gpu", type, id: "dev:gpu-1", outputs: {}, initErrors },
    { urn: "old", type, id: "dev:old-1", outputs: { status: "ACTIVE" }, initErrors },
    { urn: "refreshed", type, id: "dev:refreshed-1", outputs: { status: "CREATE_FAILED" } },
  ];
  expect(unfinishedResources(resources)).toEqual(["gpu", "refreshed"]);
});
