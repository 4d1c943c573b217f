/**
 * Benchmarks of the project's own parts, for contributors; `npx engine-room bench` measures a running stack for its users.
 *
 *     npx tsx test/bench/run.ts NAME [--stack NAME] [--directory DIR] [--out FILE]
 *
 * `--stack` names the running stack of those that need one (default: local), `--directory` a folder on the disk that engine-copy
 * measures (default: the download cache's), `--out` a file for the figures as JSON. The key of a gateway that asks for one is read
 * from ENGINE_ROOM_API_KEY.
 */
import { existsSync, mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { cacheDirectory } from "../../components/local/provider/files.ts";
import type { StackOutputs } from "../../infra/outputs.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { figureKeeper } from "../../scripts/bench/load.ts";
import { withEndpoints } from "../../scripts/connect/connected-stack.ts";
import { UserError } from "../../scripts/errors.ts";
import { gatewayHeaders } from "../../scripts/http.ts";
import { type StackReference, stackReference } from "../../scripts/program/stack-file.ts";
import { findProgram } from "../../scripts/stack/pulumi-cli.ts";
import { stackPaths } from "../../scripts/stack/stack-paths.ts";
import { batchingText, compareBatching } from "./batching.ts";
import { diffText, measureDiff } from "./diff.ts";
import { engineCopyText, measureEngineCopy } from "./engine-copy.ts";
import { measureOverhead, overheadText } from "./gateway.ts";
import {
  measureModelPreview,
  measureModelRender,
  measureStackRender,
  modelPreviewText,
  stackPreviewText,
} from "./model-preview.ts";
import { measurePlan, planFiguresText } from "./plan.ts";
import { measurePreview, previewText } from "./preview.ts";
import { measureRetrieval, retrievalText } from "./retrieval.ts";
import { measureSlowClients, slowClientsText } from "./slow-clients.ts";
import { measureVectorSearch, vectorSearchText } from "./vector-search.ts";

interface Context {
  readonly stack: StackReference;
  readonly directory: string | undefined;
  readonly headers: Record<string, string>;
  /** Keeps figures under a name, and prints their text. */
  readonly result: (name: string, figures: unknown, text: string) => void;
}

/** Largest of the project's own stacks: a network, a cluster and all that runs in it. */
const LARGEST_STACK = "prod";

const BENCHMARKS: Readonly<Record<string, (context: Context) => Promise<void>>> = {
  /** Dynamic batching on and off, with two servers of the local stack's encoders. */
  async batching({ stack, result }) {
    const figures = await compareBatching(stackPaths(stack.name).directory);
    result("batching", figures, batchingText(figures));
  },
  /** `diff` of prod, unchanged and with one changed key, against HEAD; needs a clean working tree. */
  async diff({ result }) {
    const figures = measureDiff(LARGEST_STACK);
    result("diff", figures, diffText(figures));
  },
  /** The copy of an engine of 1 GiB against dd; needs no stack, 2.5 GiB of disk. */
  async "engine-copy"({ directory = cacheDirectory(), result }) {
    mkdirSync(directory, { recursive: true });
    const figures = await measureEngineCopy(directory);
    result("engineCopy", figures, engineCopyText(figures));
  },
  /** Latency that the gateway of a running stack adds to a request to Triton. */
  gateway: ({ stack, headers, result }) =>
    withEndpoints(stack, ["triton"], async (outputs) => {
      const figures = await measureOverhead(outputs.endpoints.gateway, encodersOf(outputs).http, headers);
      result("overhead", figures, overheadText(figures));
    }),
  /** Planning 1,000 models; needs no stack. */
  async plan({ result }) {
    const figures = measurePlan();
    result("plan", figures, planFiguresText(figures));
  },
  /** Time that each of 50 models in a cluster adds to a preview, and of the graph of prod. Only a part needs a Pulumi CLI. */
  async preview({ result }) {
    const render = measureModelRender();
    result("render", render, modelPreviewText("in one process", render));
    const graph = measureStackRender(LARGEST_STACK);
    result("graph", graph, stackPreviewText(graph));
    const pulumi = findProgram("pulumi");
    if (pulumi === undefined) return print("by the Pulumi CLI: skipped, there is none on PATH");
    const preview = measureModelPreview(pulumi);
    result("preview", preview, modelPreviewText("by the Pulumi CLI", preview));
  },
  /** Stores 10,000 documents in a running stack, and measures matches among them. */
  retrieval: ({ stack, headers, result }) =>
    withEndpoints(stack, ["triton"], async (outputs) => {
      const figures = await measureRetrieval(outputs.endpoints.gateway, encodersOf(outputs), headers);
      result("retrieval", figures, retrievalText(figures));
    }),
  /** Latency of other clients beside slow clients of a running stack. */
  "slow-clients": ({ stack, headers, result }) =>
    withEndpoints(stack, [], async ({ endpoints }) => {
      const cells = await measureSlowClients(endpoints.gateway, headers);
      result("slowClients", cells, slowClientsText(cells));
    }),
  /** Preview of the unchanged local stack, kept by the try-out runner, against an empty program. */
  async unchanged({ stack, result }) {
    if (!existsSync(stackPaths(stack.name).tryoutState))
      throw new UserError("This benchmark measures a stack that is up without the Pulumi CLI.");
    const figures = measurePreview(stack);
    result("preview", figures, previewText(figures));
  },
  /** A million vectors in its own vector database; needs no stack, 4 GB of disk. */
  async vectors({ result }) {
    const figures = await measureVectorSearch();
    result("vectors", figures, vectorSearchText(figures));
  },
};

/** @returns The exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      stack: { type: "string", default: "local" },
      directory: { type: "string" },
      out: { type: "string", short: "o" },
    },
  });
  const [name = ""] = positionals;
  const benchmark = Object.hasOwn(BENCHMARKS, name) ? BENCHMARKS[name] : undefined;
  try {
    if (benchmark === undefined)
      throw new UserError(
        `Unknown benchmark ${JSON.stringify(name)}: ${Object.keys(BENCHMARKS).join(", ")}.`,
      );
    const keep = figureKeeper(values.out);
    await benchmark({
      stack: stackReference(values.stack),
      directory: values.directory === undefined ? undefined : resolve(values.directory),
      headers: gatewayHeaders(process.env.ENGINE_ROOM_API_KEY),
      result: (part, figures, text) => {
        keep(part, figures);
        print(text);
      },
    });
    return 0;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
}

/** @throws UserError if the stack has no encoders. */
function encodersOf({ endpoints: { encoders } }: StackOutputs): TritonEndpoints {
  if (encoders !== null) return encoders;
  throw new UserError("This benchmark measures encoders, and the stack has `encoders: false`.");
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

if (process.argv[1] === import.meta.filename) process.exitCode = await main(process.argv.slice(2));
