import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processHandler } from "../../../components/local/provider/process.ts";
import { stackStatus, sweepStack } from "../../../components/local/provider/status.ts";
import {
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
} from "./fixtures.ts";

let root: string;
beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
});
afterAll(() => removeProject(root));

describe("a process from create to delete", () => {
  it("runs with what it was given, and leaves nothing behind", async () => {
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

  it("passes no variable of the calling shell but the few that are named", async () => {
    process.env.ENGINE_ROOM_TEST_SECRET = "of the shell";
    const { id, outs } = await createProcess("s", "clean");
    const { environment } = await askProcess(outs.ports.http);
    delete process.env.ENGINE_ROOM_TEST_SECRET;
    const kept = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
    // Python itself sets LC_CTYPE where no language is set.
    const allowed = [...kept, "ENGINE_ROOM_STACK", "ENGINE_ROOM_PROCESS", "LC_CTYPE"];
    expect(Object.keys(environment).filter((name) => !allowed.includes(name))).toEqual([]);
    await processHandler.delete(id, asState(outs), context);
  });

  it("keeps its port and restarts alone in an update", async () => {
    const [one, two] = await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
    const before = await askProcess(one.outs.ports.http);
    const neighbour = await askProcess(two.outs.ports.http);
    const news = await processInputs("s", "one", {
      environment: { NEW: "1" },
      maxLogMiB: 3,
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

  it("moves to another port when that is asked for", async () => {
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

  it("gets the same free port when it is made anew", async () => {
    const first = await createProcess("s", "again");
    await processHandler.delete(first.id, asState(first.outs), context);
    const second = await createProcess("s", "again");
    expect(second.outs.ports).toEqual(first.outs.ports);
    await processHandler.delete(second.id, asState(second.outs), context);
  });
});

describe("many at once", () => {
  it("creates 20 in parallel, each once, on ports of their own", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `many-${index}`);
    const made = await Promise.all(names.map((name) => createProcess("s", name)));
    expect(new Set(made.map(({ outs }) => outs.ports.http)).size).toBe(20);
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

  it("runs two stacks side by side, and ends one without the other", async () => {
    await makeEnvironment("t");
    const [ours, theirs] = await Promise.all([createProcess("s", "same"), createProcess("t", "same")]);
    expect(ours.outs.ports.http).not.toBe(theirs.outs.ports.http);
    await processHandler.delete(ours.id, asState(ours.outs), context);
    expect((await askProcess(theirs.outs.ports.http)).pid).toBe(stackPids("t", "same")[0]);
    await processHandler.delete(theirs.id, asState(theirs.outs), context);
  });
});

describe("what is killed", () => {
  it("comes back by itself when the process is killed", async () => {
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

  it("is found gone when supervisord is killed, and mended without anything running twice", async () => {
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

  it("is deleted after supervisord was killed", async () => {
    const { id, outs } = await createProcess("s", "left");
    for (const pid of stackPids("s", "supervisord")) process.kill(pid, "SIGKILL");
    await processHandler.delete(id, asState(outs), context);
    expect(stackPids("s")).toEqual([]);
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  });

  it("is deleted when the interpreter is gone and supervisord still runs", async () => {
    const { id, outs } = await createProcess("s", "homeless");
    rmSync(projectFile(".stacks/s/python"), { recursive: true });
    expect(await processHandler.read(id, asState(outs), context)).toBeUndefined();
    await processHandler.delete(id, asState(outs), context);
    expect(stackPids("s")).toEqual([]);
    expect(existsSync(projectFile(".stacks/s"))).toBe(false);
    await makeEnvironment("s");
  });

  it("starts again when supervisord runs but its folder was removed", async () => {
    const { id, outs } = await createProcess("s", "unreachable");
    rmSync(projectFile(".stacks/s/supervisor"), { recursive: true });
    expect(await processHandler.read(id, asState(outs), context)).toBeUndefined();
    const again = await createProcess("s", "unreachable");
    expect(stackPids("s", "unreachable")).toHaveLength(1);
    expect(stackPids("s", "supervisord")).toHaveLength(1);
    await processHandler.delete(id, asState(again.outs), context);
  });
});

describe("an interrupted create", () => {
  it("is adopted by the next one, wherever it ended", async () => {
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

  it("is swept away when nothing was recorded at all", async () => {
    await makeEnvironment("u");
    await createProcess("u", "forgotten");
    await sweepStack(".stacks/u", ["python"]);
    expect(stackPids("u")).toEqual([]);
    expect(readdirSync(projectFile(".stacks/u"))).toEqual(["python"]);
    await sweepStack("u", []);
    expect(existsSync(projectFile(".stacks/u"))).toBe(false);
  });

  it("is seen as gone when what runs is not what the state says", async () => {
    const { id, outs } = await createProcess("s", "other");
    const state = { ...asState(outs), triggers: ["changed"] };
    expect(await processHandler.read(id, state, context)).toBeUndefined();
    await processHandler.delete(id, asState(outs), context);
  });
});
