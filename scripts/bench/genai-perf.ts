/**
 * A measurement of one model by NVIDIA's own load generator, GenAI-Perf: that of the SDK image of the stack's release, in a
 * container beside the model's Triton; of a stack on CPUs, that of PyPI.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import type { RequestFlavour } from "@engine-room/triton-requests";
import { z } from "zod";
import { lastLines } from "../../components/local/provider/commands.ts";
import { GATEWAY_PORT } from "../../infra/plan/containers/gateway.ts";
import { tokenizerDirectory, weightsDirectory } from "../../infra/plan/engine/weights.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import { TRITON_PORTS } from "../../infra/plan/repository/launch.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { named } from "../ask/question.ts";
import { UserError } from "../errors.ts";
import { isOlder } from "../preflight/finding.ts";

export interface GenaiPerfLoad {
  /** Requests at a time. */
  readonly concurrency: number;
  /** Prompts, each sent once. */
  readonly requests: number;
  /** Length of each prompt. */
  readonly inputTokens: number;
  /** Length of each answer; through the gateway at most. */
  readonly outputTokens: number;
  readonly seed: number;
}

/** A run as data; nothing has been contacted. */
export interface GenaiPerfRun {
  /** As a person types it, or the object that a cluster is given. */
  readonly explained: string;
  readonly record: Omit<GenaiPerfRecord, "figures">;
  /** @returns Output of GenAI-Perf. @throws UserError if it fails. */
  run(): Promise<string>;
}

export interface GenaiPerfRequest {
  readonly model: string;
  readonly load: GenaiPerfLoad;
  /** Only for a stack on CPUs: a folder, or a repository of the Hugging Face hub. */
  readonly tokenizer: string | undefined;
  /** Its address on this machine, for a stack on CPUs. */
  readonly gateway: string;
}

/** Record of one run, as `--out` keeps it. */
export interface GenaiPerfRecord {
  readonly model: string;
  readonly release: string;
  /** Key of the measured engine; null when the model runs without an engine. */
  readonly engineKey: string | null;
  /** Null for PyPI's package. */
  readonly image: string | null;
  readonly load: GenaiPerfLoad;
  readonly figures: Figures;
}

/**
 * 24.08, the first with `genai-perf profile`, asks the hub for another tokenizer before it reads its arguments
 * (perf_analyzer, branch r24.08, genai_perf/llm_inputs/llm_inputs.py), which the container can't reach.
 */
const LEAST_RELEASE = "24.09";

/** Since then it has --request-count; before, words after `--` reach perf_analyzer, which has one: genai_perf/parser.py of r24.11 and r24.12. */
const REQUEST_COUNT_RELEASE = "24.12";

/** A load that takes longer has hung. */
export const DEADLINE_SECONDS = 3600;

/** Folder of its files in a container. */
export const ARTIFACTS = "/tmp/artifacts";

const MARKS = { json: "@@figures", csv: "@@csv" } as const;

/**
 * Prints its files into the log, which every platform brings here. The folder below the artifacts' differs from release
 * to release; the end of a file's name does not.
 *
 * @param artifacts - A word of sh.
 */
export function genaiPerfScript(artifacts: string): string {
  const files = Object.entries(MARKS).map(
    ([type, mark]) => `echo; echo ${mark}; find ${artifacts} -name \\*_genai_perf.${type} -exec cat {} +`,
  );
  return ['genai-perf "$@"', ...files].join("; ");
}

/** It writes nothing outside of /tmp, and asks no hub: the store has the tokenizer. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  HF_HUB_OFFLINE: "1",
  HOME: "/tmp",
  MPLCONFIGDIR: "/tmp/matplotlib",
  TRANSFORMERS_OFFLINE: "1",
};

/**
 * Repositories whose Triton model has the inputs of `--backend tensorrtllm`: text_input, max_tokens, stream, and since
 * 25.05 exclude_input_in_output (genai_perf/inputs/converters/tensorrtllm_converter.py), which multimodal's ensemble
 * lacks. Inputs of llava and llmapi have other names, and gpt's requires stop words: these models are asked through the
 * gateway's OpenAI API.
 */
const HAS_BACKEND: Readonly<Record<RequestFlavour, boolean>> = {
  inflight_batcher_llm: true,
  multimodal: false,
  tritonCli: true,
  llava: false,
  gpt: false,
  llmapi: false,
};

const INSTEAD = "`npx engine-room bench sweep` measures through the gateway.";

