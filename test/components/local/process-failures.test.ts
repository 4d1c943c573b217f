import { existsSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InitializationError, UNKNOWN_VALUE } from "../../../components/local/provider/contract.ts";
import { processHandler } from "../../../components/local/provider/process.ts";
import { startFailure } from "../../../components/local/provider/readiness.ts";
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
  stackPids,
  writeProjectFile,
} from "./fixtures.ts";

let root: string;
beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
});
afterAll(() => removeProject(root));

async function failureOf(action: Promise<unknown>): Promise<Error> {
  const outcome = await action.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(outcome instanceof Error)) throw new Error("It succeeded.");
  return outcome;
}

describe("a process that does not come up", () => {
  it("tells of a crash loop with the end of the log, stops trying, and can be mended", async () => {
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

  it("names the program that does not exist", async () => {
    const failure = await failureOf(createProcess("s", "absent", { command: ["no-such-program"] }));
    expect(failure.message).toContain("no-such-program cannot be started: No such file or directory");
    await processHandler.delete(".stacks/s/absent", (failure as InitializationError).properties, context);
  });

  it("tells what the URL answered when the time is over, with the log's path", async () => {
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

  it("ends a wait when the run is cancelled", async () => {
    const cancelled = new AbortController();
    const inputs = await processInputs("s", "waiting", { command: ["sleep", "600"] });
    const creation = processHandler.create("waiting", inputs, { ...context, signal: cancelled.signal });
    setTimeout(() => cancelled.abort(new Error("stop")), 1500);
    const failure = await failureOf(creation);
    expect(stackPids("s", "waiting")).toEqual([]);
    await processHandler.delete(".stacks/s/waiting", (failure as InitializationError).properties, context);
  });

  it("says that the interpreter is missing", async () => {
    const failure = await failureOf(createProcess("nowhere", "orphan"));
    expect(failure.message).toContain(".stacks/nowhere/python/bin/python does not exist");
    expect(existsSync(projectFile(".stacks/nowhere"))).toBe(false);
  });
});

describe("a port that is taken", () => {
  it("is refused with the holder's name before anything is written", async () => {
    const server = await listenOn(0);
    const port = portOf(server);
    const failure = await failureOf(createProcess("s", "late", { requestedPorts: { http: port } }));
    expect(failure.message).toContain(`late: the http port ${port} is taken by `);
    expect(failure.message).toContain(`(pid ${process.pid})`);
    expect(failure).not.toBeInstanceOf(InitializationError);
    await new Promise((resolve) => server.close(resolve));
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  });

  it("leaves the running process alone in a refused update", async () => {
    const { id, outs } = await createProcess("s", "steady");
    const { pid } = await askProcess(outs.ports.http);
    const free = await listenOn(0);
    const port = portOf(free);
    await new Promise((resolve) => free.close(resolve));
    const news = await processInputs("s", "steady", { requestedPorts: { http: port } });
    // Somebody takes it between the check and the update.
    const server = await listenOn(port);
    await failureOf(processHandler.update(id, asState(outs), news, context));
    expect((await askProcess(outs.ports.http)).pid).toBe(pid);
    await new Promise((resolve) => server.close(resolve));
    await processHandler.delete(id, asState(outs), context);
  });

  it("is known before anything is touched, but a process's own port is its own", async () => {
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

  it("is refused when another process of the project has it", async () => {
    const owner = await createProcess("s", "owner");
    const requestedPorts = { http: owner.outs.ports.http };
    const failure = await failureOf(createProcess("s", "thief", { requestedPorts }));
    expect(failure.message).toMatch(/thief: the http port \d+ is taken by/);
    await processHandler.delete(owner.id, asState(owner.outs), context);
  });
});

describe("check", () => {
  it("reports all mistakes at once, each with its path", async () => {
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

  it("knows the ports that placeholders may name", async () => {
    const changes = { requestedPorts: { http: 8000, grpc: 8000 }, environment: { A: "{port.metrics}" } };
    const { failures } = await processHandler.check(askedProcess("s", "x", changes));
    expect(failures).toEqual([
      {
        property: "environment.A",
        reason: "{port.metrics} is no port of requestedPorts, which has http, grpc.",
      },
      { property: "requestedPorts.grpc", reason: "Port 8000 is also that of http." },
    ]);
  });

  it("lets values pass that a preview does not know, and still finds mistakes beside them", async () => {
    const changes = { environment: { URL: UNKNOWN_VALUE }, name: "X" };
    const { failures } = await processHandler.check(askedProcess("s", "x", changes));
    expect(failures.map(({ property }) => property)).toEqual(["name"]);
  });
});

describe("ports in a check", () => {
  it("are known before the process is made, and stay in an update whose values are not known yet", async () => {
    const { inputs } = await processHandler.check(askedProcess("s", "planned"));
    const { id, outs } = await createProcess("s", "planned");
    expect(outs.ports).toEqual(inputs.ports);
    const asked = askedProcess("s", "planned", { environment: { URL: UNKNOWN_VALUE } });
    expect((await processHandler.check(asked, asState(outs))).inputs.ports).toEqual(outs.ports);
    await processHandler.delete(id, asState(outs), context);
  });
});

describe("diff", () => {
  it("replaces for another place, updates for the rest, and sees what is not known yet", async () => {
    const olds = { ...(await processInputs("s", "x")), ports: { http: 1 } };
    const diff = async (changes: object) =>
      processHandler.diff("id", olds, { ...(await processInputs("s", "x")), ...changes });
    expect(await diff({})).toMatchObject({ changes: false, changedProperties: [], replaces: [] });
    expect(await diff({ triggers: ["1"], environment: { A: UNKNOWN_VALUE } })).toMatchObject({
      changes: true,
      changedProperties: ["environment", "triggers"],
      replaces: [],
    });
    expect(await diff({ name: "y" })).toMatchObject({ replaces: ["name"], deleteBeforeReplace: true });
  });
});

describe("startFailure", () => {
  it.each([
    ["STARTING", 1, undefined],
    ["STARTING", 3, undefined],
    ["STARTING", 4, "ended 3 times while it started"],
    ["BACKOFF", 2, undefined],
    ["BACKOFF", 3, "ended 3 times while it started"],
    ["FATAL", 1, "could not be started (why)"],
    ["STOPPED", 1, "was stopped while it started (STOPPED)"],
  ] as const)("%s after %i launches: %s", (statename, launches, expected) => {
    expect(startFailure({ statename, spawnerr: "why" }, launches)).toBe(expected);
  });
});
