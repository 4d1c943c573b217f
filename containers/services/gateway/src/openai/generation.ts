/** Turns a request of the OpenAI API into a model's, with the checks that need the model. */
import { randomInt } from "node:crypto";
import { Template } from "@huggingface/jinja";
import type { ModelConfig } from "../config.ts";
import { invalidRequest } from "../errors.ts";
import { imageErrorAt } from "../images/limits.ts";
import { type ImageContext, readImageFile } from "../images/source.ts";
import type { CallContext } from "../limits.ts";
import type { GenerateRequest } from "../triton/generate.ts";
import type { ChatCompletionRequest, ChatMessage, CompletionRequest } from "./schemas.ts";

/** Default of /v1/completions in OpenAI's API. */
const COMPLETION_DEFAULT_TOKENS = 16;

/**
 * Fewest bytes that a token of ordinary text stands for on average, over languages and code. It decides only the default
 * answer length, where guessing too many prompt tokens costs little and too few makes TensorRT-LLM refuse the request.
 */
export const LEAST_BYTES_PER_TOKEN = 2;

/** A message whose content is text already. */
interface ChatTurn {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
}

/** TensorRT-LLM's tokenizer adds the tokens themselves. */
const SPECIAL_TOKENS = { bos_token: "", eos_token: "" };

/** Renders a chat's messages as a prompt in the form that its model was trained on. */
export class ChatTemplate {
  readonly #template: Template;

  /** @throws Error for an invalid template; the configuration's check runs the same parser first. */
  constructor(source: string) {
    this.#template = new Template(source);
  }

  /**
   * The prompt, ending where the assistant begins to speak.
   * @throws ApiError 400 when the template refuses the messages, as many do for roles that do not alternate.
   */
  render(messages: readonly ChatTurn[]): string {
    try {
      return this.#template.render({ ...SPECIAL_TOKENS, messages, add_generation_prompt: true });
    } catch (error) {
      throw invalidRequest(
        `The model's chat template rejects these messages: ${(error as Error).message}`,
        "messages",
        "invalid_messages",
      );
    }
  }
}

/** An image of a chat: a data URL, or an address of a host in `gateway.imageHosts`; and its place in the request. */
interface ChatImage {
  readonly url: string;
  readonly param: string;
}

/**
 * The files of a chat's images, each decoded once: what is damaged or too large asks no model, and ends the other fetches.
 * @throws ApiError as for the images of documents.
 */
export function readChatImages(
  images: readonly ChatImage[],
  context: ImageContext,
  { signal, hold }: CallContext,
): Promise<readonly Uint8Array[]> {
  const others = new AbortController();
  const ends = AbortSignal.any([signal, others.signal]);
  return Promise.all(
    images.map(async ({ url, param }) => {
      try {
        const { file } = await readImageFile(url, context, ends);
        hold?.(file.byteLength);
        return file;
      } catch (error) {
        others.abort(error);
        throw imageErrorAt(error, param);
      }
    }),
  );
}

/** A chat request for its model. @throws ApiError 400 with numbers when it asks for too many tokens. */
export function chatGeneration(
  request: ChatCompletionRequest,
  prompt: string,
  images: readonly Uint8Array[],
  model: ModelConfig,
  video?: string,
): GenerateRequest {
  const asked = request.max_completion_tokens ?? request.max_tokens;
  const param = request.max_completion_tokens == null ? "max_tokens" : "max_completion_tokens";
  return {
    ...samplingOf(request),
    text: prompt,
    images,
    video,
    maxTokens: checkedMaxTokens(asked ?? defaultMaxTokens(prompt, images.length, model, video), param, model),
  };
}

/** A completion request for its model, one for each prompt. @throws ApiError 400, as above. */
export function completionGenerations(request: CompletionRequest, model: ModelConfig): GenerateRequest[] {
  const asked = request.max_tokens ?? Math.min(COMPLETION_DEFAULT_TOKENS, model.maxTokens);
  const maxTokens = checkedMaxTokens(asked, "max_tokens", model);
  return [request.prompt].flat().map((text) => ({ ...samplingOf(request), text, maxTokens }));
}

/** Room of the context after the prompt and its images or frames, between 1 and the model's limit. */
export function defaultMaxTokens(
  prompt: string,
  imageCount: number,
  { contextTokens, maxTokens, profile: { image } }: ModelConfig,
  video?: string,
): number {
  const textTokens = Math.ceil(Buffer.byteLength(prompt) / LEAST_BYTES_PER_TOKEN);
  const frames = video === undefined ? 0 : video.split(",").length - 1;
  const promptTokens =
    textTokens + imageCount * (image?.tokensPerImage ?? 0) + frames * (image?.video?.tokensPerFrame ?? 0);
  return Math.max(1, Math.min(maxTokens, contextTokens - promptTokens));
}

/** @throws ApiError 400 with both numbers above the model's limit. */
export function checkedMaxTokens(asked: number, param: string, { name, maxTokens }: ModelConfig): number {
  if (asked <= maxTokens) return asked;
  throw invalidRequest(
    `${param} is ${asked}, and the maximum output tokens of ${name} are ${maxTokens}; ask for ${maxTokens} or fewer.`,
    param,
    "max_tokens_too_large",
  );
}

function samplingOf(request: ChatCompletionRequest | CompletionRequest) {
  return {
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    topK: request.top_k ?? 0,
    // TensorRT-LLM's own default is a fixed seed, with which every answer to a prompt would be the same.
    seed: request.seed ?? randomInt(2 ** 32),
    frequencyPenalty: request.frequency_penalty ?? 0,
    presencePenalty: request.presence_penalty ?? 0,
    stopWords: [request.stop ?? []].flat(),
  };
}

/**
 * A chat's messages as a chat template takes them, and the images whose places are marked in them, by their places in the request;
 * whether the model takes these, {@link TextModel.checkImages} says.
 */
export function readChat(messages: readonly ChatMessage[], model: ModelConfig) {
  const images: ChatImage[] = [];
  const videos: string[] = [];
  const mark = model.profile.image?.mark ?? "";
  const textOf = (content: ChatMessage["content"], param: string): string => {
    if (typeof content === "string") return content;
    return content.reduce((text, part, index) => {
      if (part.type === "text") return text + part.text;
      if (part.type === "video_url") {
        videos.push(part.video_url.url);
        return text;
      }
      images.push({ url: part.image_url.url, param: `${param}[${index}]` });
      // Marks side by side would be read as one.
      return text + (mark !== "" && text.endsWith(mark) ? "\n" : "") + mark;
    }, "");
  };
  const turns = messages.map(({ role, content, name }, index): ChatTurn => {
    return {
      // "developer" is the newer name of "system"; templates know the older one.
      role: role === "developer" ? "system" : role,
      content: textOf(content, `messages[${index}].content`),
      ...(name !== undefined && { name }),
    };
  });
  if (videos.length > 1) {
    throw invalidRequest(
      `The messages have ${videos.length} videos, and a request has one at most; leave out those of earlier turns.`,
      "messages",
      "unsupported_content",
    );
  }
  return { turns, images, video: videos[0] };
}