/** A model of a stack on GPUs, its release and image. @throws UserError for what GenAI-Perf can't measure. */
export function measured(plan: GpuPlan, name: string) {
  const { tag } = plan.release;
  if (isOlder(tag, LEAST_RELEASE))
    throw new UserError(
      `GenAI-Perf measures models of release ${LEAST_RELEASE} and newer, and the stack has ${tag}; ${INSTEAD}`,
    );
  const planned = named(plan.models, name);
  const { request } = planned;
  if (request.image?.isRequired === true)
    throw new UserError(
      `${name} answers nothing without a picture, and GenAI-Perf sends its Triton none; ${INSTEAD}`,
    );
  if (!HAS_BACKEND[request.flavour]) requireNoKey(plan.gateway);
  return { planned, tag, image: `nvcr.io/nvidia/tritonserver:${tag}-py3-sdk` };
}

/** GenAI-Perf hands headers to perf_analyzer in its arguments, which every user of the machine can read. */
export function requireNoKey({ apiKeys }: StackPlan["gateway"]): void {
  if (apiKeys.length > 0)
    throw new UserError(
      "The gateway asks for a key, and GenAI-Perf would show it in the arguments of perf_analyzer to every user of the machine; `npx engine-room bench sweep` measures with a key.",
    );
}

/**
 * Addresses of Triton and gateway for GenAI-Perf: `llama` and `gateway` in a cluster, `localhost` beside Triton in its
 * network.
 */
interface Hosts {
  readonly triton: string;
  /** With the port. */
  readonly gateway: string;
}

/** Arguments of `genai-perf`, by its release. */
export function genaiPerfArguments(
  { planned, tag }: ReturnType<typeof measured>,
  load: GenaiPerfLoad,
  hosts: Hosts,
): readonly string[] {
  const { name, request, repository, spec } = planned;
  const { row, model, weights } = spec.engine;
  const place = planned.engine?.places.weights ?? weightsDirectory(model, weights);
  const isAtTriton = HAS_BACKEND[request.flavour];
  return argumentsOf(load, {
    asked: isAtTriton
      ? // No `--service-kind`: Triton was its default, and is what `--backend` means since 25.04 took the option away.
        [
          ...["--model", repository.clientModel, "--backend", "tensorrtllm"],
          ...["--url", `${hosts.triton}:${TRITON_PORTS.grpc}`],
        ]
      : [
          ...["--model", name, ...(isOlder(tag, "25.04") ? ["--service-kind", "openai"] : [])],
          ...["--endpoint-type", row.chat === undefined ? "completions" : "chat", "--url", hosts.gateway],
        ],
    // The option sends min_length, which TensorRT-LLM's templates have called min_tokens for as long as they have called a seed so.
    exactLength: !isAtTriton
      ? []
      : request.seedField === "seed"
        ? ["--extra-inputs", `min_tokens:${load.outputTokens}`]
        : ["--output-tokens-mean-deterministic"],
    tokenizer: tokenizerDirectory(row, place),
    streams: request.decoupled,
    artifacts: ARTIFACTS,
    hasRequestCount: !isOlder(tag, REQUEST_COUNT_RELEASE),
  });
}

interface Asked {
  /** Model, kind of endpoint and address. */
  readonly asked: readonly string[];
  /** Words that prevent shorter answers. */
  readonly exactLength?: readonly string[];
  readonly tokenizer: string;
  readonly streams: boolean;
  readonly artifacts: string;
  /** @default true */
  readonly hasRequestCount?: boolean;
}

export function argumentsOf(
  { concurrency, requests, inputTokens, outputTokens, seed }: GenaiPerfLoad,
  { asked, exactLength = [], tokenizer, streams, artifacts, hasRequestCount = true }: Asked,
): readonly string[] {
  return [
    ...["profile", ...asked, "--tokenizer", tokenizer, ...(streams ? ["--streaming"] : [])],
    // --num-prompts is the older name of --num-dataset-entries, which all releases take.
    ...["--concurrency", String(concurrency), "--num-prompts", String(requests)],
    ...["--synthetic-input-tokens-mean", String(inputTokens), "--synthetic-input-tokens-stddev", "0"],
    ...["--output-tokens-mean", String(outputTokens), "--output-tokens-stddev", "0", ...exactLength],
    ...["--random-seed", String(seed), "--artifact-dir", artifacts],
    ...["--profile-export-file", "profile_export.json"],
    ...[...(hasRequestCount ? [] : ["--"]), "--request-count", String(requests)],
  ];
}

