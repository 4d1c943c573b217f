import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { resolve } from "node:path";
import { cacheDirectory } from "../../components/local/provider/files.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { compareBatching } from "../bench/batching.ts";
import { engineCopyText, measureEngineCopy } from "../bench/engine-copy.ts";
import { measureOverhead } from "../bench/gateway.ts";
import { type GenaiPerfRecord, genaiPerfTable, measureWithGenaiPerf } from "../bench/genai-perf.ts";
import {
  measureModelPreview,
  measureModelRender,
  measureStackRender,
  modelPreviewText,
  stackPreviewText,
} from "../bench/model-preview.ts";
import { measurePlan, planFiguresText } from "../bench/plan.ts";
import { measurePreview } from "../bench/preview.ts";
import { measureRetrieval } from "../bench/retrieval.ts";
import { measureSlowClients, slowClientsText } from "../bench/slow-clients.ts";
import { loadTargets, measureLoad } from "../bench/stack-load.ts";
import { measureVectorSearch } from "../bench/vector-search.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { readPlan } from "../program/docker-target.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";
import { gatewayHeaders } from "../smoke/requests.ts";
import { findPulumi } from "../stack/pulumi-cli.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { defineCommand, EXIT } from "./command.ts";

const BENCHMARKS = {
  plan: "planning 1,000 models; needs no stack",
  preview:
    "what each of 50 models in a cluster adds to a preview, and how long the graph of prod takes; needs no stack and no cluster, and a Pulumi CLI with the kubernetes plugin for the last part",
  retrieval: "10,000 documents in, and matches among them, in the running stack",
  "slow-clients":
    "how long others wait beside 1,000 slow readers, 1,000 slow writers and 5,000 idle connections, in the running stack",
  vectors: "a million vectors in a vector database of its own; needs no stack, 4 GB of disk",
  "engine-copy": "the copy of an engine of 1 GiB against dd; needs no stack, 2.5 GiB of disk",
};

export const command = defineCommand({
  argument: { name: "[benchmark]", text: "another one than that of the running stack", choices: BENCHMARKS },
  options: {
    "-o, --out <file>": "the figures as JSON, besides the table",
    "--directory <dir>": "of engine-copy: a folder on the disk that is measured (default: that of downloads)",
    "-m, --model <name>":
      "of a stack in a cluster: measure that model's Triton with NVIDIA's GenAI-Perf, a Job of the release's SDK image; --out keeps its table",
    "--against <file>": "with --model: compare with a table that --out kept before",
  },
  notes: [
    "Without an argument: throughput and latency, batching on and off, what the gateway adds, and preview time.",
    "The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY.",
  ],
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const [target] = positionals;
    if (values.model !== undefined) return benchModel(stack, values.model, values);
    if (target === "plan") return benchPlan(values.out);
    if (target === "preview") return benchModelPreview(values.out);
    if (target === "vectors") return benchVectors(values.out);
    if (target === "engine-copy") return benchEngineCopy(values.directory, values.out);
    if (target === "slow-clients")
      return withEndpoints(stack, [], (outputs) => benchSlowClients(outputs, values.out));
    return withEndpoints(stack, ["triton"], (outputs) =>
      target === "retrieval"
        ? benchRetrieval(outputs, gatewayHeaders(process.env.ENGINE_ROOM_API_KEY), values.out)
        : benchStack(stack, outputs, values.out),
    );
  },
});

/** @throws UsageError for a stack that is in no cluster. */
async function benchModel(
  stack: StackReference,
  model: string,
  { out, against }: { readonly out?: string | undefined; readonly against?: string | undefined },
): Promise<number> {
  const cluster = (await operationsOf(stack)).cluster();
  if (cluster === null)
    throw new UsageError(
      "--model is for stacks of `platform: kubernetes`; without it the gateway is measured.",
    );
  const before =
    against !== undefined
      ? (JSON.parse(readFileSync(resolve(callerDirectory(), against), "utf8")) as GenaiPerfRecord)
      : undefined;
  const record = await measureWithGenaiPerf(cluster.target, model, cluster.probe);
  if (out !== undefined)
    writeFileSync(resolve(callerDirectory(), out), `${JSON.stringify(record, null, 2)}\n`);
  print(genaiPerfTable(record, before).join("\n"));
  return EXIT.ok;
}

async function benchStack(
  stack: StackReference,
  outputs: StackOutputs,
  out: string | undefined,
): Promise<number> {
  const key = process.env.ENGINE_ROOM_API_KEY;
  const headers = gatewayHeaders(key);
  const { gateway, encoders } = outputs.endpoints;
  const keep = figureKeeper(out);
  keep("load", await measureLoad(loadTargets(readPlan(stack), outputs, key), print));
  if (encoders === null) print("gateway against direct Triton: skipped, the stack has no encoders");
  else await benchOverhead(gateway, encoders, headers, keep);
  if (!(await operationsOf(stack)).isForTryout) {
    print(
      "batching on and off, and preview time: skipped, they are measured with a stack of `platform: local`",
    );
    return EXIT.ok;
  }
  await benchBatching(stackPaths(stack.name).directory, keep);
  if (!existsSync(stackPaths(stack.name).tryoutState)) {
    print("preview against an empty program: skipped, the Pulumi CLI keeps this stack's state");
    return EXIT.ok;
  }
  const preview = measurePreview(stack);
  keep("preview", preview);
  print(
    `preview of the unchanged stack against an empty program, ${preview.pairs} pairs: ${preview.stackSeconds.toFixed(2)} ` +
      `against ${preview.emptySeconds.toFixed(2)} s, median ratio ${preview.medianRatio.toFixed(2)}`,
  );
  return EXIT.ok;
}

