/** What the kinds of model repository have in common. */
import type { SentImage } from "../images.ts";
import type { RequestProfile } from "../profile.ts";
import type { Fields, GenerationRequest } from "../request.ts";

/** Options that not every model has an input for. */
export type Option =
  | "minTokens"
  | "topP"
  | "frequencyPenalty"
  | "presencePenalty"
  | "repetitionPenalty"
  | "stopWords"
  | "badWords"
  | "beamWidth";

export interface Flavour {
  /** Options without an input: a request that gives one is refused, unless its value asks for nothing. */
  readonly missingOptions: readonly Option[];
  /** Output that holds the answer. */
  readonly textOutput: "text_output" | "text";
  /**
   * Inputs of a checked request, without those of tensors of more than one dimension.
   * @throws RequestError for what only this kind refuses.
   */
  fields(profile: RequestProfile, request: GenerationRequest, images: readonly SentImage[]): Fields;
}
