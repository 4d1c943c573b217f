/** Every way in which an image can be refused. */
import { ApiError, type ErrorType } from "../errors.ts";

/** The HTTP status of each code. */
const STATUS = {
  invalid_image_url: 400,
  invalid_data_url: 400,
  empty_image: 400,
  image_host_not_allowed: 400,
  image_address_not_public: 400,
  image_too_large: 413,
  image_too_many_pixels: 413,
  unsupported_image_type: 415,
  image_type_mismatch: 415,
  image_animated: 422,
  image_unreadable: 422,
  image_decode_timeout: 422,
  image_fetch_failed: 502,
  image_redirect_refused: 502,
  image_fetch_timeout: 504,
} as const;

type ImageErrorCode = keyof typeof STATUS;
type ImageErrorStatus = (typeof STATUS)[ImageErrorCode];

/** An image that is not taken. The message is meant for the client; what may hold more than that is the `cause`. */
export class ImageError extends Error {
  override readonly name = "ImageError";
  readonly code: ImageErrorCode;
  readonly status: ImageErrorStatus;

  constructor(code: ImageErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
    this.status = STATUS[code];
  }

  /** The same refusal as an answer of the gateway; `param` says where in the request the image was. */
  toApiError(param: string): ApiError {
    return new ApiError(this.message, {
      status: this.status,
      type: ERROR_TYPES[this.status],
      code: this.code,
      param,
      cause: this.cause,
    });
  }
}

const ERROR_TYPES: Readonly<Record<ImageErrorStatus, ErrorType>> = {
  400: "invalid_request_error",
  413: "invalid_request_error",
  415: "invalid_request_error",
  422: "invalid_request_error",
  502: "upstream_error",
  504: "timeout_error",
};
