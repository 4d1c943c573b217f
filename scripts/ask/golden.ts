/** The golden questions of a running stack's models, as requests to their Tritons and to the gateway. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RequestProfile } from "@engine-room/triton-requests";
import { cpuGoldenQuestions } from "../../infra/plan/catalogue/cpu-models.ts";
import type { goldenPictures } from "../../infra/plan/catalogue/language-models.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { projectRoot } from "../program/stack-file.ts";
import {
  gatewayCompletion,
  gatewayRequest,
  type PreparedRequest,
  tritonRequest,
} from "./prepared-request.ts";
import { type AskedImage, chats, profileOf, type Question } from "./question.ts";
import { type AnswerFigures, send } from "./send.ts";

/** Why a golden question can't be put. */
export const CANT_ASK = {
  completesText:
    "it has no chat template, and the gateway's /v1/completions, which needs none, takes no pictures",
  pictureIsTensor: "it takes pictures as tensors, which Triton's generate extension can't carry",
} as const;

/** A question that there is no request for. */
export class CantAskError extends Error {
  override readonly name = "CantAskError";
  readonly reason: keyof typeof CANT_ASK;

  constructor(reason: keyof typeof CANT_ASK) {
    super(CANT_ASK[reason]);
    this.reason = reason;
  }
}

/** A model of a running stack, as it is asked. */
export interface AskedModel {
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
function goldenOf({ tier, models }: StackPlan, name: string): GoldenQuestion {
  if (tier === "cpu") {
    const model = models.find((one) => one.name === name);
    if (model !== undefined) return cpuGoldenQuestions[model.model];
  } else {
    const model = models.find((one) => one.name === name);
    if (model !== undefined) return model.spec.engine.row.golden;
  }
  throw new RangeError(`The plan has no model ${name}.`);
}

/** @throws UserError for a model that the plan lacks. */
export function askedModel(
  plan: StackPlan,
  name: string,
  rest: Pick<AskedModel, "server" | "gateway" | "apiKey" | "whenUnreachable">,
): AskedModel {
  const profile = profileOf(plan, name);
  return { name, profile, golden: goldenOf(plan, name), chats: chats(plan, name), ...rest };
}

/** Sends a request. @returns The whole text, and how long it took. */
export async function answer(
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

/** @throws CantAskError. */
export function atTriton(model: AskedModel, golden: GoldenQuestion, stream: boolean): PreparedRequest {
  return tritonRequest(model.profile, model.server, question(model, golden, stream));
}

/** As a chat, or without a chat template as a text to go on with, which is not streamed. @throws CantAskError. */
export function atGateway(model: AskedModel, stream = false): PreparedRequest {
  const { golden, profile, gateway, chats, apiKey } = model;
  const needsKey = apiKey !== undefined;
  const takesPicture = profile.image !== null && golden.image !== undefined;
  if (takesPicture && !chats) throw new CantAskError("completesText");
  const asked = question(model, golden, stream);
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
  { takesFiles }: NonNullable<RequestProfile["image"]>,
): AskedImage {
  if (takesFiles) return goldenPicture(name);
  throw new CantAskError("pictureIsTensor");
}

type FilePicture = AskedImage & { readonly kind: "file" };

/** Read once: a load asks with one hundreds of times a second. */
const picturesRead = new Map<string, FilePicture>();

/** A picture of containers/trtllm/golden. */
export function goldenPicture(name: keyof typeof goldenPictures): FilePicture {
  const path = join(projectRoot, "containers/trtllm/golden", `${name}.png`);
  const picture = picturesRead.get(path) ?? {
    kind: "file",
    path,
    base64: readFileSync(path).toString("base64"),
    mediaType: "image/png",
  };
  picturesRead.set(path, picture);
  return picture;
}
