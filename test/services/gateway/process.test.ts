/** The gateway as a process: arguments, exit codes, signals, and what its log holds. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHAT, closedPort, configOf, listenTcp, sha256, silentPeer, until } from "./support.ts";

const MAIN = fileURLToPath(new URL("../../../containers/services/gateway/src/main.ts", import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gateway-test-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface GatewayProcess {
  readonly output: { stdout: string; stderr: string };
  readonly exit: Promise<number | null>;
  kill(signal: NodeJS.Signals): void;
  /** The address in the line that says that it listens. */
  url(): Promise<string>;
}

function run(config: unknown, ...args: string[]): GatewayProcess {
  const file = join(folder, `${Math.random().toString(36).slice(2)}.json`);
  writeFileSync(file, typeof config === "string" ? config : JSON.stringify(config));
  const child = spawn(process.execPath, ["--import", "tsx", MAIN, "--config", file, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    output,
    exit,
    kill: (signal) => child.kill(signal),
    url: async () => {
      await until(() => output.stdout.includes("gateway listens on") || child.exitCode !== null);
      const address = /gateway listens on (http:\/\/[\d.:]+)/.exec(output.stdout)?.[1];
      if (address === undefined) throw new Error(`the gateway did not start: ${output.stderr}`);
      return address;
    },
  };
}

const lines = (text: string) => text.trimEnd().split("\n");

describe("start", () => {
  it("says in one JSON line where it listens, and nothing else", async () => {
    const port = await closedPort();
    const gateway = run(configOf({ encoders: port, model: port }, { log: {} }));
    const url = await gateway.url();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(JSON.parse(lines(gateway.output.stdout)[0] ?? "")).toMatchObject({
      service: "gateway",
      msg: `gateway listens on ${url}`,
    });
    expect(gateway.output.stderr).toBe("");
    gateway.kill("SIGTERM");
    expect(await gateway.exit).toBe(0);
  });

  it("ends with 1 and one sentence when the port is taken", async () => {
    const { server, port } = await listenTcp((socket) => socket.destroy());
    const gateway = run(configOf({ encoders: 1, model: 1 }), "--port", String(port));
    expect(await gateway.exit).toBe(1);
    expect(lines(gateway.output.stderr)).toEqual([
      `Port ${port} of 127.0.0.1 is taken by another process; choose another one with --port.`,
    ]);
    server.close();
  });

  it("ends with 1 and every problem of its configuration", async () => {
    const gateway = run({ port: -1, models: [{ name: "m" }], colour: "red" });
    expect(await gateway.exit).toBe(1);
    expect(lines(gateway.output.stderr)[0]).toMatch(/: 3 problems$/);
    expect(lines(gateway.output.stderr)).toHaveLength(4);
  });

  it.each([
    ["no JSON", "{", [], "is not JSON"],
    ["an unknown argument", "{}", ["--prot", "1"], "--prot"],
    ["a wrong port", "{}", ["--port", "80a"], "--port is 80a"],
  ])("ends with 1 and one sentence about %s", async (_what, config, args, message) => {
    const values = config === "{}" ? configOf({ encoders: 1, model: 1 }) : config;
    const gateway = run(values, ...args);
    expect(await gateway.exit).toBe(1);
    expect(lines(gateway.output.stderr)).toHaveLength(1);
    expect(gateway.output.stderr).toContain(message);
  });
});

describe("SIGTERM", () => {
  it("lets the running request finish and ends with 0", async () => {
    const peer = await silentPeer();
    const gateway = run(
      configOf({ encoders: peer.port, model: peer.port }, { log: {}, limits: { requestSeconds: 2 } }),
    );
    const url = await gateway.url();
    const running = fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(CHAT),
    });
    await until(() => peer.seen.opened === 1);
    gateway.kill("SIGTERM");
    await until(() => gateway.output.stdout.includes("stopping"));
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    expect((await running).status).toBe(504);
    expect(await gateway.exit).toBe(0);
    await peer.close();
  });
});

describe("the log", () => {
  it("has one line a request with its id, and neither texts nor keys", async () => {
    const port = await closedPort();
    const gateway = run(
      configOf(
        { encoders: port, model: port },
        { log: { level: "trace" }, apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }] },
      ),
    );
    const url = await gateway.url();
    const messages = [{ role: "user", content: "the launch code is 0000" }];
    for (const key of ["sk-alice", "sk-mallory"]) {
      await fetch(`${url}/v1/chat/completions?token=sk-query`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${key}`,
          "x-request-id": `id-${key.slice(3)}`,
        },
        body: JSON.stringify({ ...CHAT, messages }),
      });
    }
    gateway.kill("SIGTERM");
    expect(await gateway.exit).toBe(0);
    const requests = lines(gateway.output.stdout)
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === "request")
      // A line is written when the answer's last byte has gone out, which may be after the next request has come.
      .sort((one, other) => (one.requestId < other.requestId ? -1 : 1));
    expect(requests).toMatchObject([
      {
        requestId: "id-alice",
        method: "POST",
        route: "/v1/chat/completions",
        status: 503,
        model: "smollm2",
        key: "alice",
      },
      { requestId: "id-mallory", status: 401, key: "" },
    ]);
    expect(gateway.output.stdout).not.toMatch(/launch code|sk-|Bearer/);
  });
});
