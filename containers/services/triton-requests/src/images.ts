/** Images of a request: their checks, the form in which they are sent, their id, and their marks in the prompt. */
import { createHash } from "node:crypto";
import { type ImageProfile, type RequestProfile, SPLIT_MARK } from "./profile.ts";
import { type GenerationRequest, type ImageInput, RequestError } from "./request.ts";

/**
 * How every file's base64 text is sent. Triton's preprocessing decodes only what begins with exactly this, and fetches everything
 * else; Pillow then tells PNG and WebP by their content (load_images_from_urls in preprocessing/1/model.py).
 */
const FILE_PREFIX = "data:image/jpeg;base64,";

/** Whether a text is an address that Triton would fetch. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/**
 * The request's images as they are sent: http(s) URLs, and data URLs of JPEG, PNG or WebP files; or the frames of its video.
 * @throws RequestError for whatever the model can't take, before it is asked.
 */
export function checkedPictures(
  profile: RequestProfile,
  request: Pick<GenerationRequest, "text" | "images" | "video">,
): readonly string[] {
  const { text, images = [], video } = request;
  if (video !== undefined) return [checkedVideo(profile, request, video)];
  if (profile.image === null) {
    if (images.length === 0) return [];
    throw new RequestError(
      "images_not_supported",
      "images",
      `The request has ${countOf(images.length)}, and this model reads text only; leave ${images.length === 1 ? "it" : "them"} out, or ask a vision model.`,
    );
  }
  checkCount(profile.image, images.length);
  checkMarks(profile.image, text, images.length);
  return images.map((image, index) => sentImage(profile, image, `images[${index}]`));
}

/**
 * Videos are not decoded here or in the server, where a stranger's file could run any codec: clients send frames, in
 * vLLM's form (VideoMediaIO of vllm/multimodal/video.py).
 */
const FRAMES_PREFIX = "data:video/jpeg;base64,";

function checkedVideo(
  { image }: RequestProfile,
  { text, images = [] }: Pick<GenerationRequest, "text" | "images">,
  video: string,
): string {
  const refused = (code: string, message: string) => new RequestError(code, "video", message);
  if (image?.video === undefined)
    throw refused(
      "video_not_supported",
      "The request has a video, and this model takes none; leave it out, or ask a model that does.",
    );
  if (images.length > 0)
    throw refused(
      "video_with_images",
      `The request has a video and ${countOf(images.length)}, and this model takes one or the other; leave one out.`,
    );
  const { defaultFrames, maxFrames } = image.video;
  if (!video.startsWith(FRAMES_PREFIX))
    throw refused(
      "invalid_video",
      `The video begins with ${JSON.stringify(video.slice(0, 32))}; it must be ${FRAMES_PREFIX} and JPEG files of its frames in base64, with commas between them: \`npx engine-room ask --video\` picks ${defaultFrames} frames evenly.`,
    );
  const frames = video.slice(FRAMES_PREFIX.length).split(",");
  if (frames.length > maxFrames)
    throw refused(
      "too_many_frames",
      `The video has ${frames.length} frames, and this model takes ${maxFrames} at most; pick ${maxFrames} or fewer of them evenly.`,
    );
  checkMarks(image, text, 0);
  frames.forEach((frame, index) => {
    if (!checkedFile(frame, `frames[${index}]`).startsWith(JPEG_HEAD))
      throw refused("invalid_video", `frames[${index}] of the video is not a JPEG file; send JPEG files.`);
  });
  return video;
}

/** `ffd8ff` in base64. */
const JPEG_HEAD = "/9j/";

function checkCount({ maxImages, isRequired }: ImageProfile, count: number): void {
  if (count === 0 && isRequired) {
    throw new RequestError(
      "image_missing",
      "images",
      "This model answers questions about an image, and the request has no image; add one.",
    );
  }
  if (count > maxImages) {
    throw new RequestError(
      "too_many_images",
      "images",
      `The request has ${countOf(count)}, and this model is served with ${maxImages} at most; send ${maxImages === 1 ? "one" : `${maxImages} or fewer`}.`,
    );
  }
}

/** Marks of the models that this library knows; if none is expected, the tokenizer would read one as an empty image. */
const KNOWN_MARKS = [SPLIT_MARK, "<|image|>", "<|image_pad|>", "<|video_pad|>", "<|vision_pad|>"];

