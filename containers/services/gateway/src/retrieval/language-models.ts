/** Which language model answers or describes, and how a question with an image is put to it. */
import { wrapQuestion } from "@engine-room/triton-requests";
import type { Catalogue, ServedTextModel } from "../catalogue.ts";
import { ApiError, invalidRequest } from "../errors.ts";
import type { GenerateRequest } from "../triton/generate.ts";

/** Whether a model can be shown an image that the gateway has as a file. */
export function takesImages({ config }: ServedTextModel): boolean {
  return config.profile.image?.accepts.includes("dataUrl") ?? false;
}

/**
 * The model of an answer.
 * @param asked - By the client; else the configured one, else the first that chats.
 * @throws ApiError 404 for an unknown one, 409 when there is none.
 */
export function answerModel(
  catalogue: Catalogue,
  asked: string | undefined,
  configured: string | undefined,
  hasImage: boolean,
): ServedTextModel {
  const id = asked ?? configured;
  if (id !== undefined) {
    const served = catalogue.textModel(id);
    if (canAsk(served)) return served;
    throw invalidRequest(
      `${id} has no chat template and takes no images, and so it answers no questions; choose another model.`,
      "model",
      "unsupported_model",
    );
  }
  const served = catalogue.textModels.find((one) => canAsk(one) && (hasImage || !needsImage(one)));
  if (served) return served;
  throw missing(
    "An answer needs a language model that chats, and this stack has none; add one, such as `- { name: smollm2, model: smollm2-135m-instruct }` under engine-room:models.",
    "no_language_model",
  );
}

/** The model that describes images. @throws ApiError 409 when there is none. */
export function describingModel(catalogue: Catalogue): ServedTextModel {
  const served = catalogue.textModels.find(takesImages);
  if (served) return served;
  throw missing(
    "via: describe needs a vision-language model, and this stack has none; add one, such as `- { name: llava, model: llava-1.5-7b }` under engine-room:models, or ask via: vectors.",
    "no_vision_language_model",
  );
}

function canAsk(served: ServedTextModel): boolean {
  return served.chatTemplate !== undefined || takesImages(served);
}

function needsImage({ config }: ServedTextModel): boolean {
  return config.profile.image?.isRequired ?? false;
}

/** A question as a greedy generation, so that the same question has the same answer. */
export function greedyQuestion(
  { config, chatTemplate }: ServedTextModel,
  question: string,
  images: readonly Uint8Array[],
  maxTokens: number,
): GenerateRequest {
  const { profile } = config;
  const mark = profile.image?.mark ?? "";
  const marks = images.map(() => `${mark}\n`).join("");
  const text =
    chatTemplate === undefined
      ? wrapQuestion(profile, question, images.length)
      : chatTemplate.render([{ role: "user", content: `${mark === "" ? "" : marks}${question}` }]);
  return { text, images, maxTokens, temperature: 0 };
}

function missing(message: string, code: string): ApiError {
  return new ApiError(message, { status: 409, type: "invalid_request_error", code });
}
