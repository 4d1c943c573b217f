/** Images of a request, checked and in the form in which they are sent. */
import { RequestError } from "./errors.ts";
import type { ImageKind } from "./profile.ts";
import type { Fields, ImageInput, PixelTensor } from "./request.ts";

/** An image that can be sent; `dataUrl` holds the base64 text of a JPEG, PNG or WebP file. */
export type SentImage =
  | { readonly kind: "httpUrl"; readonly url: string }
  | { readonly kind: "dataUrl"; readonly base64: string }
  | { readonly kind: "pixels" | "processedPixels"; readonly tensor: PixelTensor };

/** Whether a text is an address that Triton would fetch. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/** @throws RequestError `invalid_image` for what is no image, as far as that shows without decoding it. */
export function sentImage(image: ImageInput, field: string): SentImage {
  if (typeof image === "string") {
    return isHttpUrl(image)
      ? { kind: "httpUrl", url: image }
      : { kind: "dataUrl", base64: base64Of(image, field) };
  }
  if (image instanceof Uint8Array) {
    return { kind: "dataUrl", base64: checkedFile(Buffer.from(image).toString("base64"), field) };
  }
  return {
    kind: image.datatype === "UINT8" ? "pixels" : "processedPixels",
    tensor: checkedTensor(image, 3, field),
  };
}

/** @throws RequestError `invalid_image` when shape and bytes do not fit together. */
export function checkedTensor(tensor: PixelTensor, dimensions: number, field: string): PixelTensor {
  const { datatype, shape, data } = tensor;
  const bytes = shape.reduce((product, size) => product * size, datatype === "UINT8" ? 1 : 2);
  const isSound = shape.length === dimensions && shape.every((size) => Number.isInteger(size) && size > 0);
  if (isSound && bytes === data.length) return tensor;
  throw new RequestError(
    "invalid_image",
    field,
    `${field} is ${datatype} [${shape.join(", ")}] in ${data.length} bytes; it must have ${dimensions} dimensions above 0 and ${isSound ? bytes : "as many"} bytes.`,
  );
}

/** Media types whose files Pillow opens in the server. */
const DATA_URL = /^data:image\/(?:jpeg|jpg|png|webp);base64,/i;

function base64Of(text: string, field: string): string {
  const head = DATA_URL.exec(text)?.[0];
  if (head !== undefined) return checkedFile(text.slice(head.length), field);
  throw new RequestError(
    "invalid_image",
    field,
    `${field} begins with ${JSON.stringify(text.slice(0, 32))}; it must be an http(s) URL or a data URL such as data:image/jpeg;base64,… of a JPEG, PNG or WebP file.`,
  );
}

function checkedFile(base64: string, field: string): string {
  const digits = base64.replace(/={1,2}$/, "");
  // Python's decoder drops characters that are none of its alphabet, and would so read another file.
  if (base64.length % 4 !== 0 || /[^A-Za-z0-9+/]/.test(digits)) {
    throw new RequestError(
      "invalid_image",
      field,
      `${field} is no valid base64; encode the file anew, with padding.`,
    );
  }
  if (isImageFile(Buffer.from(base64.slice(0, 16), "base64"))) return base64;
  throw new RequestError(
    "invalid_image",
    field,
    `${field} does not begin like a JPEG, PNG or WebP file; send one of these.`,
  );
}

function isImageFile(head: Buffer): boolean {
  const text = head.toString("latin1");
  return (
    text.startsWith("\xff\xd8\xff") ||
    text.startsWith("\x89PNG\r\n\x1a\n") ||
    (text.startsWith("RIFF") && text.slice(8) === "WEBP")
  );
}

/** What people call each kind. */
export const KIND_NAMES: Readonly<Record<ImageKind, string>> = {
  httpUrl: "an http(s) URL",
  dataUrl: "a data URL or file",
  pixels: "raw pixels (UINT8)",
  processedPixels: "processed pixels (FP16, from the model's own Hugging Face processor)",
};

/** The images that are not tensors as one input: a bare text for one, as the walkthroughs send it, else a list. */
export function urlField(name: string, images: readonly SentImage[]): Fields {
  const urls = images.map(serverUrl).filter((url) => url !== undefined);
  const [first] = urls;
  if (first === undefined) return {};
  return { [name]: urls.length === 1 ? first : urls };
}

function serverUrl(image: SentImage): string | undefined {
  if (image.kind === "httpUrl") return image.url;
  // Triton's preprocessing decodes only what begins with exactly this, and fetches everything else; Pillow then tells PNG
  // and WebP by their content (load_images_from_urls in preprocessing/1/model.py).
  return image.kind === "dataUrl" ? `data:image/jpeg;base64,${image.base64}` : undefined;
}
