/** What can be wrong with a request before it is sent, and with an answer after it came. */

/** Short names for programs; the message is for people. */
export type RequestErrorCode =
  | "images_not_supported"
  | "image_missing"
  | "too_many_images"
  | "unsupported_image"
  | "invalid_image"
  | "image_marks_mismatch"
  | "prompt_table_extra_id_missing"
  | "unsupported_option"
  | "invalid_request"
  | "incomplete_profile";

/** The request can't be put to this model. The message names the value, the reason and the fix. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code: RequestErrorCode;
  /** The field of the request that is wrong, such as `images` or `topP`. */
  readonly field: string;

  constructor(code: RequestErrorCode, field: string, message: string) {
    super(message);
    this.code = code;
    this.field = field;
  }
}

/** Triton answered with an error: in a body, or in the middle of a stream whose status was 200. The message is Triton's. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
}