async function benchOverhead(
  gateway: string,
  encoders: TritonEndpoints,
  headers: Record<string, string>,
  keep: ReturnType<typeof figureKeeper>,
): Promise<void> {
  const overhead = await measureOverhead(gateway, encoders.http, headers);
  keep("overhead", overhead);
  print(
    `gateway against direct Triton, ${overhead.pairs} pairs: p50 ${overhead.gatewayP50Milliseconds.toFixed(2)} against ` +
      `${overhead.directP50Milliseconds.toFixed(2)} ms, median difference ${overhead.medianOverheadMilliseconds.toFixed(2)} ms`,
  );
}

async function benchBatching(stackDirectory: string, keep: ReturnType<typeof figureKeeper>): Promise<void> {
  const batching = await compareBatching(stackDirectory);
  keep("batching", batching);
  const pairs = batching.pairs.map(
    (p) => `${p.onRequestsPerSecond.toFixed(0)}/${p.offRequestsPerSecond.toFixed(0)}`,
  );
  print(
    `dynamic batching on/off at concurrency ${batching.concurrency}, requests per second: ${pairs.join(" ")}, ` +
      `median ratio ${batching.medianRatio.toFixed(2)}`,
  );
}

async function benchRetrieval(
  outputs: StackOutputs,
  headers: Record<string, string>,
  out: string | undefined,
): Promise<number> {
  const figures = await measureRetrieval(outputs.endpoints.gateway, encodersOf(outputs), headers);
  figureKeeper(out)("retrieval", figures);
  const { ingest, match } = figures;
  print(
    `${ingest.documents} documents in: ${ingest.documentsPerSecond.toFixed(0)} documents/s against ` +
      `${ingest.encoderTextsPerSecond.toFixed(0)} texts/s of the encoder alone, ratio ${ingest.ratio.toFixed(2)}`,
  );
  print(
    `match among ${match.documents}, ${match.rounds} rounds: p50 ${match.matchP50Milliseconds.toFixed(2)} ms against ` +
      `${match.embeddingP50Milliseconds.toFixed(2)} of the embedding alone, ratio ${match.ratio.toFixed(2)}; and against ` +
      `${match.encoderP50Milliseconds.toFixed(2)} of Triton asked directly, ratio ${match.encoderRatio.toFixed(2)}`,
  );
  return EXIT.ok;
}

async function benchSlowClients({ endpoints }: StackOutputs, out: string | undefined): Promise<number> {
  const cells = await measureSlowClients(endpoints.gateway, gatewayHeaders(process.env.ENGINE_ROOM_API_KEY));
  figureKeeper(out)("slowClients", cells);
  print(slowClientsText(cells));
  return EXIT.ok;
}

async function benchVectors(out: string | undefined): Promise<number> {
  const figures = await measureVectorSearch();
  figureKeeper(out)("vectors", figures);
  const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(2);
  print(
    `${figures.vectors} vectors of ${figures.dimension}: loaded in ${figures.loadSeconds.toFixed(0)} s, exact search p50 ` +
      `${figures.searchP50Milliseconds.toFixed(0)} ms over ${figures.searches}, resident ${gib(figures.rssBytes)} GiB ` +
      `(the vectors alone ${gib(figures.vectorBytes)} GiB)`,
  );
  return EXIT.ok;
}

async function benchEngineCopy(directory: string | undefined, out: string | undefined): Promise<number> {
  const measured = directory !== undefined ? resolve(callerDirectory(), directory) : cacheDirectory();
  mkdirSync(measured, { recursive: true });
  const figures = await measureEngineCopy(measured);
  figureKeeper(out)("engineCopy", figures);
  print(engineCopyText(figures));
  return EXIT.ok;
}

function benchPlan(out: string | undefined): number {
  const figures = measurePlan();
  figureKeeper(out)("plan", figures);
  print(planFiguresText(figures));
  return EXIT.ok;
}

/** Of the project's own: a network, a cluster and all that runs in it. */
const LARGEST_STACK = "prod";

function benchModelPreview(out: string | undefined): number {
  const keep = figureKeeper(out);
  const render = measureModelRender();
  keep("render", render);
  print(modelPreviewText("in one process", render));
  const graph = measureStackRender(LARGEST_STACK);
  keep("graph", graph);
  print(stackPreviewText(graph));
  const pulumi = findPulumi();
  if (pulumi === undefined) print("by the Pulumi CLI: skipped, there is none on PATH");
  else {
    const preview = measureModelPreview(pulumi);
    keep("preview", preview);
    print(modelPreviewText("by the Pulumi CLI", preview));
  }
  return EXIT.ok;
}

/**
 * Keeps figures by name in the file `out`, part by part, so that a later failure loses none; nowhere without a file.
 * They come with the machine they were measured on.
 */
function figureKeeper(out: string | undefined): (name: string, value: unknown) => void {
  const [processor] = cpus();
  const machine = {
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    processor: processor?.model ?? "",
  };
  const figures: Record<string, unknown> = { machine };
  return (name, value) => {
    figures[name] = value;
    if (out !== undefined)
      writeFileSync(resolve(callerDirectory(), out), `${JSON.stringify(figures, null, 2)}\n`);
  };
}

/** @throws UserError where the stack has none. */
function encodersOf({ endpoints: { encoders } }: StackOutputs): TritonEndpoints {
  if (encoders !== null) return encoders;
  throw new UserError("This benchmark measures the encoders, and the stack has none: `encoders: false`.");
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
