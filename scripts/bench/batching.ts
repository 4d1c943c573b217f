/** Dynamic batching on against off: two Tritons that differ in nothing else, measured by turns. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, cpSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { measure, median, type Send, textEncoderSender } from "./load.ts";

interface BatchingResult {
  readonly concurrency: number;
  readonly pairs: readonly { readonly onRequestsPerSecond: number; readonly offRequestsPerSecond: number }[];
  /** Median over the pairs of on divided by off. */
  readonly medianRatio: number;
}

const PAIRS = 5;
const SECONDS_PER_RUN = 4;
const WARM_UP_SECONDS = 1;
const READY_ATTEMPTS = 240;
const ATTEMPT_MILLISECONDS = 250;
const CONCURRENCY = 32;

/**
 * @param stackDirectory - Of a running stack: its repository and interpreter are used, its servers are left alone.
 */
export async function compareBatching(stackDirectory: string): Promise<BatchingResult> {
  const directory = mkdtempSync(join(tmpdir(), "engine-room-bench-"));
  const servers: ChildProcess[] = [];
  try {
    const urls: string[] = [];
    for (const batching of [true, false]) {
      const repository = join(directory, batching ? "on" : "off");
      cpSync(join(stackDirectory, "repositories/encoders"), repository, { recursive: true });
      const config = join(repository, "text_encoder/config.pbtxt");
      const text = readFileSync(config, "utf8");
      const switched = text.replace(/^dynamic_batching \{[^}]*\}\n/m, "");
      if (switched === text) throw new Error(`${config} has no dynamic_batching to switch off.`);
      if (!batching) writeFileSync(config, switched);
      const python = join(stackDirectory, "python/bin/python");
      urls.push(await startTriton(python, repository, `${repository}-work`, servers));
    }
    const [on, off] = urls.map((url) => textEncoderSender(url));
    if (on === undefined || off === undefined) throw new Error("Both servers are needed.");
    const requestsPerSecond = async (send: Send, seconds: number) => {
      const cell = await measure(send, CONCURRENCY, seconds);
      if (cell.failed > 0)
        throw new Error(`${cell.failed} of ${cell.failed + cell.requests} requests failed.`);
      return cell.requestsPerSecond;
    };
    for (const send of [on, off]) await requestsPerSecond(send, WARM_UP_SECONDS);
    const pairs: { onRequestsPerSecond: number; offRequestsPerSecond: number }[] = [];
    for (let pair = 0; pair < PAIRS; pair++) {
      const onRequestsPerSecond = await requestsPerSecond(on, SECONDS_PER_RUN);
      const offRequestsPerSecond = await requestsPerSecond(off, SECONDS_PER_RUN);
      pairs.push({ onRequestsPerSecond, offRequestsPerSecond });
    }
    const ratios = pairs.map((pair) => pair.onRequestsPerSecond / pair.offRequestsPerSecond);
    return { concurrency: CONCURRENCY, pairs, medianRatio: median(ratios) };
  } finally {
    await Promise.all(servers.map(stop));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param servers - Where the process is put as soon as it exists, so that it is stopped whatever happens. */
async function startTriton(
  python: string,
  repository: string,
  work: string,
  servers: ChildProcess[],
): Promise<string> {
  const [http, grpc, metrics] = await Promise.all([freePort(), freePort(), freePort()]);
  const args = ["-m", "engine_room_models.serve", "--model-repository", repository, "--work-directory", work];
  const ports = ["--http-port", `${http}`, "--grpc-port", `${grpc}`, "--metrics-port", `${metrics}`];
  const logFile = `${work}.log`;
  const log = openSync(logFile, "w");
  const server = spawn(python, [...args, ...ports], {
    stdio: ["ignore", log, log],
    env: { ...process.env, PYTHONPATH: join(projectRoot, "containers/cpu-models") },
  });
  closeSync(log);
  servers.push(server);
  let failure: Error | undefined;
  server.on("error", (error) => {
    failure = error;
  });
  const url = `http://127.0.0.1:${http}`;
  for (let attempt = 0; attempt < READY_ATTEMPTS; attempt++) {
    const end = failure?.message ?? server.exitCode ?? server.signalCode;
    if (end !== null)
      throw new Error(
        `Triton ended (${end}) before it was ready:\n${readFileSync(logFile, "utf8").slice(-2000)}`,
      );
    const ready = await fetch(`${url}/v2/health/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return url;
    await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MILLISECONDS));
  }
  throw new Error(`Triton was not ready after ${(READY_ATTEMPTS * ATTEMPT_MILLISECONDS) / 1000} s.`);
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const closed = once(server, "close");
  server.kill("SIGTERM");
  await closed;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
