/** A question to a model of a stack: the user's input, and the form that the model and its endpoint accept. */

import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import {
  isHttpUrl,
  RequestError,
  type RequestProfile,
  refuseMissingOptions,
  requestProfile,
  type Sampling,
  takesSeed,
} from "@engine-room/triton-requests";
import { cpuGoldenQuestions } from "../../infra/plan/catalogue/cpu-models.ts";
import { llmapiSamples } from "../../infra/plan/catalogue/releases.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import {
  chatOf,
  PIPELINES,
  type Pipeline,
  pipelineProfile,
} from "../../infra/plan/requests/request-profile.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { nameHint, UsageError, UserError } from "../errors.ts";

export interface Question {
  /** Name in the stack. */
  readonly model: string;
  readonly text: string;
  readonly images: readonly AskedImage[];
  /** Frames of it in place of images. */
  readonly video?: AskedVideo | undefined;
  readonly maxTokens: number;
  readonly stream: boolean;
  /** @default {@link GREEDY} */
  readonly sampling?: Sampling;
  /** @default the ensemble; the BLS for streams if the repository accumulates tokens. */
  readonly pipeline?: Pipeline | undefined;
}

/** The most probable token each time. */
export const GREEDY: Sampling = { temperature: 0 };

/** An address that the server fetches, or a file of this machine. */
export type AskedImage =
  | { readonly kind: "url"; readonly url: string }
  | {
      readonly kind: "file";
      /** As it was typed, so that a printed command finds it from the same folder. */
      readonly path: string;
      readonly base64: string;
      readonly mediaType: string;
    };

export interface AskedVideo {
  /** Absolute. */
  readonly path: string;
  /** Absent: the model's default. */
  readonly frameCount?: number | undefined;
  /** `data:video/jpeg;base64,…`; empty until they are picked. */
  readonly frames: string;
}

/** A larger file is refused. */
const LARGEST_VIDEO_GIB = 4;

/**
 * Reads `--video` and `--frames`; nothing is decoded yet.
 * @throws UsageError, UserError.
 */
export function askedVideo(
  given: string | undefined,
  frames: string | undefined,
  directory: string,
): AskedVideo | undefined {
  if (given === undefined) {
    if (frames === undefined) return undefined;
    throw new UsageError("--frames is for --video FILE; give both.");
  }
  if (frames !== undefined && !/^[1-9]\d{0,8}$/.test(frames))
    throw new UsageError(`--frames is ${JSON.stringify(frames)}; it must be a whole number from 1 on.`);
  if (isHttpUrl(given))
    throw new UserError(
      "--video takes a file of this machine, whose frames are picked here; download it first.",
    );
  const path = resolve(directory, given);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) throw new UserError(`There is no file ${path}; give --video a video's path.`);
  if (stats.size > LARGEST_VIDEO_GIB * 2 ** 30)
    throw new UserError(
      `${path} has ${(stats.size / 2 ** 30).toFixed(1)} GiB, and --video reads ${LARGEST_VIDEO_GIB} at most; cut the scene out of it.`,
    );
  return { path, frameCount: frames === undefined ? undefined : Number(frames), frames: "" };
}

/** Size above which no server of a stack accepts a request: Triton's own limit is 64 MiB, and base64 adds a third. */
const LARGEST_IMAGE_MIB = 40;

/**
 * Reads `--image`.
 * @param directory - Start of relative paths.
 * @throws UserError for a file that is missing, too large, or not a picture.
 */
export function askedImage(given: string, directory: string): AskedImage {
  if (isHttpUrl(given)) return { kind: "url", url: given };
  const path = resolve(directory, given);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) {
    throw new UserError(`There is no file ${path}; give --image a picture's path or its http(s) address.`);
  }
  if (stats.size > LARGEST_IMAGE_MIB * 2 ** 20) {
    throw new UserError(
      `${path} has ${(stats.size / 2 ** 20).toFixed(0)} MiB, and no server takes more than ${LARGEST_IMAGE_MIB}; make the picture smaller.`,
    );
  }
  const bytes = readFileSync(path);
  const mediaType = mediaTypeOf(bytes);
  if (mediaType === undefined) {
    throw new UserError(`${path} is not a JPEG, PNG or WebP file; send one of these formats.`);
  }
  return { kind: "file", path: given, base64: bytes.toString("base64"), mediaType };
}

export interface NumberOption {
  readonly flag: string;
  readonly isWhole: boolean;
  /** Words for the sentence of a refusal. */
  readonly range: string;
  isInRange(value: number): boolean;
}

export const whole = (flag: string, least: number, most: number): NumberOption => ({
  flag,
  isWhole: true,
  range: `a whole number from ${least} to ${most}`,
  isInRange: (value) => value >= least && value <= most,
});

