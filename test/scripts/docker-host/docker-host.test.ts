import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { DockerStack } from "../../../infra/plan/docker/docker-stack.ts";
import { dockerLines, type HostContainer, removeLeftovers } from "../../../scripts/docker-host/containers.ts";
import { isServing, serviceStatuses } from "../../../scripts/docker-host/service-states.ts";
import type { HostProbe } from "../../../scripts/preflight/host-probe.ts";
import { dockerTarget } from "../../../scripts/program/targets.ts";
import { container, fakeEngine } from "./hosts.ts";

const known = (ids: readonly string[] = [], begunNames: readonly string[] = []) => ({
  ids: new Set(ids),
  begunNames: new Set(begunNames),
});

const names = (engine: ReturnType<typeof fakeEngine>) => engine.containers.map(({ Name }) => Name.slice(1));

test("leftover containers are removed when the state has their pending creation or when they do not run", async () => {
  const engine = fakeEngine([
    container("room-gateway"),
    container("room-llava-0123"),
    container("room-gpt2-4567", { Status: "exited", ExitCode: 1 }),
    container("room-encoders", { Status: "created" }),
  ]);
  const removed = await removeLeftovers(
    "room",
    known(["id-room-gateway"], ["room-llava-0123"]),
    engine.probe,
  );
  expect(removed).toEqual(["room-llava-0123", "room-gpt2-4567", "room-encoders"]);
  expect(names(engine)).toEqual(["room-gateway"]);
});

test("containers and networks that the state knows are kept", async () => {
  const engine = fakeEngine([container("room-a"), container("room-b", { Status: "exited" })], ["net"]);
  expect(await removeLeftovers("room", known(["id-room-a", "id-room-b", "net"]), engine.probe)).toEqual([]);
  expect(names(engine)).toEqual(["room-a", "room-b"]);
  expect(engine.networks).toEqual(["net"]);
});

test("a network that the state does not know is removed", async () => {
  const engine = fakeEngine([], ["net", "twin"]);
  await removeLeftovers("room", known(["net"]), engine.probe);
  expect(engine.networks).toEqual(["net"]);
});

test("a running container without a pending creation in the state is an error, and everything is kept", async () => {
  const engine = fakeEngine(
    [container("room-old", { Status: "exited" }), container("room-gateway")],
    ["net"],
  );
  await expect(removeLeftovers("room", known(), engine.probe)).rejects.toThrow(
    /1 running containers .* \(room-gateway\).*`docker --host unix:\/\/\/fake\.sock rm --force room-gateway`/,
  );
  expect(names(engine)).toEqual(["room-old", "room-gateway"]);
  expect(engine.networks).toEqual(["net"]);
});

test.each([
  ["no CLI", { exitCode: null, stderr: "spawn docker ENOENT" }, /no `docker` command/],
  [
    "no engine",
    { exitCode: 1, stderr: "Cannot connect to the Docker daemon at unix:///fake.sock." },
    /Start it/,
  ],
  [
    "no host",
    {
      exitCode: 1,
      stderr:
        'error during connect: Get "http://docker.example.com/v1.50/info": command [ssh -- gpu docker system dial-stdio] has exited with exit status 255, make sure the URL is valid: stderr=ssh: Could not resolve hostname gpu',
    },
    /^No Docker engine answers on the other side of ssh:\/\/me@gpu\. ssh: Could not resolve hostname gpu\nTry `ssh -o BatchMode=yes me@gpu docker info`/,
  ],
  [
    "no volume of that name",
    { exitCode: 1, stderr: "Error: no such volume: a" },
    /^`docker volume` failed at .*: a$/,
  ],
] as const)("an error of the Docker CLI with %s says what to do", async (_title, answer, sentence) => {
  const uri = _title === "no host" ? "ssh://me@gpu" : "unix:///fake.sock";
  const probe = { ...fakeEngine([]).probe, uri, docker: async () => ({ stdout: "", ...answer }) };
  await expect(dockerLines(probe, ["volume", "ls"])).rejects.toThrow(sentence);
});

