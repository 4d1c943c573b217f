/** Dynamic batching on against off: two Tritons that differ in nothing else, measured by turns. */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectRoot } from "../program/stack-file.ts";
import { jsonSender, measure, median, sampleText } from "./load.ts";

export interface BatchingResult {
  readonly concurrency: number;
  readonly pairs: readonly { readonly onRequestsPerSecond: number; readonly offRequestsPerSecond: number }[];
  /** Median over the pairs of on divided by off. */
  readonly medianRatio: number;
}

const PAIRS = 5;
const SECONDS = 4;
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
      const { server, url } = await startTriton(
        join(stackDirectory, "python/bin/python"),
        repository,
        `${repository}-work`,
      );
      servers.push(server);
      urls.push(url);
    }
    const [on, off] = urls.map((url) =>
      jsonSender(`${url}/v2/models/text_encoder/infer`, (index) => ({
        inputs: [{ name: "text", datatype: "BYTES", shape: [1, 1], data: [sampleText(index)] }],
        outputs: [{ name: "text_embedding" }],
      })),
    );
    if (on === undefined || off === undefined) throw new Error("Both servers are needed.");
    await measure(on, CONCURRENCY, 1);
    await measure(off, CONCURRENCY, 1);
    const pairs: { onRequestsPerSecond: number; offRequestsPerSecond: number }[] = [];
    for (let pair = 0; pair < PAIRS; pair++) {
      const { requestsPerSecond: onRequestsPerSecond } = await measure(on, CONCURRENCY, SECONDS);
      const { requestsPerSecond: offRequestsPerSecond } = await measure(off, CONCURRENCY, SECONDS);
      pairs.push({ onRequestsPerSecond, offRequestsPerSecond });
    }
    const ratios = pairs.map((pair) => pair.onRequestsPerSecond / pair.offRequestsPerSecond);
    return { concurrency: CONCURRENCY, pairs, medianRatio: median(ratios) };
  } finally {
    await Promise.all(servers.map(stop));
    rmSync(directory, { recursive: true, force: true });
  }
}

async function startTriton(python: string, repository: string, work: string) {
  const [http, grpc, metrics] = await Promise.all([freePort(), freePort(), freePort()]);
  const args = ["-m", "engine_room_models.serve", "--model-repository", repository, "--work-directory", work];
  const ports = ["--http-port", `${http}`, "--grpc-port", `${grpc}`, "--metrics-port", `${metrics}`];
  const server = spawn(python, [...args, ...ports], {
    stdio: "ignore",
    env: { ...process.env, PYTHONPATH: join(projectRoot, "containers/cpu-models") },
  });
  const url = `http://127.0.0.1:${http}`;
  for (let attempt = 0; attempt < 240; attempt++) {
    if (server.exitCode !== null)
      throw new Error(`Triton ended with exit code ${server.exitCode} before it was ready.`);
    const ready = await fetch(`${url}/v2/health/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return { server, url };
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  server.kill("SIGKILL");
  throw new Error("Triton was not ready after 60 s.");
}

function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    server.once("close", () => resolve());
    server.kill("SIGTERM");
  });
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
