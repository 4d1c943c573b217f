import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { UserError } from "../../../scripts/errors.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { findPulumi } from "../../../scripts/setup/pulumi-cli.ts";
import { openStack } from "../../../scripts/stack/backend.ts";
import { lockName, lockStack, StackLockedError } from "../../../scripts/stack/lock.ts";
import { PulumiCli } from "../../../scripts/stack/pulumi-cli.ts";
import { PulumiLockedError, saysLocked, takeOverLocks } from "../../../scripts/stack/pulumi-lock.ts";
import { isListed, sharedStateUrl } from "../../../scripts/stack/shared-state.ts";
import { stackPaths } from "../../../scripts/stack/stack-paths.ts";
import { suspectGroups, unfinishedResources } from "../../../scripts/stack/unfinished.ts";
import { type FakePulumi, useFakePulumi } from "./fake-pulumi.ts";

describe("calls of the Pulumi CLI", () => {
  const FAKE = `#!/usr/bin/env node
const [what] = process.argv.slice(2);
if (what === "arguments") console.log(JSON.stringify(process.argv.slice(2)));
if (what === "state") console.log(process.env.PULUMI_BACKEND_URL);
if (what === "letters") {
  const [first, ...rest] = Buffer.from("€");
  process.stdout.write(Buffer.from([first]));
  setTimeout(() => process.stdout.write(Buffer.from(rest)), 100);
}
if (what === "fail" || what === "locked") {
  console.log("half of it");
  console.error(what === "fail" ? "error: no such thing" : "error: the stack is currently locked by 1 lock(s)");
  process.exitCode = 3;
}
`;

  const folder = mkdtempSync(join(tmpdir(), "engine-room-cli-"));

  writeFileSync(join(folder, "pulumi"), FAKE, { mode: 0o755 });

  afterAll(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

  const cli = new PulumiCli(join(folder, "pulumi"), "dev", `file://${folder}`);

  const quiet = { output: undefined };

  test("the Pulumi CLI is called without questions and with the stack's name, unless a call selects none", async () => {
    const { stdout } = await cli.run(["arguments"], quiet);
    expect(JSON.parse(stdout)).toEqual(["arguments", "--non-interactive", "--stack", "dev"]);
    const { stdout: without } = await cli.run(["arguments"], { ...quiet, select: false });
    expect(JSON.parse(without)).toEqual(["arguments", "--non-interactive"]);
  });

  test("the Pulumi CLI is given the address of the stack's state", async () => {
    expect((await cli.run(["state"], quiet)).stdout).toBe(`file://${folder}\n`);
  });

  test("a character whose bytes arrive in two chunks is read whole", async () => {
    expect((await cli.run(["letters"], quiet)).stdout).toBe("€");
  });

  test("the error of a failed call has the output that was not shown yet", async () => {
    await expect(cli.run(["fail"], quiet)).rejects.toThrow(
      new UserError("`pulumi fail` ended with exit code 3.\nhalf of it\nerror: no such thing\n"),
    );
    const output = new PassThrough();
    await expect(cli.run(["fail"], { output })).rejects.toThrow(
      new UserError("`pulumi fail` ended with exit code 3."),
    );
    output.end();
    expect((await text(output)).split("\n").toSorted()).toEqual(["", "error: no such thing", "half of it"]);
    const allowed = await cli.run(["fail"], { ...quiet, allowFailure: true });
    expect(allowed).toEqual({ code: 3, stdout: "half of it\n", stderr: "error: no such thing\n" });
  });

  test("hidden lines of a call are not shown", async () => {
    const output = new PassThrough();
    await cli.run(["fail"], { output, allowFailure: true, hiding: "no such thing" });
    output.end();
    expect(await text(output)).toBe("half of it\n");
  });

  test("a locked stack is a PulumiLockedError", async () => {
    await expect(cli.run(["locked"], quiet)).rejects.toThrow(PulumiLockedError);
  });
});

describe("finding the Pulumi CLI", () => {
  let directory: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "engine-room-find-"));
  });

  afterEach(() => rmSync(directory, { recursive: true, maxRetries: 5 }));

  function place(path: string, mode = 0o755): string {
    const file = join(directory, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    chmodSync(file, mode);
    return file;
  }

  const find = (...folders: string[]) =>
    findPulumi({
      PATH: folders.map((folder) => join(directory, folder)).join(":"),
      PULUMI_HOME: join(directory, "home"),
    });

  test("no Pulumi CLI is found in empty folders", () => {
    expect(find("bin")).toBeUndefined();
    expect(findPulumi({ PULUMI_HOME: directory })).toBeUndefined();
  });

  test("the Pulumi CLI on PATH comes first", () => {
    place("home/versions/3.265.0/bin/pulumi");
    const onPath = place("bin/pulumi");
    expect(find("empty", "bin")).toBe(onPath);
  });

  test("the npm package's cache gives its newest Pulumi CLI", () => {
    place("home/versions/3.9.0/bin/pulumi");
    const newest = place("home/versions/3.265.0/bin/pulumi");
    expect(find("bin")).toBe(newest);
  });

  test("the npm package's downloader and files that can't be executed are not taken for the Pulumi CLI", () => {
    place("project/node_modules/.bin/pulumi");
    place("bin/pulumi", 0o644);
    expect(find("project/node_modules/.bin", "bin")).toBeUndefined();
  });
});

