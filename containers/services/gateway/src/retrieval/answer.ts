/** Answers from documents: chooses the language model, and puts matches into a prompt that small models follow. */
import { wrapQuestion } from "@engine-room/triton-requests";

import type { Catalogue, ServedTextModel } from "../catalogue.ts";
import { ApiError, invalidRequest } from "../errors.ts";
import type { CallContext } from "../limits.ts";
import { checkedMaxTokens, LEAST_BYTES_PER_TOKEN } from "../openai/generation.ts";
import type { GenerateRequest } from "../triton/generate.ts";
import { findMatches, type MatchQuery } from "./match.ts";
import type { Retrieval } from "./retrieval.ts";
import type { AnswerHead, Match } from "./schemas.ts";

/** Default tokens of an answer; a model may allow less. */
const DEFAULT_ANSWER_TOKENS = 200;
/** Maximum documents in a prompt. */
const CONTEXT_DOCUMENTS = 3;
const DESCRIPTION_TOKENS = 96;
const DESCRIPTION_QUESTION = "Describe this image in one sentence.";
/** Tokens of chat templates and of the words around the documents, roughly. */
const FRAME_TOKENS = 64;

interface Question extends MatchQuery {
  readonly text: string;
  readonly maxTokens?: number | undefined;
}

/** The request to a model, and the part of the answer that comes before it. */
export interface GroundedQuestion {
  readonly head: AnswerHead;
  /** undefined without documents to answer from; the note says so. */
  readonly generation: GenerateRequest | undefined;
}

/** Looks for documents and puts the question to a model with them. @throws ApiError */
export async function groundQuestion(
  retrieval: Retrieval,
  served: ServedTextModel,
  question: Question,
  call: CallContext,
): Promise<GroundedQuestion> {
  const { config } = served;
  const { image, maxTokens } = question;
  const byDefault = Math.min(DEFAULT_ANSWER_TOKENS, config.maxTokens, Math.floor(config.contextTokens / 4));
  const answerTokens = checkedMaxTokens(maxTokens ?? Math.max(1, byDefault), "maxTokens", config);
  const imageUsed = image !== undefined && takesImages(served);
  const imageTokens = imageUsed ? (config.profile.image?.tokensPerImage ?? 0) : 0;
  const { matches } = await findMatches(retrieval, question, call);
  const { prompt, used } = groundedPrompt(
    question,
    matches,
    config.contextTokens - answerTokens - imageTokens,
  );
  // The sources are in the prompt, and once more in the answer.
  call.hold?.(2 * prompt.length);
  if (used.length === 0 && matches.some(hasText)) {
    throw invalidRequest(
      `The question and an answer of ${answerTokens} tokens leave no room for a document in the context of ${config.name}, which is ${config.contextTokens} tokens; ask for fewer tokens, or write a shorter question.`,
      maxTokens === undefined ? "question" : "maxTokens",
      "no_room",
    );
  }
  const notes = [
    image !== undefined && !imageUsed
      ? `${config.name} cannot see the image; it was used to find documents only.`
      : "",
    used.length === 0 ? "No document with a text was found." : "",
  ].filter((note) => note !== "");
  return {
    head: {
      sources: used.map(({ id, text: words, score, image: path }) => ({
        id,
        text: words,
        score,
        image: path,
      })),
      model: config.name,
      imageUsed,
      ...(notes.length > 0 && { note: notes.join(" ") }),
    },
    generation:
      used.length === 0 && !imageUsed
        ? undefined
        : greedyQuestion(served, prompt, imageUsed ? [image] : [], answerTokens),
  };
}

/** A vision-language model's description of an image. @throws ApiError 409 without such a model. */
export async function describeImage(
  catalogue: Catalogue,
  image: Uint8Array,
  call: CallContext,
): Promise<string> {
  const served = describingModel(catalogue);
  const maxTokens = Math.min(DESCRIPTION_TOKENS, served.config.maxTokens);
  const request = greedyQuestion(served, DESCRIPTION_QUESTION, [image], maxTokens);
  const { text } = await served.model.complete(request, call);
  const description = text.trim();
  if (description !== "") return description;
  throw new ApiError(`${served.config.name} returned no description of the image; use via: vectors.`, {
    status: 502,
    code: "no_description",
  });
}

type MatchWithText = Match & { readonly text: string };

function hasText(match: Match): match is MatchWithText {
  return match.text !== null;
}

