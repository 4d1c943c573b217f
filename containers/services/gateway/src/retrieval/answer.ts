/** Answers from documents: what is found, put before a language model. */
import type { CallContext } from "../call-context.ts";
import type { Catalogue, ServedTextModel } from "../catalogue.ts";
import type { GatewayConfig } from "../config.ts";
import { ApiError, invalidRequest } from "../errors.ts";
import { checkedMaxTokens } from "../openai/generation.ts";
import type { GenerateRequest } from "../triton/generate.ts";
import type { FilterInput } from "./filter.ts";
import { groundedPrompt, hasText } from "./grounding.ts";
import { answerModel, describingModel, greedyQuestion, takesImages } from "./language-models.ts";
import type { Matcher } from "./match.ts";
import type { AnswerHead, Match } from "./schemas.ts";

/** Length of an answer that does not say how long it may be, in tokens; a model may allow less. */
const DEFAULT_ANSWER_TOKENS = 200;
const DESCRIPTION_TOKENS = 96;
const DESCRIPTION_QUESTION = "Describe this image in one sentence.";

interface Question {
  readonly question: string;
  /** JPEG. */
  readonly image?: Uint8Array | undefined;
  readonly topK: number;
  readonly filter?: FilterInput | undefined;
  readonly maxTokens?: number | undefined;
}

/** Which model answers, and what it was given. */
export interface GroundedQuestion {
  readonly head: AnswerHead;
  readonly served: ServedTextModel;
  /** undefined when there is nothing to answer from; the note says so. */
  readonly generation: GenerateRequest | undefined;
}

/**
 * The model of an answer. It is chosen before anything is looked for, so that a wrong one costs nothing.
 * @throws ApiError as {@link answerModel}.
 */
export function chooseModel(
  catalogue: Catalogue,
  { retrieval }: GatewayConfig,
  asked: string | undefined,
  hasImage: boolean,
): ServedTextModel {
  return answerModel(catalogue, asked, retrieval.answerModel, hasImage);
}

/** Looks for documents and puts the question to a model with them. @throws ApiError */
export async function groundQuestion(
  matcher: Matcher,
  served: ServedTextModel,
  contextDocuments: number,
  { question, image, topK, filter, maxTokens }: Question,
  call: CallContext,
): Promise<GroundedQuestion> {
  const { config } = served;
  const answerTokens = checkedMaxTokens(maxTokens ?? defaultAnswerTokens(served), "maxTokens", config);
  const imageUsed = image !== undefined && takesImages(served);
  const { matches } = await matcher.match({ text: question, image, topK, filter }, call);
  const { prompt, used } = groundedPrompt({
    question,
    matches,
    hasImage: image !== undefined,
    most: contextDocuments,
    promptTokens:
      config.contextTokens - answerTokens - (imageUsed ? (config.profile.image?.tokensPerImage ?? 0) : 0),
  });
  if (used.length === 0 && matches.some(hasText)) {
    throw invalidRequest(
      `The question and an answer of ${answerTokens} tokens leave no room for a document in the ${config.contextTokens} tokens of ${config.name}'s context; ask for fewer tokens, or write a shorter question.`,
      maxTokens === undefined ? "question" : "maxTokens",
      "no_room",
    );
  }
  const note = noteOf(config.name, image !== undefined && !imageUsed, used.length);
  return {
    head: {
      sources: used.map(sourceOf),
      model: config.name,
      imageUsed,
      ...(note !== undefined && { note }),
    },
    served,
    generation:
      used.length === 0 && !imageUsed
        ? undefined
        : greedyQuestion(served, prompt, imageUsed ? [image] : [], answerTokens),
  };
}

/** What a vision-language model says of an image. @throws ApiError 409 when there is none. */
export async function describeImage(
  catalogue: Catalogue,
  image: Uint8Array,
  call: CallContext,
): Promise<string> {
  const served = describingModel(catalogue);
  const maxTokens = Math.min(DESCRIPTION_TOKENS, served.config.maxTokens);
  const { text } = await served.model.complete(
    greedyQuestion(served, DESCRIPTION_QUESTION, [image], maxTokens),
    call,
  );
  const description = text.trim();
  if (description !== "") return description;
  throw new ApiError(`${served.config.name} said nothing of the image; ask via: vectors.`, {
    status: 502,
    type: "upstream_error",
    code: "no_description",
  });
}

function defaultAnswerTokens({ config }: ServedTextModel): number {
  return Math.max(1, Math.min(DEFAULT_ANSWER_TOKENS, config.maxTokens, Math.floor(config.contextTokens / 4)));
}

function noteOf(model: string, isImageUnseen: boolean, sources: number): string | undefined {
  const notes = [
    ...(isImageUnseen
      ? [`${model} takes no images: the image was used to find documents, and it has not seen it.`]
      : []),
    ...(sources === 0 ? ["No document with a text was found."] : []),
  ];
  return notes.length === 0 ? undefined : notes.join(" ");
}

function sourceOf({ id, text, score, image }: Match): AnswerHead["sources"][number] {
  return { id, text: text ?? "", score, image };
}