/**
 * On a Docker host, of this machine or of EC2: in the network of the model's own container, with its volumes,
 * read-only, of which the store has the tokenizer.
 *
 * @param container - Container of the model's Triton. @param gateway - `host:port` in the stack's network.
 */
export function containerRun(plan: GpuPlan, model: string, load: GenaiPerfLoad, container: string) {
  const target = measured(plan, model);
  const hosts = { triton: "localhost", gateway: `gateway:${GATEWAY_PORT}` };
  return {
    record: recordOf(target, load),
    argv: [
      ...["docker", "run", "--rm", "--init", "--network", `container:${container}`],
      ...["--volumes-from", `${container}:ro`, "--user", "1000:1000", "--read-only", "--tmpfs", "/tmp"],
      ...["--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
      ...Object.entries(ENVIRONMENT).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
      ...["--entrypoint", "/bin/sh", target.image, "-ec", genaiPerfScript(ARTIFACTS), "genai-perf"],
      ...genaiPerfArguments(target, load, hosts),
    ],
  } as const;
}

export function recordOf(
  { planned: { name, engine }, tag, image }: ReturnType<typeof measured>,
  load: GenaiPerfLoad,
): GenaiPerfRun["record"] {
  return { model: name, release: tag, engineKey: engine?.key ?? null, image, load };
}

/**
 * A command that is run from here; its standard error goes to ours as it comes.
 *
 * @param argv - Asked for when it runs: a machine may have to be found first.
 */
export function commandRun(
  record: GenaiPerfRun["record"],
  explained: string,
  argv: () => Promise<readonly string[]>,
  environment: Readonly<Record<string, string>> = {},
): GenaiPerfRun {
  return {
    record,
    explained: `${explained}\n`,
    async run() {
      const [program = "", ...args] = await argv();
      const child = spawn(program, args, {
        env: { ...process.env, ...environment },
        // A session of Systems Manager ends with its standard input.
        stdio: ["inherit", "pipe", "inherit"],
        timeout: DEADLINE_SECONDS * 1000,
      });
      const closed = once(child, "close").catch((error: Error) => {
        throw new UserError(`${program} can't be started: ${error.message}.`);
      });
      const [log, [code]] = await Promise.all([text(child.stdout), closed as Promise<[number | null]>]);
      if (code !== 0)
        throw new UserError(`GenAI-Perf ended with exit code ${code}; its last lines:\n${lastLines(log, 5)}`);
      return log;
    },
  };
}

/** One statistic of GenAI-Perf's table. */
const statisticSchema = z.object({
  unit: z.string(),
  avg: z.number(),
  p50: z.number().optional(),
  p90: z.number().optional(),
  p99: z.number().optional(),
});

/** By GenAI-Perf's own names, such as `time_to_first_token`. */
export type Figures = Readonly<Record<string, z.infer<typeof statisticSchema>>>;

/** Returns the figures of a log, and GenAI-Perf's own CSV. @throws UserError if the log has no figures. */
export function figuresOf(log: string): { readonly figures: Figures; readonly csv: string } {
  // A terminal between ends lines with both characters.
  const [, files = ""] = log.replaceAll("\r\n", "\n").split(`\n${MARKS.json}\n`);
  const [json = "", csv = ""] = files.split(`\n${MARKS.csv}\n`);
  try {
    const figures = Object.entries(JSON.parse(json) as object).flatMap(([name, value]) => {
      const { data } = statisticSchema.safeParse(value);
      return data === undefined ? [] : [[name, data]];
    });
    return { figures: Object.fromEntries(figures), csv: `${csv.trim()}\n` };
  } catch {
    throw new UserError(`GenAI-Perf has written no figures; its last lines:\n${lastLines(log, 5)}`);
  }
}

/** A row for each statistic. */
export function genaiPerfTable(figures: Figures): readonly string[] {
  const columns = ["avg", "p50", "p90", "p99"] as const;
  const rows = Object.entries(figures).map(([name, statistic]) => [
    `${name} (${statistic.unit})`,
    ...columns.map((key) => statistic[key]?.toFixed(2) ?? ""),
  ]);
  const width = Math.max(0, ...rows.map(([name = ""]) => name.length));
  return [["", ...columns], ...rows].map(([name = "", ...cells]) =>
    [name.padEnd(width), ...cells.map((cell) => cell.padStart(10))].join(" ").trimEnd(),
  );
}
