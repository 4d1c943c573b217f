import { describe, expect, test } from "vitest";
import { dockerLines } from "../../../scripts/docker-host/containers.ts";
import { removeLeftovers } from "../../../scripts/docker-host/leftovers.ts";
import type { HostProbe } from "../../../scripts/preflight/host-probe.ts";
import { container, fakeEngine } from "./hosts.ts";

const known = (ids: readonly string[] = [], begunNames: readonly string[] = []) => ({
  ids: new Set(ids),
  begunNames: new Set(begunNames),
});
const names = (engine: ReturnType<typeof fakeEngine>) => engine.containers.map(({ Name }) => Name.slice(1));

describe("what a killed command has left", () => {
  test("goes where the state began it, or where it does not run", async () => {
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

  test("is told from what the state knows, whether that runs or not", async () => {
    const engine = fakeEngine([container("room-a"), container("room-b", { Status: "exited" })], ["net"]);
    expect(await removeLeftovers("room", known(["id-room-a", "id-room-b", "net"]), engine.probe)).toEqual([]);
    expect(names(engine)).toEqual(["room-a", "room-b"]);
    expect(engine.networks).toEqual(["net"]);
  });

  test("a network that no state knows goes, so that its name has one bearer", async () => {
    const engine = fakeEngine([], ["net", "twin"]);
    await removeLeftovers("room", known(["net"]), engine.probe);
    expect(engine.networks).toEqual(["net"]);
  });

  test("what runs and was not begun here may be somebody else's, and all stays", async () => {
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
] as const)("a command of Docker's CLI with %s says what to do", async (_title, answer, sentence) => {
  const uri = _title === "no host" ? "ssh://me@gpu" : "unix:///fake.sock";
  const probe = { ...fakeEngine([]).probe, uri, docker: async () => ({ stdout: "", ...answer }) };
  await expect(dockerLines(probe, ["volume", "ls"])).rejects.toThrow(sentence);
});

test("an engine that gives no answer is an error with its own words", async () => {
  const { probe } = fakeEngine([]);
  await expect(removeLeftovers("other", known(), probe)).rejects.toThrow(
    "`docker ps` failed at unix:///fake.sock: nobody expects docker ps",
  );
});

test("containers that can't be looked at in time are an error, too", async () => {
  const { probe } = fakeEngine([container("room-gateway")]);
  const slow: HostProbe = {
    ...probe,
    docker: async (args) =>
      args[0] === "inspect"
        ? { exitCode: null, stdout: "", stderr: "docker gave no answer within 30 s" }
        : probe.docker(args),
  };
  await expect(removeLeftovers("room", known(), slow)).rejects.toThrow(
    "`docker inspect` failed at unix:///fake.sock: docker gave no answer within 30 s",
  );
});