test("a failed `docker ps` is an error with the engine's message", async () => {
  const { probe } = fakeEngine([]);
  await expect(removeLeftovers("other", known(), probe)).rejects.toThrow(
    "`docker ps` failed at unix:///fake.sock: nobody expects docker ps",
  );
});

test("a `docker inspect` without an answer is an error", async () => {
  const { probe } = fakeEngine([container("room-gateway")]);
  const slow: HostProbe = {
    ...probe,
    docker: async (args) =>
      args[0] === "inspect"
        ? { exitCode: null, stdout: "", stderr: "docker did not answer within 30 s" }
        : probe.docker(args),
  };
  await expect(removeLeftovers("room", known(), slow)).rejects.toThrow(
    "`docker inspect` failed at unix:///fake.sock: docker did not answer within 30 s",
  );
});

function stackOf(values: Readonly<Record<string, unknown>>): DockerStack {
  const { plan } = checkedPlan({ platform: "docker", ...values });
  if (plan.platform !== "docker") throw new Error("not a Docker stack");
  return dockerTarget(plan, "room").stack;
}

const gpu = stackOf({
  host: { instanceType: "g5.4xlarge", diskGiB: 250 },
  encoders: false,
  models: [{ name: "llava", model: "llava-1.5-7b" }],
});

const [build = ""] = gpu.containers
  .filter(({ container: { timeoutSeconds } }) => timeoutSeconds !== null)
  .map(({ args }) => args.name);

const NOW = Date.parse("2026-01-01T01:00:00Z");

const statuses = (...found: HostContainer[]) => serviceStatuses("room", gpu, found, NOW);

const states = (...found: HostContainer[]) => statuses(...found).map(({ name, state }) => `${name} ${state}`);

const ended = (ExitCode: number) => container(build, { Status: "exited", ExitCode });

test("services have the outputs' names, the host's ports and their uptime", () => {
  const all = statuses(ended(0), container("room-llava"), container("room-gateway"));
  expect(all.map(({ name, state }) => `${name} ${state}`)).toEqual([
    `${build.slice("room-".length)} DONE`,
    "llava RUNNING",
    "gateway RUNNING",
  ]);
  expect(all[1]).toEqual({
    name: "llava",
    container: "room-llava",
    state: "RUNNING",
    restarts: 0,
    uptimeSeconds: 3600,
    ports: { 8000: 8000, 8001: 8001, 8002: 8002 },
  });
  expect(isServing(all)).toBe(true);
});

test.each<[string, HostContainer["State"]["Status"], "starting" | "unhealthy" | "healthy" | undefined]>([
  ["RUNNING", "running", "healthy"],
  ["STARTING", "running", "starting"],
  ["UNHEALTHY", "running", "unhealthy"],
  ["PAUSED", "paused", undefined],
  ["RESTARTING", "restarting", undefined],
  ["STOPPED", "exited", "unhealthy"],
  ["STOPPED", "created", undefined],
])("a service is %s in the status %s with health %s", (expected, Status, health) => {
  const Health = health === undefined ? {} : { Health: { Status: health } };
  const all = statuses(ended(0), container("room-llava"), container("room-gateway", { Status, ...Health }));
  expect(all.at(-1)?.state).toBe(expected);
  expect(isServing(all)).toBe(expected === "RUNNING");
});

test("a stack with a failed build or missing services does not serve", () => {
  const all = statuses(ended(1));
  expect(all.map(({ state }) => state)).toEqual(["FAILED", "MISSING", "MISSING"]);
  expect(all[0]).toMatchObject({ exitCode: 1 });
  expect(isServing(all)).toBe(false);
  expect(states(container(build))[0]).toContain("RUNNING");
});

test("an unplanned container is shown and does not stop the stack from serving", () => {
  const all = statuses(ended(0), container("room-llava"), container("room-gateway"), container("room-old"));
  expect(all.at(-1)).toMatchObject({ name: "old", state: "UNPLANNED", ports: {} });
  expect(isServing(all)).toBe(true);
  expect(isServing([])).toBe(false);
});