describe("locks of the Pulumi CLI", () => {
  let directory: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "engine-room-locks-"));
  });

  afterEach(() => rmSync(directory, { recursive: true, maxRetries: 5 }));

  function lock(pid: number, machine = hostname()): string {
    const file = join(directory, "0123.json");
    writeFileSync(file, JSON.stringify({ pid, username: "root", hostname: machine, timestamp: "" }));
    writeFileSync(`${file}.attrs`, "{}");
    return file;
  }

  /** Above the largest number that Linux gives a process. */
  const NOBODY = 2 ** 22 + 1;

  test("the lock of an ended process is deleted with its attributes", () => {
    lock(NOBODY);
    takeOverLocks("room", directory);
    expect(readdirSync(directory)).toEqual([]);
  });

  test("the lock of a process number that another program has now is deleted", () => {
    lock(process.pid);
    takeOverLocks("room", directory);
    expect(readdirSync(directory)).toEqual([]);
  });

  test("the lock of another machine stays and is reported", () => {
    const file = lock(NOBODY, "elsewhere");
    const taken = () => takeOverLocks("room", directory);
    expect(taken).toThrow(PulumiLockedError);
    expect(taken).toThrow(`The stack room is locked by the Pulumi CLI (process ${NOBODY} of elsewhere).`);
    expect(existsSync(file)).toBe(true);
  });

  test("a backend without locks is not locked", () => {
    takeOverLocks("room", join(directory, "absent"));
  });

  // As `checkForLock` of backend/diy/lock.go and `ConflictingUpdateError` of backend/backenderr write them.
  test.each([
    ["error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end", true],
    [
      "error: [409] Conflict: Another update is currently in progress.\nTo learn more about possible reasons and resolution, visit https://www.pulumi.com/docs/support/troubleshooting/common-issues/update-conflicts/",
      true,
    ],
    ["error: DependencyViolation: the vpc has dependencies and cannot be deleted", false],
  ])("the output %j means a locked stack: %s", (words, isLocked) => {
    expect(saysLocked(words)).toBe(isLocked);
  });
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
  expect(lockName("/a", "win32")).toMatch(/^\\\\\.\\pipe\\engine-room-[0-9a-f]{32}$/);
  expect(lockName("/a", "darwin")).toMatch(/^\/.*\/engine-room-[0-9a-f]{32}\.sock$/);
});