/**
 * A prompt short enough for small models. Documents are added in their order, and skipped when too long for the rest of
 * the room; only the first is truncated. Tokens are counted so that any language fits.
 *
 * @param matches - Best first.
 * @returns The prompt, and the documents in it, best first; no documents when no match has a text, or none fits.
 */
function groundedPrompt(
  { text: question, image }: Question,
  matches: readonly Match[],
  promptTokens: number,
): { readonly prompt: string; readonly used: readonly MatchWithText[] } {
  const candidates = matches.filter(hasText);
  const inOrder = image === undefined ? candidates : likestFirst(candidates);
  let bytes = (promptTokens - FRAME_TOKENS) * LEAST_BYTES_PER_TOKEN - Buffer.byteLength(question);
  const texts = new Map<Match, string>();
  for (const match of inOrder) {
    if (texts.size === CONTEXT_DOCUMENTS) break;
    const line = match.text.replace(/\s+/g, " ").trim();
    const text = texts.size === 0 ? cut(line, bytes) : line;
    if (text === "" || Buffer.byteLength(text) > bytes) continue;
    texts.set(match, text);
    bytes -= Buffer.byteLength(text);
  }
  const [first, ...others] = texts.values();
  const [shown] = texts.keys();
  const write = image !== undefined && shown?.scores.image !== undefined ? aboutPicture : aboutDocuments;
  return {
    prompt: first === undefined ? question : write(question, first, others),
    used: candidates.filter((match) => texts.has(match)),
  };
}

/** The document most similar to the question's image represents it. */
function likestFirst(matches: readonly MatchWithText[]): readonly MatchWithText[] {
  const rankOf = ({ scores }: Match) => scores.image?.rank ?? Number.POSITIVE_INFINITY;
  const best = Math.min(...matches.map(rankOf));
  const likest = Number.isFinite(best) ? matches.filter((match) => rankOf(match) === best) : [];
  return [...likest, ...matches.filter((match) => !likest.includes(match))];
}

/** The wording that models of 135 million weights follow: what the answer hangs on stands next to the question. */
function aboutPicture(question: string, first: string, others: readonly string[]): string {
  const context = others.length === 0 ? "" : `Other pictures show:\n${list(others)}\n\n`;
  return `${context}The picture shows: ${first}\n\nQuestion: ${question}\nAnswer in one sentence.`;
}

function aboutDocuments(question: string, first: string, others: readonly string[]): string {
  return `Context:\n${list([...others.toReversed(), first])}\n\nQuestion: ${question}\nAnswer in one sentence from the context.`;
}

function list(texts: readonly string[]): string {
  return texts.map((text) => `- ${text}`).join("\n");
}

/** The whole words that fit. */
function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const start = Buffer.from(text).subarray(0, Math.max(0, bytes)).toString("utf8");
  return start.replace(/\uFFFD+$/, "").replace(/\s+\S*$/, "");
}

/** Whether a model can be shown an image that the gateway has as a file. */
export function takesImages({ config }: ServedTextModel): boolean {
  return config.profile.image?.takesFiles ?? false;
}

/**
 * The model of an answer.
 * @param id - The client's choice; undefined for the first model that chats.
 * @throws ApiError 404 for an unknown model, 409 without a chat model.
 */
export function answerModel(
  catalogue: Catalogue,
  id: string | undefined,
  hasImage: boolean,
): ServedTextModel {
  if (id !== undefined) {
    const served = catalogue.textModel(id);
    if (canAsk(served)) return served;
    throw invalidRequest(
      `${id} cannot answer questions: it has no chat template and does not accept images; choose another model.`,
      "model",
      "unsupported_model",
    );
  }
  const served = catalogue.textModels.find((one) => canAsk(one) && (hasImage || !needsImage(one)));
  if (served) return served;
  throw missing(
    "An answer needs a chat model, and none is configured; add one, such as `- { name: smollm2, model: smollm2-135m-instruct }` under engine-room:models.",
    "no_language_model",
  );
}

/** The model that describes images. @throws ApiError 409 without one. */
export function describingModel(catalogue: Catalogue): ServedTextModel {
  const served = catalogue.textModels.find(takesImages);
  if (served) return served;
  throw missing(
    "via: describe needs a vision-language model, and none is configured; add one, such as `- { name: llava, model: llava-1.5-7b }` under engine-room:models, or use via: vectors.",
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
function greedyQuestion(
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
  return new ApiError(message, { status: 409, code });
}
