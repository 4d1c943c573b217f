/** More connections than the gateway lets in. */
import { writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  logLines,
  type ServiceProcess,
  startService,
  temporaryFolder,
  until,
} from "../mock-mongo/service-process.ts";
import { urlIn } from "../mock-vector/support.ts";
import { configOf } from "./support.ts";

const MOST = 3;
/** What a client sees depends on how far its request has come. */
const CLOSED = /socket hang up|ECONNRESET|EPIPE/;

let folder: ReturnType<typeof temporaryFolder>;
let gateway: ServiceProcess;
let url: string;
let clients: Client[];

beforeEach(async () => {
  clients = [];
  folder = temporaryFolder("gateway-connections");
  const file = join(folder.path, "gateway.json");
  const config = configOf({ encoders: 1, model: 1 }, { limits: { connections: MOST }, log: {} });
  writeFileSync(file, JSON.stringify(config));
  gateway = startService("containers/services/gateway/src/main.ts", ["--config", file]);
  url = urlIn(await gateway.listening());
});
afterEach(async () => {
  for (const client of clients) client.leave();
  await gateway.kill("SIGKILL");
  folder.remove();
});

/** Somebody with one connection, which is kept. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  /** @returns The answer's text. @throws Error when the connection is closed before. */
  read(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      get(url + path, { agent: this.#agent }, async (response) => {
        let text = "";
        for await (const chunk of response.setEncoding("utf8")) text += chunk;
        resolve(text);
      }).once("error", reject);
    });
  }

  leave(): void {
    this.#agent.destroy();
  }
}

function arrive(): Client {
  const client = new Client();
  clients.push(client);
  return client;
}

test(`of ${MOST} and more connections ${MOST} are served, the others closed, counted and logged once, until one leaves`, async () => {
  const early = Array.from({ length: MOST }, arrive);
  for (const client of early) expect(await client.read("/healthz")).toContain("ok");
  const late = [arrive(), arrive()];
  for (const client of late) await expect(client.read("/healthz")).rejects.toThrow(CLOSED);
  for (const client of early) {
    expect(await client.read("/metrics")).toMatch(/^gateway_connections_refused_total 2$/m);
  }
  expect(logLines(gateway.output.stdout).filter(({ level }) => level === 40)).toMatchObject([
    {
      msg: "connections are refused: 3 are open, the most that limits.connections allows; raise it, or let clients share connections",
    },
  ]);
  early[0]?.leave();
  const [newcomer, other] = late;
  await until(() => newcomer?.read("/healthz").then(Boolean, () => false) ?? false);
  expect(await newcomer?.read("/healthz")).toContain("ok");
  await expect(other?.read("/healthz")).rejects.toThrow(CLOSED);
});
