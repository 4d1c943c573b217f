/** The golden questions of a running stack's models, as requests to their Tritons and to the gateway. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { goldenPictures } from "../../infra/plan/catalogue/language-models.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import type { TritonEndpoints } from "../../infra/plan/endpoints.ts";
import { projectRoot } from "../program/stack-file.ts";
import {
  gatewayCompletion,
  gatewayRequest,
  type PreparedRequest,
  tritonRequest,
} from "./prepared-request.ts";
import type { Asked, AskedImage, Question } from "./question.ts";
import { type AnswerFigures, send } from "./send.ts";

/** Reasons to skip a check of `smoke` or `verify`: a name for proof files, and a sentence for people. */
export const SKIP_REASONS = {
  doesNotStream: "its repository is not decoupled, so it does not stream",
  completesText:
    "it has no chat template, and the gateway's /v1/completions, which needs no template, does not accept pictures",
  pictureIsTensor: "it takes pictures as tensors, which Triton's generate extension can't carry",
  noClipText: "there is no clip_text: these weights have no text encoder in the space of images",
  ownTextEncoder: "no similarities of vectors of this text encoder are known",
  batchOfOne: "its largest batch is one",
  noEngine: "it has no engine to measure",
  noManifest: "the build manifest can't be read in the container that serves the engine",
  noContainers: "this stack runs processes of this machine; start times are read from containers",
  notRunning: "its container does not run on the host",
  logHasNoStart: "the log of its container no longer has the start; `docker restart` brings one",
  noSamples: "the sample pictures are not loaded; `npx engine-room seed` loads them",
} as const;
export type SkipReason = keyof typeof SKIP_REASONS;

/** Thrown by a check that does not apply to the stack. */
export class Skipped extends Error {
  override readonly name = "Skipped";
  readonly reason: SkipReason;

  constructor(reason: SkipReason) {
    super(SKIP_REASONS[reason]);
    this.reason = reason;
  }
}

/** A model of a running stack, as it is asked. */
export interface AskedModel extends Asked {
  /** Name in the stack. */
  readonly name: string;
  readonly server: TritonEndpoints;
  readonly gateway: string;
  readonly apiKey: string | undefined;
  /** Advice if it does not answer. */
  readonly whenUnreachable: string;
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

/** @throws Skipped. */
export function atTriton(model: AskedModel, golden: GoldenQuestion, stream: boolean): PreparedRequest {
  return tritonRequest(model.profile, model.server, question(model, golden, stream));
}

/** Asks by a chat, or without a chat template by a completion without stream. @throws Skipped. */
export function atGateway(model: AskedModel, stream = false): PreparedRequest {
  const { golden, profile, gateway, chats, apiKey } = model;
  const needsKey = apiKey !== undefined;
  const takesPicture = profile.image !== null && golden.image !== undefined;
  if (takesPicture && !chats) throw new Skipped("completesText");
  const asked = question(model, golden, stream);
  return chats ? gatewayRequest(gateway, asked, needsKey) : gatewayCompletion(gateway, asked, needsKey);
}

function question(
  { name, profile }: AskedModel,
  { prompt, image, maxTokens }: GoldenQuestion,
  stream: boolean,
): Question {
  const takesPicture = image !== undefined && profile.image !== null;
  if (takesPicture && profile.image?.takesFiles !== true) throw new Skipped("pictureIsTensor");
  const images = takesPicture ? [goldenPicture(image)] : [];
  return { model: name, text: prompt, images, maxTokens, stream };
}

type FilePicture = AskedImage & { readonly kind: "file" };

/** Cache: a load asks with a picture hundreds of times a second. */
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

/** A colour gradient of 32 by 32 pixels, as PNG: enough to see that an image encoder answers. */
export const SAMPLE_IMAGE_DATA_URL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAe0lEQVR42rXNERfCUBgA0O/ZwzAcDsMwHIbDcDgcPgyHw3AYhmE4HIbDMNyvuOdcvymi5AgnRdbBQQdHHVQ6qHVw0sFZBxcdNDq46qDVwU0HnQ56HQw6KDq462DUwaSDhw5mHTx18NLBWwcfHSw6WHXw1cGmg58O/jbYARzfPqF3HHsQAAAAAElFTkSuQmCC";