/** @throws RequestError unless the prompt has exactly one mark for each image, if it needs marks. */
function checkMarks({ mark }: ImageProfile, text: string, imageCount: number): void {
  const others = mark === null ? text : text.replaceAll(mark, "");
  const stray = KNOWN_MARKS.find((known) => others.includes(known));
  if (stray !== undefined) {
    throw marksMismatch(
      mark === null
        ? `The prompt holds ${stray}, and the server places the image by itself; leave the mark out.`
        : `The prompt holds ${stray}, and this model's mark is ${mark}; write that one.`,
    );
  }
  if (mark === null) return;
  const marks = text.split(mark).length - 1;
  if (marks !== imageCount) {
    throw marksMismatch(
      `The prompt holds the mark ${mark} ${marks === 1 ? "once" : `${marks} times`}, and the request has ${countOf(imageCount)}; write one mark for each image.`,
    );
  }
  // Preprocessing drops the empty text between two of these and with it the second image.
  if (mark === SPLIT_MARK && text.includes(mark + mark)) {
    throw marksMismatch(`Two marks ${mark} stand side by side in the prompt; put a line break between them.`);
  }
}

function marksMismatch(message: string): RequestError {
  return new RequestError("image_marks_mismatch", "text", message);
}

function countOf(images: number): string {
  return images === 1 ? "1 image" : `${images} images`;
}

/** @throws RequestError for bytes without the signature of an image, and when the model accepts neither URL nor file. */
function sentImage({ flavour, image: profile }: RequestProfile, image: ImageInput, field: string): string {
  // A space would end the address.
  const sent =
    typeof image === "string" && isHttpUrl(image)
      ? image.replace(/\s/g, encodeURIComponent)
      : FILE_PREFIX + base64Of(image, field);
  if (profile?.takesFiles) return sent;
  throw new RequestError(
    "unsupported_image",
    field,
    `${field} is ${isHttpUrl(sent) ? "an http(s) URL" : "a data URL or file"}, and this model (${flavour} repository) takes only processed pixels: ensembles take files from release 24.11 on, their BLS from 24.12 on, and rows of your own with vision.imageProcessor. Change that, or send it with tools/multimodal/client.py of tensorrtllm_backend.`,
  );
}

/** Media types whose files Pillow opens in the server. */
const DATA_URL = /^data:image\/(?:jpeg|jpg|png|webp);base64,/i;

/** First bytes of JPEG, PNG and WebP files, in hexadecimal digits. */
const FILE_HEAD = /^(?:ffd8ff|89504e470d0a1a0a|52494646.{8}57454250)/;

function base64Of(image: ImageInput, field: string): string {
  if (typeof image !== "string") return checkedFile(Buffer.from(image).toString("base64"), field);
  const head = DATA_URL.exec(image)?.[0];
  if (head !== undefined) return checkedFile(image.slice(head.length), field);
  throw invalidImage(
    field,
    `begins with ${JSON.stringify(image.slice(0, 32))}; it must be an http(s) URL or a data URL such as data:image/jpeg;base64,… of a JPEG, PNG or WebP file.`,
  );
}

function checkedFile(base64: string, field: string): string {
  const digits = base64.replace(/={1,2}$/, "");
  // Python's decoder drops characters outside of its alphabet, and would so read another file.
  if (base64.length % 4 !== 0 || /[^A-Za-z0-9+/]/.test(digits)) {
    throw invalidImage(field, "is not valid base64; encode the file again, with padding.");
  }
  if (FILE_HEAD.test(Buffer.from(base64.slice(0, 16), "base64").toString("hex"))) return base64;
  throw invalidImage(field, "is not a JPEG, PNG or WebP file; send one of these formats.");
}

function invalidImage(field: string, problem: string): RequestError {
  return new RequestError("invalid_image", field, `${field} ${problem}`);
}

/**
 * `prompt_table_extra_id`, by which TensorRT-LLM's KV cache tells images apart: 53 bits of a SHA-256 of their content in their
 * order, which JSON carries exactly. The last bit is set: if a prompt is split at its image marks, preprocessing narrows
 * the id to 32 bits, and 0 would mean "no image".
 * @returns undefined if there is no image.
 * @throws RequestError for a URL, whose content is not known.
 */
export function imageId(images: readonly string[]): number | undefined {
  if (images.length === 0) return undefined;
  const hash = createHash("sha256");
  images.forEach((image, index) => {
    if (isHttpUrl(image)) {
      throw new RequestError(
        "unsupported_image",
        `images[${index}]`,
        `images[${index}] is a URL, and this model keeps its KV cache between requests and needs an id of each image's content; send the image itself.`,
      );
    }
    // No base64 text has the separator.
    hash.update(image).update("\n");
  });
  return Number((hash.digest().readBigUInt64BE() >> 11n) | 1n);
}

/** A bare question as the prompt that the model was trained on; a text model's prompt is the question itself. */
export function wrapQuestion({ image }: RequestProfile, question: string, imageCount: number): string {
  if (image === null) return question;
  const marks = Array<string>(imageCount)
    .fill(image.mark ?? "")
    .join("\n");
  return image.prompt.replace(/\{(question|marks)\}/g, (_, name) => (name === "marks" ? marks : question));
}
