/** All kinds of model repository, and what a request must not ask of each. */
import { RequestError } from "../errors.ts";
import type { RequestFlavour, RequestProfile } from "../profile.ts";
import type { GenerationRequest } from "../request.ts";
import { gpt } from "./gpt.ts";
import { inflightBatcherLlm } from "./inflight-batcher-llm.ts";
import { llava } from "./llava.ts";
import { llmapi } from "./llmapi.ts";
import { multimodal } from "./multimodal.ts";
import { tritonCli } from "./triton-cli.ts";
import type { Flavour, Option } from "./types.ts";

export const FLAVOURS: Readonly<Record<RequestFlavour, Flavour>> = {
  inflight_batcher_llm: inflightBatcherLlm,
  multimodal,
  llava,
  gpt,
  tritonCli,
  llmapi,
};

/** Whether the server itself ends an answer at stop words; where it does not, the caller cuts the text. */
export function takesStopWords({ flavour }: RequestProfile): boolean {
  return !FLAVOURS[flavour].missingOptions.includes("stopWords");
}

/** @throws RequestError `unsupported_option` for the first option that would change the answer and has no input. */
export function refuseMissingOptions({ flavour }: RequestProfile, request: GenerationRequest): void {
  const refused = FLAVOURS[flavour].missingOptions.find((option) => !asksForNothing(option, request));
  if (refused === undefined) return;
  throw new RequestError(
    "unsupported_option",
    refused,
    `${refused} is ${JSON.stringify(request[refused])}, and this model (${flavour} repository) has no input for it; leave it out.`,
  );
}

function asksForNothing(option: Option, request: GenerationRequest): boolean {
  const value = request[option];
  if (value === undefined) return true;
  if (typeof value === "object") return value.length === 0;
  // With temperature 0 the most probable token is taken, whatever top_p is.
  return value === NEUTRAL[option] || (option === "topP" && request.temperature === 0);
}

const NEUTRAL: Readonly<Partial<Record<Option, number>>> = {
  minTokens: 0,
  topP: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  beamWidth: 1,
};
