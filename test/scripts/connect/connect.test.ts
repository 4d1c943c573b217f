import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { tritonEndpoints } from "../../../infra/plan/endpoints.ts";
import { forwards, portClaims, remoteEndpoints, sshCommand } from "../../../scripts/connect/forwards.ts";
import { sshDestination } from "../../../scripts/preflight/host-probe.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { freePorts } from "../../harness/ports.ts";
import { needs } from "../../harness/requirements.ts";
import { missingSsh } from "../../harness/ssh.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { watch } from "../cluster/fake-kubectl.ts";

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

test("every address of the outputs is forwarded on its own port", async () => {
  const all = await forwards(remoteEndpoints(endpoints), async (wanted) => wanted);
  expect(all.map(({ name, localAddress, host, port }) => [name, localAddress, host, port])).toEqual([
    ["gateway", "http://127.0.0.1:8080", "10.0.0.5", 8080],
    ["llava", "http://127.0.0.1:8000", "127.0.0.1", 8000],
    ["llava gRPC", "127.0.0.1:8001", "127.0.0.1", 8001],
    ["llava metrics", "http://127.0.0.1:8002/metrics", "127.0.0.1", 8002],
    ["mongo", "mongodb://127.0.0.1:27017", "127.0.0.1", 27_017],
  ]);
});

test("an address without a port is forwarded from its scheme's port", async () => {
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

test("ssh forwards all ports on loopback, and ends if a port is in use", needs(missingSsh), async () => {
  const all = await forwards(remoteEndpoints(endpoints), async (wanted) => wanted + 10_000);
  const [ssh = "", ...words] = sshCommand(sshDestination("ssh://ubuntu@gpu.example.org:2222") ?? [], all);
  // -F: ignores this user's configuration.
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

  test("a port in use is replaced by another, and no port is given twice", async () => {
    const claim = portClaims();
    const other = await claim(taken);
    expect(other).not.toBe(taken);
    expect(await claim(other)).not.toBe(other);
  });

  test("a free port is used as requested", async () => {
    const free = await portClaims()(taken);
    expect(await portClaims()(free)).toBe(free);
  });
});

test("an ssh URI gives the arguments of ssh", () => {
  expect(sshDestination("unix:///var/run/docker.sock")).toBeUndefined();
  expect(sshDestination("ssh://root@10.0.0.5")).toEqual(["root@10.0.0.5"]);
  expect(sshDestination("ssh://me@[::1]:22022")).toEqual(["-p", "22022", "me@::1"]);
});

describe("`connect` through ssh", () => {
  /** Listens on the forwarded ports, like ssh after login. */
  const LOGGED_IN = `const { createServer } = require("node:net");
const args = process.argv.slice(2);
for (const [index, arg] of args.entries())
  if (arg === "-L") createServer((socket) => socket.destroy()).listen(Number(args[index + 1].split(":")[1]), "127.0.0.1");
`;

  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-ssh-"));
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  /** @param ssh - Stand-in for ssh; undefined for ssh itself. */
  function connect(host: string, ssh?: string) {
    const stackFile = writtenStackFile(folder, {
      platform: "docker",
      tier: "cpu",
      host: { uri: `ssh://ubuntu@${host}` },
      models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
    });
    if (ssh !== undefined)
      writeFileSync(join(folder, "ssh"), `#!${process.execPath}\n${ssh}`, { mode: 0o755 });
    return spawn(
      process.execPath,
      ["scripts/cli.mjs", "connect", "--stack", "ssh", "--config-file", stackFile],
      {
        cwd: projectRoot,
        env: { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}` },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
  }

  test("`connect` prints its table once ssh forwards the ports, and ends on Ctrl-C", async () => {
    const child = connect("gpu.example.org", LOGGED_IN);
    const output = watch(child);
    await output.saw(/gateway +http:\/\/127\.0\.0\.1:\d+ [\s\S]*Ctrl-C ends it\./);
    child.kill("SIGINT");
    expect(await output.code).toBe(0);
  });

  test("connect prints ssh's error and no table if the host refuses ssh", needs(missingSsh), async () => {
    const [port] = await freePorts(1);
    const output = watch(connect(`127.0.0.1:${port}`));
    expect(await output.code).toBe(1);
    expect(output.text().replaceAll("\r", "")).toBe(
      `ssh: connect to host 127.0.0.1 port ${port}: Connection refused\nssh ended with exit code 255; the lines above give the reason.\n`,
    );
  });
});
