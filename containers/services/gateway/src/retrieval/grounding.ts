/** Prompts that a language model answers from documents. */
import { LEAST_BYTES_PER_TOKEN } from "../openai/generation.ts";
import type { Match } from "./schemas.ts";

/** Tokens of chat templates and of the words around the documents, roughly. */
const FRAME_TOKENS = 64;

interface GroundingRequest {
  readonly question: string;
  /** Best first. */
  readonly matches: readonly Match[];
  /** Whether the question is about an image. */
  readonly hasImage: boolean;
  /** Documents at most. */
  readonly most: number;
  /** Tokens that the prompt may take. */
  readonly promptTokens: number;
}

interface GroundedPrompt {
  readonly prompt: string;
  /** Documents in the prompt, best first; empty where nothing that was found has a text, or there is no room for any. */
  readonly used: readonly Match[];
}

/**
 * A prompt short enough for small models. Documents are taken in their order, without those that are too long for what
 * is left; the first one is cut where it is too long alone. Tokens are counted so that any language fits.
 */
export function groundedPrompt(request: GroundingRequest): GroundedPrompt {
  const { question, hasImage, promptTokens, most } = request;
  const candidates = (hasImage ? likestFirst(request.matches) : request.matches).filter(hasText);
  let bytes = (promptTokens - FRAME_TOKENS) * LEAST_BYTES_PER_TOKEN - Buffer.byteLength(question);
  const texts = new Map<Match, string>();
  for (const match of candidates) {
    if (texts.size === most) break;
    const text = texts.size === 0 ? cut(oneLine(match.text), bytes) : oneLine(match.text);
    if (text === "" || Buffer.byteLength(text) > bytes) continue;
    texts.set(match, text);
    bytes -= Buffer.byteLength(text);
  }
  const [first, ...others] = texts.values();
  const [shown] = texts.keys();
  const write = hasImage && shown?.scores.image !== undefined ? aboutPicture : aboutDocuments;
  return {
    prompt: first === undefined ? question : write(question, first, others),
    used: request.matches.filter((match) => texts.has(match)),
  };
}

/** The document that looks most like the image of the question stands for it. */
function likestFirst(matches: readonly Match[]): readonly Match[] {
  const likest = matches
    .filter(hasText)
    .reduce<Match | undefined>(
      (best, match) =>
        (match.scores.image?.rank ?? Number.POSITIVE_INFINITY) <
        (best?.scores.image?.rank ?? Number.POSITIVE_INFINITY)
          ? match
          : best,
      undefined,
    );
  return likest === undefined ? matches : [likest, ...matches.filter((match) => match !== likest)];
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

export function hasText(match: Match): match is Match & { readonly text: string } {
  return match.text !== null;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** The whole words that fit. */
function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const start = Buffer.from(text).subarray(0, Math.max(0, bytes)).toString("utf8");
  return start.replace(/\uFFFD+$/, "").replace(/\s+\S*$/, "");
}
