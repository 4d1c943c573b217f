/** Processes from create to delete: what kills, taken ports and interruptions do to them. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { InitializationError, UNKNOWN_VALUE } from "../../../components/local/provider/contract.ts";
import { processHandler, startFailure } from "../../../components/local/provider/process.ts";
import { decodeStructs, stackStatus, sweepStack } from "../../../components/local/provider/supervisor.ts";
import { times } from "../../harness/thorough.ts";
import {
  askedProcess,
  askProcess,
  asState,
  context,
  createProcess,
  listenOn,
  makeEnvironment,
  makeProject,
  portOf,
  processInputs,
  projectFile,
  removeProject,
  reported,
  stackPids,
  until,
  writeProjectFile,
} from "./fixtures.ts";

let root: string;
beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
});
afterAll(() => removeProject(root));

test("a process runs with its given command and environment, and leaves nothing behind when it is deleted", async () => {
  const { id, outs } = await createProcess("s", "whole", {
    command: ["python", "serve.py", "{port.http}", "--root={root}", "{port.none", "{other}"],
    environment: { ADDRESS: "127.0.0.1:{port.http}", EMPTY: "" },
    files: { "config.json": '{"key": "välue"}', "b.txt": "" },
  });
  const answer = await askProcess(outs.ports.http);
  expect(id).toBe(".stacks/s/whole");
  expect(answer.argv).toEqual([
    "serve.py",
    String(outs.ports.http),
    `--root=${root}`,
    "{port.none",
    "{other}",
  ]);
  expect(answer.environment).toMatchObject({ ADDRESS: `127.0.0.1:${outs.ports.http}`, EMPTY: "" });
  expect(answer.environment.PATH?.split(":")[0]).toBe(projectFile(".stacks/s/python/bin"));
  expect(answer.cwd).toBe(root);
  const config = projectFile(".stacks/s/processes/whole/config.json");
  expect(readFileSync(config, "utf8")).toBe('{"key": "välue"}');
  expect(statSync(config).mode & 0o777).toBe(0o600);
  expect(statSync(projectFile(".stacks/s/supervisor")).mode & 0o777).toBe(0o700);
  expect(readFileSync(projectFile(".stacks/s/logs/whole.log"), "utf8")).toContain("serving");

  await processHandler.delete(id, asState(outs), context);
  await processHandler.delete(id, asState(outs), context);
  expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  expect(stackPids("s")).toEqual([]);
});

test("a process gets only the named variables of the calling shell", async () => {
  vi.stubEnv("ENGINE_ROOM_TEST_SECRET", "of the shell");
  const { id, outs } = await createProcess("s", "clean");
  const { environment } = await askProcess(outs.ports.http);
  vi.unstubAllEnvs();
  const kept = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
  // Python itself sets LC_CTYPE if no language is set.
  const allowed = [...kept, "ENGINE_ROOM_STACK", "ENGINE_ROOM_PROCESS", "LC_CTYPE"];
  expect(Object.keys(environment).filter((name) => !allowed.includes(name))).toEqual([]);
  await processHandler.delete(id, asState(outs), context);
});

test("an updated process keeps its port, and no other process restarts", async () => {
  const [one, two] = await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
  const before = await askProcess(one.outs.ports.http);
  const neighbour = await askProcess(two.outs.ports.http);
  const news = await processInputs("s", "one", {
    environment: { NEW: "1" },
    files: { a: "a" },
  });
  const { outs } = await processHandler.update(one.id, asState(one.outs), news, context);
  expect(outs.ports).toEqual(one.outs.ports);
  const after = await askProcess(one.outs.ports.http);
  expect(after.environment.NEW).toBe("1");
  expect(after.pid).not.toBe(before.pid);
  expect((await askProcess(two.outs.ports.http)).pid).toBe(neighbour.pid);

  const without = await processInputs("s", "one", { files: { b: "b" } });
  await processHandler.update(one.id, outs, without, context);
  expect(readdirSync(projectFile(".stacks/s/processes/one"))).toEqual(["b"]);
  await processHandler.delete(one.id, outs, context);
  expect((await askProcess(two.outs.ports.http)).pid).toBe(neighbour.pid);
  await processHandler.delete(two.id, asState(two.outs), context);
});

test("a process moves to another requested port", async () => {
  const { id, outs } = await createProcess("s", "mover");
  const server = await listenOn(0);
  const port = portOf(server);
  await new Promise((resolve) => server.close(resolve));
  const news = await processInputs("s", "mover", { requestedPorts: { http: port } });
  const updated = await processHandler.update(id, asState(outs), news, context);
  expect(updated.outs.ports).toEqual({ http: port });
  expect((await askProcess(port)).argv).toEqual(["serve.py", String(port)]);
  await processHandler.delete(id, updated.outs, context);
});

test("a process gets the same free port when it is created again", async () => {
  const first = await createProcess("s", "again");
  await processHandler.delete(first.id, asState(first.outs), context);
  const second = await createProcess("s", "again");
  expect(second.outs.ports).toEqual(first.outs.ports);
  await processHandler.delete(second.id, asState(second.outs), context);
});

test("many processes are created in parallel, each once, on ports of their own", async () => {
  const names = Array.from({ length: times(5, 20) }, (_, index) => `many-${index}`);
  const made = await Promise.all(names.map((name) => createProcess("s", name)));
  expect(new Set(made.map(({ outs }) => outs.ports.http)).size).toBe(names.length);
  expect(names.map((name) => stackPids("s", name).length)).toEqual(names.map(() => 1));
  expect(stackPids("s", "supervisord")).toHaveLength(1);
  const status = await stackStatus("s");
  expect(status.map(({ name, state }) => `${name} ${state}`)).toEqual(
    names.toSorted().map((name) => `${name} RUNNING`),
  );
  await Promise.all(made.map(({ id, outs }) => processHandler.delete(id, asState(outs), context)));
  expect(stackPids("s")).toEqual([]);
  expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
});

test("two stacks run side by side, and one ends without the other", async () => {
  await makeEnvironment("t");
  const [ours, theirs] = await Promise.all([createProcess("s", "same"), createProcess("t", "same")]);
  expect(ours.outs.ports.http).not.toBe(theirs.outs.ports.http);
  await processHandler.delete(ours.id, asState(ours.outs), context);
  expect((await askProcess(theirs.outs.ports.http)).pid).toBe(stackPids("t", "same")[0]);
  await processHandler.delete(theirs.id, asState(theirs.outs), context);
});

test("a process that ignores the request to end is killed after its time, with the processes that it has started", async () => {
  writeProjectFile(
    "stubborn.py",
    `import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
exec(open("serve.py").read())
`,
  );
  const changes = { command: ["python", "stubborn.py", "{port.http}"], stopTimeoutSeconds: 1 };
  const { id, outs } = await createProcess("s", "stubborn", changes);
  expect(stackPids("s", "stubborn")).toHaveLength(2);
  // The second finds it stopping, as after a run that was killed.
  await Promise.all([1, 2].map(() => processHandler.delete(id, asState(outs), context)));
  expect(stackPids("s", "stubborn")).toEqual([]);
});

test("a killed process restarts by itself", async () => {
  const { id, outs } = await createProcess("s", "phoenix");
  const { pid } = await askProcess(outs.ports.http);
  process.kill(pid, "SIGKILL");
  const next = await until(async () => {
    const answer = await askProcess(outs.ports.http).catch(() => undefined);
    return answer?.pid === pid ? undefined : answer;
  });
  expect(stackPids("s", "phoenix")).toEqual([next.pid]);
  const [status] = await stackStatus("s");
  expect(status).toMatchObject({ name: "phoenix", state: "RUNNING", restarts: 1, pid: next.pid });
  expect(await processHandler.read(id, asState(outs), context)).toEqual({
    id,
    inputs: await processInputs("s", "phoenix"),
    outs,
  });
  await processHandler.delete(id, asState(outs), context);
});

test("a process is reported missing when supervisord is killed, and starts again without running twice", async () => {
  const made = await Promise.all([createProcess("s", "a"), createProcess("s", "b")]);
  const orphan = await askProcess(made[0].outs.ports.http);
  for (const pid of stackPids("s", "supervisord")) process.kill(pid, "SIGKILL");
  await until(() => (stackPids("s", "supervisord").length === 0 ? true : undefined));
  for (const { id, outs } of made)
    expect(await processHandler.read(id, asState(outs), context)).toBeUndefined();
  expect((await stackStatus("s")).map(({ state }) => state)).toEqual(["UNSUPERVISED", "UNSUPERVISED"]);
  expect(stackPids("s", "a")).toEqual([orphan.pid]);

  const mended = await Promise.all([createProcess("s", "a"), createProcess("s", "b")]);
  expect(mended.map(({ outs }) => outs.ports)).toEqual(made.map(({ outs }) => outs.ports));
  for (const name of ["a", "b", "supervisord"]) expect(stackPids("s", name)).toHaveLength(1);
  expect(stackPids("s")).not.toContain(orphan.pid);
  for (const { id, outs } of mended) await processHandler.delete(id, asState(outs), context);
  expect(stackPids("s")).toEqual([]);
});

test("a process is deleted after supervisord was killed", async () => {
  const { id, outs } = await createProcess("s", "left");
  for (const pid of stackPids("s", "supervisord")) process.kill(pid, "SIGKILL");
  await processHandler.delete(id, asState(outs), context);
  expect(stackPids("s")).toEqual([]);
  expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
});

test("a process is deleted when the interpreter is gone and supervisord still runs", async () => {
  const { id, outs } = await createProcess("s", "homeless");
  rmSync(projectFile(".stacks/s/python"), { recursive: true });
  expect(await processHandler.read(id, asState(outs), context)).toBeUndefined();
  await processHandler.delete(id, asState(outs), context);
  expect(stackPids("s")).toEqual([]);
  expect(existsSync(projectFile(".stacks/s"))).toBe(false);
  await makeEnvironment("s");
});

test("a process starts again when supervisord runs but its folder was removed", async () => {
  const { id, outs } = await createProcess("s", "unreachable");
  rmSync(projectFile(".stacks/s/supervisor"), { recursive: true });
  expect(await processHandler.read(id, asState(outs), context)).toBeUndefined();
  const again = await createProcess("s", "unreachable");
  expect(stackPids("s", "unreachable")).toHaveLength(1);
  expect(stackPids("s", "supervisord")).toHaveLength(1);
  await processHandler.delete(id, asState(again.outs), context);
});

test("an interrupted create is adopted by the next create, wherever it ended", async () => {
  const first = await createProcess("s", "half");
  const { pid } = await askProcess(first.outs.ports.http);
  reported.length = 0;
  // The state has never heard of the first one; its inputs may have changed since.
  const second = await createProcess("s", "half", { environment: { SECOND: "1" } });
  expect(second.outs.ports).toEqual(first.outs.ports);
  const answer = await askProcess(second.outs.ports.http);
  expect(answer.environment.SECOND).toBe("1");
  expect(stackPids("s", "half")).toEqual([answer.pid]);
  expect(answer.pid).not.toBe(pid);
  await processHandler.delete(second.id, asState(second.outs), context);
});

test("an unrecorded process is swept away with its stack", async () => {
  await makeEnvironment("u");
  await createProcess("u", "forgotten");
  await sweepStack(".stacks/u", ["python"]);
  expect(stackPids("u")).toEqual([]);
  expect(readdirSync(projectFile(".stacks/u"))).toEqual(["python"]);
  await sweepStack("u", []);
  expect(existsSync(projectFile(".stacks/u"))).toBe(false);
});

test("a process that differs from its state is read as gone", async () => {
  const { id, outs } = await createProcess("s", "other");
  const state = { ...asState(outs), triggers: ["changed"] };
  expect(await processHandler.read(id, state, context)).toBeUndefined();
  await processHandler.delete(id, asState(outs), context);
});

describe("process failures", () => {
  async function failureOf(action: Promise<unknown>): Promise<Error> {
    const outcome = await action.then(
      () => undefined,
      (error: unknown) => error,
    );
    if (!(outcome instanceof Error)) throw new Error("It succeeded.");
    return outcome;
  }

  test("a crash loop is reported with the end of the log, stops, and can be fixed by an update", async () => {
    writeProjectFile("crash.py", 'print("first line"); raise SystemExit("the model file is broken")');
    const failure = await failureOf(createProcess("s", "crash", { command: ["python", "crash.py"] }));
    expect(failure).toBeInstanceOf(InitializationError);
    expect(failure.message).toMatch(
      /^crash ended 3 times while it started; its log \.stacks\/s\/logs\/crash\.log says:/,
    );
    expect(failure.message).toContain("the model file is broken");
    expect(stackPids("s", "crash")).toEqual([]);

    const { id, properties } = failure as InitializationError;
    expect(await processHandler.read(id, properties, context)).toBeUndefined();
    const { outs } = await processHandler.update(id, properties, await processInputs("s", "crash"), context);
    expect(outs.ports).toEqual(properties.ports);
    await processHandler.delete(id, outs, context);
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  });

  test("a missing program is named", async () => {
    const failure = await failureOf(createProcess("s", "absent", { command: ["no-such-program"] }));
    expect(failure.message).toContain("no-such-program cannot be started: No such file or directory");
    await processHandler.delete(".stacks/s/absent", (failure as InitializationError).properties, context);
  });

  test("a process that is not ready in time is reported with the URL's answer and the log's path", async () => {
    const ready = { url: "http://127.0.0.1:{port.http}/", timeoutSeconds: 1 };
    writeProjectFile("deaf.py", 'import time; print("loading", flush=True); time.sleep(600)');
    const failure = await failureOf(createProcess("s", "deaf", { command: ["python", "deaf.py"], ready }));
    expect(failure.message).toMatch(
      /^deaf was not ready within 1 s: http:\/\/127\.0\.0\.1:\d+\/ did not answer; its log .*deaf\.log says:\nloading$/,
    );
    expect(stackPids("s", "deaf")).toEqual([]);
    await processHandler.delete(".stacks/s/deaf", (failure as InitializationError).properties, context);

    writeProjectFile(
      "busy.py",
      `import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_error(503)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()`,
    );
    const command = ["python", "busy.py", "{port.http}"];
    const busy = await failureOf(createProcess("s", "busy", { command, ready }));
    expect(busy.message).toContain("/ answered 503");
    await processHandler.delete(".stacks/s/busy", (busy as InitializationError).properties, context);
  });

  test("a cancelled run ends the wait for a process", async () => {
    const cancelled = new AbortController();
    const inputs = await processInputs("s", "waiting", { command: ["sleep", "600"] });
    const creation = processHandler.create("waiting", inputs, { ...context, signal: cancelled.signal });
    setTimeout(() => cancelled.abort(new Error("stop")), 1500);
    const failure = await failureOf(creation);
    expect(stackPids("s", "waiting")).toEqual([]);
    await processHandler.delete(".stacks/s/waiting", (failure as InitializationError).properties, context);
  });

  test("a missing interpreter is reported", async () => {
    const failure = await failureOf(createProcess("nowhere", "orphan"));
    expect(failure.message).toContain(".stacks/nowhere/python/bin/python does not exist");
    expect(existsSync(projectFile(".stacks/nowhere"))).toBe(false);
  });

  test("a taken port is refused with its holder's name before anything is written", async () => {
    const server = await listenOn(0);
    const port = portOf(server);
    const failure = await failureOf(createProcess("s", "late", { requestedPorts: { http: port } }));
    expect(failure.message).toContain(`late: the http port ${port} is taken by `);
    expect(failure.message).toContain(`(pid ${process.pid})`);
    expect(failure).not.toBeInstanceOf(InitializationError);
    await new Promise((resolve) => server.close(resolve));
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  });

  test("an update to a taken port does not change the running process", async () => {
    const { id, outs } = await createProcess("s", "steady");
    const { pid } = await askProcess(outs.ports.http);
    const free = await listenOn(0);
    const port = portOf(free);
    await new Promise((resolve) => free.close(resolve));
    const news = await processInputs("s", "steady", { requestedPorts: { http: port } });
    // Another process takes it between the check and the update.
    const server = await listenOn(port);
    await failureOf(processHandler.update(id, asState(outs), news, context));
    expect((await askProcess(outs.ports.http)).pid).toBe(pid);
    await new Promise((resolve) => server.close(resolve));
    await processHandler.delete(id, asState(outs), context);
  });

  test("a check reports a taken port, except a process's own", async () => {
    const server = await listenOn(0);
    const requestedPorts = { http: portOf(server) };
    const { failures } = await processHandler.check(askedProcess("s", "early", { requestedPorts }));
    expect(failures).toEqual([
      {
        property: "requestedPorts.http",
        reason: expect.stringContaining(`port ${portOf(server)} is taken by`),
      },
    ]);
    await new Promise((resolve) => server.close(resolve));
    const { id, outs } = await createProcess("s", "early", { requestedPorts });
    expect((await processHandler.check(askedProcess("s", "early", { requestedPorts }))).failures).toEqual([]);
    await processHandler.delete(id, asState(outs), context);
  });

  test("a port of another process of the project is refused", async () => {
    const owner = await createProcess("s", "owner");
    const requestedPorts = { http: owner.outs.ports.http };
    const failure = await failureOf(createProcess("s", "thief", { requestedPorts }));
    expect(failure.message).toMatch(/thief: the http port \d+ is taken by/);
    await processHandler.delete(owner.id, asState(owner.outs), context);
  });

  test("a check reports all mistakes at once, each with its path", async () => {
    const { failures } = await processHandler.check({
      stackDirectory: ".stacks/../..",
      name: "No Name",
      python: "/usr/bin/python3",
      command: [],
      environment: { "A-B": "x", ZERO: "a\0b" },
      requestedPorts: { http: 70_000 },
      files: { "../escape": "x" },
      ready: { url: "http://example.com/", timeoutSeconds: 0 },
      stopTimeoutSeconds: 0,
      surprise: true,
    });
    expect(failures.map(({ property }) => property).toSorted()).toEqual([
      "command",
      "environment.ZERO",
      'environment["A-B"]',
      'files["../escape"]',
      "name",
      "python",
      "ready.timeoutSeconds",
      "ready.url",
      "requestedPorts.http",
      "stackDirectory",
      "stopTimeoutSeconds",
      "surprise",
    ]);
    expect(failures.find(({ property }) => property.startsWith("files"))?.reason).toBe(
      "must be a plain file name.",
    );
  });

  test("a check refuses one port for two names", async () => {
    const server = await listenOn(0);
    const port = portOf(server);
    await new Promise((resolve) => server.close(resolve));
    const changes = { requestedPorts: { http: port, grpc: port } };
    const { failures } = await processHandler.check(askedProcess("s", "x", changes));
    expect(failures).toEqual([
      {
        property: "requestedPorts.grpc",
        reason: `x: the grpc port ${port} is taken by x, as http; stop it or choose another port (0 chooses a free port).`,
      },
    ]);
  });

  test("a check accepts values that a preview does not know, and still finds mistakes beside them", async () => {
    const changes = { environment: { URL: UNKNOWN_VALUE }, name: "X" };
    const { failures } = await processHandler.check(askedProcess("s", "x", changes));
    expect(failures.map(({ property }) => property)).toEqual(["name"]);
  });

  test("ports are known before the process is created, and stay in an update with unknown values", async () => {
    const { inputs } = await processHandler.check(askedProcess("s", "planned"));
    const { id, outs } = await createProcess("s", "planned");
    expect(outs.ports).toEqual(inputs.ports);
    const asked = askedProcess("s", "planned", { environment: { URL: UNKNOWN_VALUE } });
    expect((await processHandler.check(asked, asState(outs))).inputs.ports).toEqual(outs.ports);
    await processHandler.delete(id, asState(outs), context);
  });

  test("diff replaces for another place, updates for the rest, and treats unknown values as changes", async () => {
    const olds = { ...(await processInputs("s", "x")), ports: { http: 1 } };
    const diff = async (changes: object) =>
      processHandler.diff("id", olds, { ...(await processInputs("s", "x")), ...changes });
    expect(await diff({})).toMatchObject({ changes: false, changedProperties: [], replaces: [] });
    expect(await diff({ triggers: ["1"], environment: { A: UNKNOWN_VALUE } })).toMatchObject({
      changes: true,
      changedProperties: ["environment", "triggers"],
      replaces: [],
    });
    expect(await diff({ name: "y" })).toMatchObject({ replaces: ["name"] });
  });

  test.each([
    ["STARTING", 1, undefined],
    ["STARTING", 3, undefined],
    ["STARTING", 4, "ended 3 times while it started"],
    ["BACKOFF", 2, undefined],
    ["BACKOFF", 3, "ended 3 times while it started"],
    ["FATAL", 1, "could not be started (why)"],
    ["STOPPED", 1, "was stopped while it started (STOPPED)"],
  ] as const)(
    "a start in state %s after %i launches has the failure: %s",
    (statename, launches, expected) => {
      expect(startFailure({ statename, spawnerr: "why" }, launches)).toBe(expected);
    },
  );
});

describe("interruptions", () => {
  const CREATE = `
import { createProcess } from ${JSON.stringify(join(import.meta.dirname, "fixtures.ts"))};
console.log("begin");
await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
console.log("end");
`;

  /** Creates two processes in a program of its own, which is killed some time after its begin. */
  async function createAndKill(afterMilliseconds: number): Promise<void> {
    const argv = ["--import", "tsx", "--input-type=module", "--eval", CREATE];
    const child = spawn(process.execPath, argv, {
      cwd: join(import.meta.dirname, "../../.."),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    await new Promise((resolve) => child.stdout.once("data", resolve));
    setTimeout(() => child.kill("SIGKILL"), afterMilliseconds);
    // Killed, or done before: a create that failed by itself would prove nothing.
    expect([null, 0]).toContain(await ended);
  }

  // From before the first step until after the last.
  const moments = [120, 280, 0, 450, 50, 200, 360, 600];

  test.each(moments.slice(0, times(2, 8)))(
    "a create that is killed after %i ms can be repeated and ends right",
    async (milliseconds) => {
      await createAndKill(milliseconds);
      const made = await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
      for (const { id, outs } of made) {
        expect(stackPids("s", outs.name)).toEqual([(await askProcess(outs.ports.http)).pid]);
        expect(await processHandler.read(id, asState(outs), context)).toBeDefined();
      }
      expect(stackPids("s", "supervisord")).toHaveLength(1);
      for (const { id, outs } of made) await processHandler.delete(id, asState(outs), context);
      expect(stackPids("s")).toEqual([]);
      expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
    },
  );
});