const penalty = (flag: string): NumberOption => ({
  flag,
  isWhole: false,
  range: "a number from -2 to 2",
  isInRange: (value) => value >= -2 && value <= 2,
});

/**
 * Ranges of the gateway's API, which are OpenAI's. OpenAI lacks `top_k`: its range is TensorRT-LLM's, TOP_K_MAX of
 * cpp/tensorrt_llm/kernels/samplingTopKKernels.h. A seed is an UINT64 there, and JSON's numbers are exact to 2^53.
 */
const NUMBERS = {
  maxTokens: whole("--max-tokens", 1, 999_999),
  temperature: {
    flag: "--temperature",
    isWhole: false,
    range: "a number from 0 to 2",
    isInRange: (value) => value >= 0 && value <= 2,
  },
  topK: whole("--top-k", 0, 1024),
  topP: {
    flag: "--top-p",
    isWhole: false,
    range: "a number above 0, 1 at most",
    isInRange: (value) => value > 0 && value <= 1,
  },
  seed: whole("--seed", 0, Number.MAX_SAFE_INTEGER),
  frequencyPenalty: penalty("--frequency-penalty"),
  presencePenalty: penalty("--presence-penalty"),
  beamWidth: whole("--beam-width", 1, 64),
} as const satisfies Readonly<Record<keyof Sampling | "maxTokens", NumberOption>>;

type NumberName = keyof typeof NUMBERS;

/**
 * Reads the given options that are numbers.
 * @throws UsageError with a sentence for each value that is not a number, or is out of range.
 */
export function readNumbers<Name extends string>(
  options: Readonly<Record<Name, NumberOption>>,
  given: Readonly<Partial<Record<NoInfer<Name>, string | undefined>>>,
): Partial<Record<Name, number>> {
  const problems: string[] = [];
  const numbers: Partial<Record<Name, number>> = {};
  for (const name of Object.keys(options) as Name[]) {
    const text = given[name];
    if (text === undefined) continue;
    const { flag, isWhole, range, isInRange } = options[name];
    const isNumber = isWhole ? /^\d+$/.test(text) : /^-?(\d+(\.\d*)?|\.\d+)$/.test(text);
    if (isNumber && isInRange(Number(text))) numbers[name] = Number(text);
    else problems.push(`${flag} is ${JSON.stringify(text)}; it must be ${range}.`);
  }
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
  return numbers;
}

/**
 * Reads the options that are numbers. A seed, top-k or top-p requires sampling: the temperature is 1 then.
 * @throws UsageError with a sentence for each value that is not a number, or is out of range.
 */
export function askedNumbers(given: Readonly<Partial<Record<NumberName, string | undefined>>>): {
  readonly maxTokens: number;
  readonly sampling: Sampling;
} {
  const { maxTokens = 0, ...sampling } = readNumbers(NUMBERS, given);
  const isDrawn = [sampling.topK, sampling.topP, sampling.seed].some((value) => value !== undefined);
  return { maxTokens, sampling: { temperature: isDrawn ? 1 : 0, ...sampling } };
}

/**
 * Checks that the endpoint supports the options, before anything is sent.
 * @throws UserError with a sentence for each option that does not reach the model.
 */
