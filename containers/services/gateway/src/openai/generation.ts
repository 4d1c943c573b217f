/** From a request of the OpenAI API to what a model is asked to generate, with the checks that need the model. */
import type { ModelConfig } from "../config.ts";
import { invalidRequest } from "../errors.ts";
import type { ChatTurn } from "../text/chat-template.ts";
import type { GenerateRequest } from "../triton/generate.ts";
import type { ChatCompletionRequest, ChatMessage, CompletionRequest } from "./schemas.ts";

/** Default of /v1/completions in OpenAI's API. */
const COMPLETION_DEFAULT_TOKENS = 16;

/**
 * Fewest bytes that a token of ordinary text stands for on average, over languages and code. It decides only the default
 * answer length, where guessing too many prompt tokens costs little and too few makes TensorRT-LLM refuse the request.
 */
const LEAST_BYTES_PER_TOKEN = 2;

/** A chat request for its model. @throws ApiError 400 with numbers when it asks for too many tokens. */
export function chatGeneration(
  request: ChatCompletionRequest,
  prompt: string,
  model: ModelConfig,
): GenerateRequest {
  const asked = request.max_completion_tokens ?? request.max_tokens;
  const param = request.max_completion_tokens == null ? "max_tokens" : "max_completion_tokens";
  return {
    ...samplingOf(request),
    prompt,
    maxTokens: checkedMaxTokens(asked ?? defaultMaxTokens(prompt, model), param, model),
  };
}

/** A completion request for its model, one for each prompt. @throws ApiError 400, as above. */
export function completionGenerations(request: CompletionRequest, model: ModelConfig): GenerateRequest[] {
  const maxTokens = checkedMaxTokens(
    request.max_tokens ?? Math.min(COMPLETION_DEFAULT_TOKENS, model.maxTokens),
    "max_tokens",
    model,
  );
  const prompts = typeof request.prompt === "string" ? [request.prompt] : request.prompt;
  return prompts.map((prompt) => ({ ...samplingOf(request), prompt, maxTokens }));
}

/** What the context has room for after the prompt, between 1 and the model's limit. */
export function defaultMaxTokens(prompt: string, { contextTokens, maxTokens }: ModelConfig): number {
  const promptTokens = Math.ceil(Buffer.byteLength(prompt) / LEAST_BYTES_PER_TOKEN);
  return Math.max(1, Math.min(maxTokens, contextTokens - promptTokens));
}

function checkedMaxTokens(asked: number, param: string, { name, maxTokens }: ModelConfig): number {
  if (asked <= maxTokens) return asked;
  throw invalidRequest(
    `${param} is ${asked}, and ${name} generates ${maxTokens} tokens at most; ask for ${maxTokens} or fewer.`,
    param,
    "max_tokens_too_large",
  );
}

function samplingOf(
  request: ChatCompletionRequest | CompletionRequest,
): Omit<GenerateRequest, "prompt" | "maxTokens"> {
  return {
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    topK: request.top_k ?? 0,
    seed: request.seed ?? undefined,
    frequencyPenalty: request.frequency_penalty ?? 0,
    presencePenalty: request.presence_penalty ?? 0,
    stopWords: typeof request.stop === "string" ? [request.stop] : (request.stop ?? []),
  };
}

/** Messages as a chat template takes them: text only. @throws ApiError 400 for parts that are not text. */
export function chatTurns(messages: readonly ChatMessage[], model: string): ChatTurn[] {
  return messages.map((message, index) => ({
    // "developer" is the newer name of "system"; templates know the older one.
    role: message.role === "developer" ? "system" : message.role,
    content: textOf(message.content, index, model),
    ...(message.name === undefined ? {} : { name: message.name }),
  }));
}

function textOf(content: ChatMessage["content"], messageIndex: number, model: string): string {
  if (typeof content === "string") return content;
  return content
    .map((part, partIndex) => {
      if (part.type === "text" && typeof part.text === "string") return part.text;
      throw invalidRequest(
        `${model} reads text only, and this part is of type ${part.type}; send text, or choose a model that takes it.`,
        `messages[${messageIndex}].content[${partIndex}]`,
        "unsupported_content",
      );
    })
    .join("");
}
