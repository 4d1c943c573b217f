/** What can be asked of a model, whatever its repository calls its inputs. */

/** Pixels as a tensor: one image, or the frames of a video. */
export interface PixelTensor {
  /** `UINT8`: raw pixels, 0 to 255. `FP16`: what the model's own Hugging Face processor made of them. */
  readonly datatype: "UINT8" | "FP16";
  /** Of an image: height, width, channels (or channels first). Of a video: the same behind the number of frames. */
  readonly shape: readonly number[];
  /** Row-major, little-endian. */
  readonly data: Uint8Array;
}

/**
 * An image: an http(s) URL that the server fetches, a base64 data URL or the bytes of a JPEG, PNG or WebP file, or its
 * pixels.
 */
export type ImageInput = string | Uint8Array | PixelTensor;

/** One request. What is absent keeps the model's own default. */
export interface GenerationRequest {
  /** Comes back in the answer. */
  readonly id?: string | undefined;
  /** The whole prompt, with an image mark for each image where the model wants marks. */
  readonly text: string;
  readonly images?: readonly ImageInput[] | undefined;
  /** Frames of one video, instead of images. */
  readonly videoFrames?: PixelTensor | undefined;
  readonly maxTokens: number;
  readonly minTokens?: number | undefined;
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
  /** 1 for none. */
  readonly repetitionPenalty?: number | undefined;
  readonly stopWords?: readonly string[] | undefined;
  readonly badWords?: readonly string[] | undefined;
  /** Default false: one answer. */
  readonly stream?: boolean | undefined;
  readonly beamWidth?: number | undefined;
  /**
   * Id of the images' content for the KV cache, 1 to 2^53 - 1. Absent: made from the content, which only is known of data
   * URLs, bytes and pixels.
   */
  readonly promptTableExtraId?: number | undefined;
  /** Asks for the numbers of tokens, where the model gives them on request. */
  readonly countTokens?: boolean | undefined;
}

/** A POST to Triton's HTTP port, ready to be sent. */
export interface TritonRequest {
  /** Below the server's address: `/v2/models/ensemble/generate`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Fields of a generate request by Triton's names. Lists are tensors of one dimension. */
export type Fields = Readonly<Record<string, FieldValue | readonly FieldValue[]>>;
export type FieldValue = string | number | boolean;