describe("shared state", () => {
  const URL_OF_STATE = "s3://room-state/pulumi";

  const NAME = "shared-state-test";

  let folder: string;

  let stack: ReturnType<typeof stackReference>;

  let pulumi: FakePulumi;

  const operations = () => pulumi.calls().map(({ args }) => args.slice(0, 2).join(" "));

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-shared-"));
    pulumi = useFakePulumi(folder);
    stack = { ...stackReference(NAME), configFile: join(projectRoot, "Pulumi.kind.yaml") };
    vi.stubEnv("ENGINE_ROOM_STATE_URL", URL_OF_STATE);
    vi.stubEnv("ENGINE_ROOM_RUNNER", "");
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, maxRetries: 5 });
    rmSync(stackPaths(NAME).directory, { recursive: true, force: true, maxRetries: 5 });
  });

  test("a stack is created once in the shared state, and a second machine finds it there", async () => {
    await (await openStack(stack)).up();
    expect(pulumi.stacks()).toEqual([NAME]);
    rmSync(stackPaths(NAME).directory, { recursive: true, maxRetries: 5 });
    await (await openStack(stack)).up();
    expect(operations().filter((operation) => operation === "stack init")).toHaveLength(1);
    expect(new Set(pulumi.calls().map(({ backend }) => backend))).toEqual(new Set([URL_OF_STATE]));
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

  test("outputs are read from the shared state, and are undefined for a stack that it lacks", async () => {
    const backend = await openStack(stack);
    expect(await backend.outputs()).toBeUndefined();
    pulumi.keep([NAME]);
    expect(await backend.outputs()).toEqual({ endpoints: { gateway: "http://gateway" } });
  });

  test("`down` removes the stack from the shared state and its folder from this machine", async () => {
    await (await openStack(stack)).up();
    await (await openStack(stack)).down();
    expect(pulumi.stacks()).toEqual([]);
    expect(operations().slice(-2)).toEqual(["stack ls", "stack rm"]);
    expect(pulumi.calls().at(-1)?.args).toContain("--preserve-config");
    expect(existsSync(stackPaths(NAME).directory)).toBe(false);
  });

  test("`down` deletes nothing of a stack with a protected resource", async () => {
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
      /^1 of the resources of the stack shared-state-test are protected \(files\), so nothing is deleted\. To end/,
    );
    expect(pulumi.stacks()).toEqual([NAME]);
    expect(operations()).not.toContain("destroy");
  });

  test("a preview leaves no new stack in the shared state, and keeps an existing stack", async () => {
    await (await openStack(stack)).preview();
    expect(pulumi.stacks()).toEqual([]);
    pulumi.keep([NAME]);
    await (await openStack(stack)).preview();
    expect(pulumi.stacks()).toEqual([NAME]);
  });

  test("a shared state is refused without the Pulumi CLI", async () => {
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    await expect(openStack(stack)).rejects.toThrow(
      "A shared state (ENGINE_ROOM_STATE_URL) takes the Pulumi CLI",
    );
  });

  test("ENGINE_ROOM_STATE_URL is read, and refused where it is not an address", () => {
    expect(sharedStateUrl({})).toBeUndefined();
    expect(sharedStateUrl({ ENGINE_ROOM_STATE_URL: "" })).toBeUndefined();
    expect(sharedStateUrl({ ENGINE_ROOM_STATE_URL: "file:///state" })).toBe("file:///state");
    expect(() => sharedStateUrl({ ENGINE_ROOM_STATE_URL: "bucket" })).toThrow(
      'is "bucket", which is no address',
    );
  });

  test("a stack is found in the list only by its whole name", () => {
    expect(isListed('[{"name":"a/b/room"}]', "room")).toBe(true);
    expect(isListed('[{"name":"bathroom"}]', "room")).toBe(false);
  });
});

const NONE: ReadonlySet<string> = new Set();

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
  expect(unfinishedResources(resources, NONE)).toEqual([
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
  expect(unfinishedResources(resources, NONE)).toEqual(["build"]);
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
  expect(suspectGroups(resources)).toEqual(["dev:gpu-1", "dev:old-1", "dev:refreshed-1"]);
  expect(unfinishedResources(resources, new Set(["dev:gpu-1", "dev:refreshed-1"]))).toEqual([
    "gpu",
    "refreshed",
  ]);
});
