/** Checks of a language model's answers, at its Triton in its own request shape and at the gateway. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RequestProfile } from "@engine-room/triton-requests";
import { cpuGoldenQuestions } from "../../infra/plan/catalogue/cpu-models.ts";
import type { goldenPictures } from "../../infra/plan/catalogue/golden-pictures.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import {
  gatewayCompletion,
  gatewayRequest,
  type PreparedRequest,
  tritonRequest,
} from "../ask/prepared-request.ts";
import { profileOf } from "../ask/profile.ts";
import type { AskedImage, Question } from "../ask/question.ts";
import { type AnswerFigures, send } from "../ask/send.ts";
import { projectRoot } from "../program/stack-file.ts";
import { type Check, type Level, type ModelCheckName, Skipped } from "./check.ts";

/** A model of a running stack, as it is asked. */
interface AskedModel {
  /** Name in the stack. */
  readonly name: string;
  readonly golden: GoldenQuestion;
  readonly profile: RequestProfile;
  /** Whether the gateway has a chat template for it. */
  readonly chats: boolean;
  readonly server: TritonEndpoints;
  readonly gateway: string;
  readonly apiKey: string | undefined;
  /** What helps where nobody answers. */
  readonly whenUnreachable: string;
}

/**
 * What a model of the plan is asked: its own golden question. A build's check may have another one, about the picture that
 * its run.py can't be kept from; requests to a server choose theirs.
 */
function goldenOf({ tier, models }: StackPlan, name: string): Pick<AskedModel, "golden" | "chats"> {
  if (tier === "cpu") {
    const model = models.find((one) => one.name === name);
    if (model !== undefined) return { golden: cpuGoldenQuestions[model.model], chats: true };
  } else {
    const model = models.find((one) => one.name === name);
    if (model !== undefined) {
      const { golden, chat } = model.spec.engine.row;
      return { golden, chats: chat !== undefined };
    }
  }
  throw new RangeError(`The plan has no model ${name}.`);
}

/** @throws UserError for a model that the plan lacks. */
export function askedModel(
  plan: StackPlan,
  name: string,
  rest: Pick<AskedModel, "server" | "gateway" | "apiKey" | "whenUnreachable">,
): AskedModel {
  return { name, profile: profileOf(plan, name), ...goldenOf(plan, name), ...rest };
}

/** Checks of answers; those of metrics and times are elsewhere. */
export function answerChecks(model: AskedModel, level: Level): Check<ModelCheckName>[] {
  return [
    { name: "golden.triton", level, run: () => askGolden(model, atTriton(model, model.golden, false)) },
    { name: "golden.gateway", level, run: () => askGolden(model, atGateway(model)) },
    { name: "streamed", level, run: () => compareStreamed(model) },
    { name: "batched", level, run: () => compareConcurrent(model) },
  ];
}

/** Whether an answer holds one of the words that it must, in upper or lower case. */
export function holdsOne(
  answer: string,
  { answerContains }: Pick<GoldenQuestion, "answerContains">,
): boolean {
  return answerContains.some((word) => answer.toLowerCase().includes(word.toLowerCase()));
}

async function askGolden(model: AskedModel, request: PreparedRequest) {
  const { text, figures } = await answer(model, request);
  if (!holdsOne(text, model.golden)) {
    const wanted = model.golden.answerContains.map((word) => `“${word}”`).join(" or ");
    throw new Error(`the answer ${shown(text)} does not hold ${wanted}`);
  }
  return {
    text: shown(text),
    figures: {
      seconds: figures.totalSeconds,
      ...(figures.completionTokens === null ? {} : { tokens: figures.completionTokens }),
    },
  };
}

async function compareStreamed(model: AskedModel) {
  if (!model.profile.decoupled) throw new Skipped("doesNotStream");
  const whole = await answer(model, atTriton(model, model.golden, false));
  const streamed = await answer(model, atTriton(model, model.golden, true));
  if (whole.text.trim() !== streamed.text.trim()) {
    throw new Error(`streamed ${shown(streamed.text)}, whole ${shown(whole.text)}`);
  }
  const { firstTextSeconds } = streamed.figures;
  return {
    text: shown(whole.text),
    figures: firstTextSeconds === null ? {} : { firstTextSeconds },
  };
}

/**
 * Short on purpose: in half precision the sums of a batch are not those of a single request to the last bit, and sooner or
 * later two tokens of nearly the same probability change places.
 */
const CONCURRENT_TOKENS = 8;
const CONCURRENT_PROMPTS = [
  "The capital of France is",
  "Water boils at a temperature of",
  "The first month of the year is",
  "One, two, three, four, five, six,",
] as const;

async function compareConcurrent(model: AskedModel) {
  const requests = CONCURRENT_PROMPTS.map((prompt) =>
    atTriton(model, { ...model.golden, prompt, maxTokens: CONCURRENT_TOKENS }, false),
  );
  const alone: string[] = [];
  for (const request of requests) alone.push((await answer(model, request)).text);
  if (alone.every((text) => text.trim() === "")) throw new Error("all answers are empty");
  const together = await Promise.all(requests.map(async (request) => (await answer(model, request)).text));
  const other = alone.findIndex((text, index) => text !== together[index]);
  if (other !== -1) {
    throw new Error(
      `to “${CONCURRENT_PROMPTS[other]}” alone ${shown(alone[other] ?? "")}, among ${requests.length} ${shown(together[other] ?? "")}`,
    );
  }
  return { text: `${requests.length} answers`, figures: { requests: requests.length } };
}

async function answer(
  { apiKey, whenUnreachable }: AskedModel,
  request: PreparedRequest,
): Promise<{ readonly text: string; readonly figures: AnswerFigures }> {
  let text = "";
  const write = (fresh: string) => {
    text += fresh;
  };
  const figures = await send(request, { apiKey, whenUnreachable, write });
  return { text, figures };
}

function atTriton(model: AskedModel, golden: GoldenQuestion, stream: boolean): PreparedRequest {
  return tritonRequest(model.profile, model.server, question(model, golden, stream));
}

function atGateway(model: AskedModel): PreparedRequest {
  const { golden, profile, gateway, chats, apiKey } = model;
  const needsKey = apiKey !== undefined;
  const takesPicture = profile.image !== null && golden.image !== undefined;
  if (takesPicture && !chats) throw new Skipped("completesText");
  const asked = question(model, golden, false);
  return chats ? gatewayRequest(gateway, asked, needsKey) : gatewayCompletion(gateway, asked, needsKey);
}

function question(
  { name, profile }: AskedModel,
  { prompt, image, maxTokens }: GoldenQuestion,
  stream: boolean,
): Question {
  const images = image === undefined || profile.image === null ? [] : [picture(image, profile.image)];
  return { model: name, text: prompt, images, maxTokens, stream };
}

/** The picture itself. */
function picture(
  name: keyof typeof goldenPictures,
  { accepts }: NonNullable<RequestProfile["image"]>,
): AskedImage {
  if (accepts.includes("dataUrl")) return goldenPicture(name);
  throw new Skipped("pictureIsTensor");
}

/** A picture of containers/trtllm/golden. */
export function goldenPicture(name: keyof typeof goldenPictures): AskedImage & { readonly kind: "file" } {
  const path = join(projectRoot, "containers/trtllm/golden", `${name}.png`);
  return {
    kind: "file",
    path,
    base64: readFileSync(path).toString("base64"),
    mediaType: "image/png",
  };
}

const LONGEST_SHOWN = 60;

function shown(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return `“${line.length > LONGEST_SHOWN ? `${line.slice(0, LONGEST_SHOWN)}…` : line}”`;
}
