import { spawnSync } from "node:child_process";
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tritonEndpoints } from "../../../infra/plan/endpoints.ts";
import { forwards, portClaims, remoteEndpoints, sshCommand } from "../../../scripts/connect/forwards.ts";
import { sshDestination } from "../../../scripts/preflight/host-probe.ts";
import { missingSsh } from "../../harness/ssh.ts";

const triton = (http: number) => tritonEndpoints("127.0.0.1", { http, grpc: http + 1, metrics: http + 2 });
const endpoints = {
  gateway: "http://10.0.0.5:8080",
  mongo: "mongodb://127.0.0.1:27017",
  vector: null,
  encoders: null,
  models: { llava: { ...triton(8000), generate: "http://127.0.0.1:8000/v2/models/llava-1.5/generate" } },
  gatewayReach: "host",
  gatewayDnsName: null,
  reach: "host",
} as const;

describe("forwards", () => {
  test("every address of the outputs, on the port that it has on the host", async () => {
    const all = await forwards(remoteEndpoints(endpoints), async (wanted) => wanted);
    expect(all.map(({ name, localAddress, host, port }) => [name, localAddress, host, port])).toEqual([
      ["gateway", "http://127.0.0.1:8080", "10.0.0.5", 8080],
      ["llava", "http://127.0.0.1:8000", "127.0.0.1", 8000],
      ["llava gRPC", "127.0.0.1:8001", "127.0.0.1", 8001],
      ["llava metrics", "http://127.0.0.1:8002/metrics", "127.0.0.1", 8002],
      ["mongo", "mongodb://127.0.0.1:27017", "127.0.0.1", 27_017],
    ]);
  });

  test("an address without port has its scheme's", async () => {
    const all = await forwards(
      [
        { name: "a", address: "https://vectors.example.org/base" },
        { name: "b", address: "http://vectors.example.org" },
      ],
      async () => 5000,
    );
    expect(all.map(({ port, localAddress }) => [port, localAddress])).toEqual([
      [443, "https://127.0.0.1:5000/base"],
      [80, "http://127.0.0.1:5000"],
    ]);
  });

  test.skipIf(missingSsh !== undefined)(
    `one ssh, as ssh itself reads it, binds to loopback only and ends where a port can't be had${missingSsh ?? ""}`,
    async () => {
      const all = await forwards(remoteEndpoints(endpoints), async (wanted) => wanted + 10_000);
      const [ssh = "", ...words] = sshCommand(sshDestination("ssh://ubuntu@gpu.example.org:2222") ?? [], all);
      // -F: nothing of this user's own.
      const { stdout } = spawnSync(ssh, ["-F", "none", "-G", ...words], { encoding: "utf8" });
      const read = stdout.split("\n");
      expect(read).toEqual(
        expect.arrayContaining([
          "user ubuntu",
          "hostname gpu.example.org",
          "port 2222",
          "sessiontype none",
          "requesttty false",
          "exitonforwardfailure yes",
          "serveraliveinterval 15",
          "serveralivecountmax 4",
        ]),
      );
      expect(read.filter((line) => line.startsWith("localforward"))).toEqual([
        "localforward [127.0.0.1]:18080 [10.0.0.5]:8080",
        "localforward [127.0.0.1]:18000 [127.0.0.1]:8000",
        "localforward [127.0.0.1]:18001 [127.0.0.1]:8001",
        "localforward [127.0.0.1]:18002 [127.0.0.1]:8002",
        "localforward [127.0.0.1]:37017 [127.0.0.1]:27017",
      ]);
    },
  );
});

describe("portClaims", () => {
  let server: Server;
  let taken: number;
  beforeAll(async () => {
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    taken = (server.address() as { port: number }).port;
  });
  afterAll(() => void server.close());

  test("another port where somebody listens, and none twice", async () => {
    const claim = portClaims();
    const other = await claim(taken);
    expect(other).not.toBe(taken);
    expect(await claim(other)).not.toBe(other);
  });

  test("the wanted one where nobody does", async () => {
    const free = await portClaims()(taken);
    expect(await portClaims()(free)).toBe(free);
  });
});

test("a URI of ssh as words of ssh", () => {
  expect(sshDestination("unix:///var/run/docker.sock")).toBeUndefined();
  expect(sshDestination("ssh://root@10.0.0.5")).toEqual(["root@10.0.0.5"]);
  expect(sshDestination("ssh://me@[::1]:22022")).toEqual(["-p", "22022", "me@::1"]);
});
