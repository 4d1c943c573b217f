/** Requests to a model, independent of its repository's names of inputs, and their errors. */

/** An image: an http(s) URL that the server fetches, a base64 data URL, or the bytes of a JPEG, PNG or WebP file. */
export type ImageInput = string | Uint8Array;

/** A request. Absent fields keep the model's own defaults. */
export interface GenerationRequest {
  /** The whole prompt, with a mark for each image if the model requires marks. */
  readonly text: string;
  readonly images?: readonly ImageInput[] | undefined;
  /** In place of images: the frames of a video, in their order, as JPEG files of one size: `data:video/jpeg;base64,FRAME,FRAME,…`. */
  readonly video?: string | undefined;
  readonly maxTokens: number;
  /** 0 for the most probable token each time; `topP` and `topK` then mean nothing. */
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  /** 0 for no limit. */
  readonly topK?: number | undefined;
  readonly seed?: number | undefined;
  /** 0 for none. */
  readonly frequencyPenalty?: number | undefined;
  /** 0 for none. */
  readonly presencePenalty?: number | undefined;
  /** 1 for no beam search. The engine's own limit is not known here. */
  readonly beamWidth?: number | undefined;
  readonly stopWords?: readonly string[] | undefined;
  /** Default false: one answer. */
  readonly stream?: boolean | undefined;
  /** Asks for the numbers of tokens, if the model gives them on request. */
  readonly countTokens?: boolean | undefined;
}

/** How the next token is chosen. */
export type Sampling = Pick<
  GenerationRequest,
  "temperature" | "topP" | "topK" | "seed" | "frequencyPenalty" | "presencePenalty" | "beamWidth"
>;

/** A POST to Triton's HTTP port, ready to be sent. */
export interface TritonRequest {
  /** Below the server's address: `/v2/models/ensemble/generate`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Fields of a generate request by Triton's names. Lists are tensors of one dimension. */
export type Fields = Readonly<Record<string, string | number | boolean | readonly string[]>>;

/** The request can't be put to this model. The message names the value, the reason and the fix. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  /** Short name for programs, such as `too_many_images`. */
  readonly code: string;
  /** The field of the request that is wrong, such as `images` or `topP`. */
  readonly field: string;

  constructor(code: string, field: string, message: string) {
    super(message);
    this.code = code;
    this.field = field;
  }
}

/** Triton answered with an error: in a body, or in the middle of a stream whose status was 200. The message is Triton's. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
}