test("the structs of XML-RPC are decoded as Python encodes them", async () => {
  const structs = [
    { text: 'a <b> & "c" &lt; \\ \n \t %s', markup: "</value> <value>", empty: "", pid: 0 },
    { start: 1_795_456_201, exit: -7, name: "<struct>" },
  ];
  const code =
    "import json, sys, xmlrpc.client as x; print(x.dumps((json.loads(sys.argv[1]),), methodresponse=True))";
  const python = projectFile(".stacks/s/python/bin/python");
  const xml = execFileSync(python, ["-c", code, JSON.stringify(structs)], { encoding: "utf8" });
  expect(decodeStructs(xml)).toEqual(structs);
});

describe("hostile strings", () => {
  /** Any text of Unicode that the kernel can pass, with a leaning to what configuration formats trip over. */
  const text = fc
    .array(
      fc.oneof(
        fc.constantFrom(
          "%",
          "%(here)s",
          "%(ENV_HOME)s",
          "%%",
          " ;",
          " #",
          "\n",
          "\n[program:x]\n",
          "\r",
          "\t",
          '"',
          "'",
        ),
        fc.constantFrom("\\", ",", "=", "$HOME", "`id`", "{", "}", "{port.", "\u2028", "\u0085", "\ufeff"),
        fc.string({ unit: "binary", maxLength: 5 }),
      ),
      { maxLength: 8 },
    )
    .map((parts) => parts.join("").replaceAll("\0", ""))
    .filter((value) => !/\{(port\.[A-Za-z0-9_-]+|root)\}/.test(value));

  const variable = fc.stringMatching(/^[A-Z_][A-Za-z0-9_]{0,12}$/).map((name) => `X_${name}`);

  test("a process sees its arguments, variables and files exactly, whatever they contain", async () => {
    const first = await createProcess("s", "strings");
    let state = asState(first.outs);
    await fc.assert(
      fc.asyncProperty(
        fc.array(text, { maxLength: 4 }),
        fc.dictionary(variable, text, { maxKeys: 4 }),
        text,
        async (args, environment, content) => {
          const news = await processInputs("s", "strings", {
            command: ["python", "serve.py", "{port.http}", ...args],
            environment,
            files: { content },
          });
          state = (await processHandler.update(first.id, state, news, context)).outs;
          const answer = await askProcess(first.outs.ports.http);
          expect(answer.argv.slice(2)).toEqual(args);
          expect(answer.environment).toMatchObject(environment);
        },
      ),
      { numRuns: times(4, 100) },
    );
    await processHandler.delete(first.id, state, context);
  });
});