export function requirePassedOn(
  { profile, pipelines, maxBeamWidth, samples }: Asked,
  { model, images, video, sampling = GREEDY, stream, pipeline }: Question,
  endpoint: AskedEndpoint,
): void {
  const { beamWidth = 1 } = sampling;
  const problems: string[] = [];
  if (beamWidth > 1 && maxBeamWidth === null)
    problems.push(
      `--beam-width is ${beamWidth}, and ${model} runs on CPUs, without beam search; leave it out.`,
    );
  else if (beamWidth > (maxBeamWidth ?? 1))
    problems.push(
      `--beam-width is ${beamWidth}, and the engine of ${model} takes ${maxBeamWidth} at most: \`limits.maxBeamWidth\` of the stack file.`,
    );
  else if (beamWidth > 1 && endpoint === "gateway")
    problems.push(
      "The gateway's API has no beam width, like OpenAI's API; --endpoint triton asks the model's own server, which completes the text as it is.",
    );
  if (sampling.seed !== undefined && !takesSeed(profile))
    problems.push(
      `--seed is ${sampling.seed}, and the LLM API, which serves ${model}, ignores a seed up to TensorRT-LLM 1.2; leave it out.`,
    );
  if (!samples && (sampling.temperature ?? 0) > 0)
    problems.push(
      `The LLM API of this release, which serves ${model}, takes the most probable token each time; leave --temperature, --top-k and --top-p out.`,
    );
  if (beamWidth > 1 && stream)
    problems.push("--stream prints one text, and --beam-width makes several; leave one of them out.");
  const takesVideo = profile.image?.video;
  if (video !== undefined && takesVideo === undefined)
    problems.push(
      `${model} does not accept a video; LLaVA-OneVision does, from TensorRT-LLM 0.16 on. Leave --video out.`,
    );
  else if (video !== undefined && (video.frameCount ?? 0) > (takesVideo?.maxFrames ?? 0))
    problems.push(
      `--frames is ${video.frameCount}, and ${model} takes ${takesVideo?.maxFrames} at most: its visual engine and context are built for them.`,
    );
  if (video !== undefined && images.length > 0)
    problems.push("A question has --image or --video; leave one of them out.");
  if (pipeline !== undefined && pipelines[pipeline] === undefined)
    problems.push(
      `--pipeline is ${pipeline}, and the repository of ${model} does not have both an ensemble and a BLS to choose from (flavours inflight_batcher_llm and multimodal do); leave it out.`,
    );
  else if (pipeline !== undefined && endpoint === "gateway")
    problems.push(
      "The gateway chooses the pipeline by the stack file (`triton.accumulateTokens`); --endpoint triton takes --pipeline.",
    );
  try {
    refuseMissingOptions(profile, sampling);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    const { flag } = NUMBERS[error.field as NumberName];
    problems.push(error.message.replace(error.field, flag));
  }
  if (problems.length > 0) throw new UserError(problems.join("\n"));
}

/** As a data URL, or the address itself. */
export function imageUrl(image: AskedImage): string {
  return image.kind === "url" ? image.url : `data:${image.mediaType};base64,${image.base64}`;
}

function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, 12)).toString("latin1");
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}

export const ENDPOINTS = ["triton", "gateway"] as const;
export type AskedEndpoint = (typeof ENDPOINTS)[number];

/**
 * The gateway for a text question to a model with a chat template, because such a model ends a bare text at once. Triton otherwise: there
 * too a question about pictures gets the model's prompt around it, and pictures may be addresses.
 *
 * @param isOverGrpc - Whether gRPC is requested, which the gateway lacks.
 */
export function usualEndpoint(
  plan: StackPlan,
  { model, images, video, pipeline }: Pick<Question, "model" | "images" | "video" | "pipeline">,
  isOverGrpc: boolean,
): AskedEndpoint {
  const isForTriton = isOverGrpc || images.length > 0 || video !== undefined || pipeline !== undefined;
  return !isForTriton && asked(plan, model).chats ? "gateway" : "triton";
}

/** Questions that a model of the plan supports. */
export interface Asked {
  readonly profile: RequestProfile;
  /** Requests by pipeline of its repository; undefined for a repository with a single pipeline. */
  readonly pipelines: Readonly<Partial<Record<Pipeline, RequestProfile | undefined>>>;
  /** Question of the model. A build's check may have another question; requests to a server choose theirs. */
  readonly golden: GoldenQuestion;
  /** Whether the gateway has a chat template for it. */
  readonly chats: boolean;
  /** null without an engine. */
  readonly maxBeamWidth: number | null;
  /** Whether the server follows temperature, top-p and top-k. */
  readonly samples: boolean;
}

/** @throws UserError for a model that the plan lacks. */
export function asked(plan: StackPlan, name: string): Asked {
  if (plan.tier === "gpu") {
    const { request, spec, repository } = named(plan.models, name);
    const { row, limits, release } = spec.engine;
    const { golden } = row;
    const pipelines = Object.fromEntries(
      PIPELINES.map((pipeline) => [pipeline, pipelineProfile(request, spec, repository, pipeline)]),
    );
    return {
      profile: request,
      pipelines,
      golden,
      chats: chatOf(spec) !== undefined,
      maxBeamWidth: limits.maxBeamWidth,
      samples: spec.serving.runtime !== "llmapi" || llmapiSamples(release),
    };
  }
  const { model, catalogue, golden } = named(plan.models, name);
  const { endId, padId } = catalogue;
  const profile = requestProfile("inflight_batcher_llm", { endId, padId });
  return {
    profile,
    pipelines: {},
    golden: golden ?? cpuGoldenQuestions[model],
    chats: true,
    maxBeamWidth: null,
    samples: true,
  };
}

/** @throws UserError with the nearest name, or all names. */
export function named<Model extends { readonly name: string }>(
  models: readonly Model[],
  name: string,
): Model {
  const model = models.find((one) => one.name === name);
  if (model !== undefined) return model;
  const names = models.map((one) => one.name);
  throw new UserError(`The stack has no model ${JSON.stringify(name)}. ${nameHint(name, names)}`);
}
