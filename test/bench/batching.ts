/** Dynamic batching on against off: two Tritons that differ in nothing else, measured by turns. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cpuServerSpec } from "../../infra/plan/container-specs.ts";
import { measure, median, type Send, textEncoderSender } from "../../scripts/bench/load.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { freePort } from "../harness/ports.ts";
import { tell } from "../harness/progress.ts";
import { type BenchServer, startServer } from "./server-process.ts";

interface BatchingResult {
  readonly concurrency: number;
  readonly pairs: readonly { readonly onRequestsPerSecond: number; readonly offRequestsPerSecond: number }[];
  /** Median over the pairs of on divided by off. */
  readonly medianRatio: number;
}

const PAIRS = 5;
const SECONDS_PER_RUN = 4;
const WARM_UP_SECONDS = 1;
const READY_SECONDS = 60;
const CONCURRENCY = 32;

/**
 * @param stackDirectory - Folder of a running stack, whose repository and interpreter are used; its servers are not touched.
 */
export async function compareBatching(stackDirectory: string): Promise<BatchingResult> {
  const directory = mkdtempSync(join(tmpdir(), "engine-room-bench-"));
  const servers: BenchServer[] = [];
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
      const { server, url } = await startTriton(python, repository);
      servers.push(server);
      urls.push(url);
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
      tell(`on ${onRequestsPerSecond.toFixed(0)}, off ${offRequestsPerSecond.toFixed(0)} requests/s`);
    }
    const ratios = pairs.map((pair) => pair.onRequestsPerSecond / pair.offRequestsPerSecond);
    return { concurrency: CONCURRENCY, pairs, medianRatio: median(ratios) };
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** One line for people. */
export function batchingText({ concurrency, pairs, medianRatio }: BatchingResult): string {
  const shown = pairs.map(
    (pair) => `${pair.onRequestsPerSecond.toFixed(0)}/${pair.offRequestsPerSecond.toFixed(0)}`,
  );
  return `dynamic batching on/off at concurrency ${concurrency}, requests per second: ${shown.join(" ")}, median ratio ${medianRatio.toFixed(2)}`;
}

async function startTriton(
  python: string,
  repository: string,
): Promise<{ server: BenchServer; url: string }> {
  const [http, grpc, metrics] = await Promise.all([freePort(), freePort(), freePort()]);
  const spec = `${repository}.json`;
  writeFileSync(spec, cpuServerSpec("encoders", null, 20, { repository, address: "127.0.0.1" }));
  const args = ["-m", "engine_room.triton_entrypoint", "serve", spec];
  const ports = ["--http-port", `${http}`, "--grpc-port", `${grpc}`, "--metrics-port", `${metrics}`];
  const url = `http://127.0.0.1:${http}`;
  const server = await startServer({
    name: "Triton",
    command: [python, ...args, ...ports],
    environment: { ...process.env, PYTHONPATH: join(projectRoot, "containers/python") },
    log: `${repository}.log`,
    readyUrl: `${url}/v2/health/ready`,
    readySeconds: READY_SECONDS,
  });
  return { server, url };
}
