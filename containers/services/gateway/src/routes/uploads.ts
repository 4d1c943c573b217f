/** Bodies with images: their sizes, and multipart forms in addition to JSON. */
import { Busboy } from "@fastify/busboy";
import type { Gateway, GatewayApp } from "../context.ts";
import { invalidRequest } from "../errors.ts";
import { DEFAULT_IMAGE_LIMITS } from "../images/limits.ts";

/** Room for the text and the metadata beside an image. */
const BESIDE_IMAGE_BYTES = 1024 * 1024;

const LARGEST_UPLOAD_BYTES = Math.ceil(DEFAULT_IMAGE_LIMITS.bytes / 3) * 4 + BESIDE_IMAGE_BYTES;

/** Options of a route that takes images, in JSON or as a form. */
export function uploadOptions({ config }: Gateway): { readonly bodyLimit: number } {
  return { bodyLimit: Math.max(config.limits.bodyBytes, LARGEST_UPLOAD_BYTES) };
}

/** Media types of these bodies, for the API's description. */
export const UPLOAD_TYPES = ["application/json", "multipart/form-data"];

/** Fields that are JSON and not text. */
const JSON_FIELDS = ["metadata", "filter", "topK", "maxTokens", "stream"];

/**
 * Makes of a form what JSON would have been: a file is its bytes, metadata and the like are parsed. The body is in memory
 * as a whole, within the route's `bodyLimit`.
 */
export function parseMultipart(app: GatewayApp): void {
  app.addContentTypeParser(
    "multipart/form-data",
    { parseAs: "buffer" },
    async (
      request: { readonly headers: { readonly "content-type"?: string | undefined } },
      body: string | Buffer,
    ) => {
      const { "content-type": contentType = "" } = request.headers;
      const form = await readForm(body as Buffer, contentType);
      const fields: Record<string, unknown> = {};
      for (const [name, value] of form) {
        if (Object.hasOwn(fields, name)) {
          throw invalidRequest(`The form has ${name} twice; send it once.`, name, "invalid_form");
        }
        fields[name] = fieldValue(name, value);
      }
      return fields;
    },
  );
}

type Field = readonly [name: string, value: string | Uint8Array];

/** Parts in their order; a file as its bytes. @throws ApiError 400 for an invalid form. */
function readForm(body: Buffer, contentType: string): Promise<readonly Field[]> {
  return new Promise<readonly Field[]>((resolve, reject) => {
    const fields: Field[] = [];
    const headers = { "content-type": contentType };
    // The body is in memory, and its size is bounded already.
    const form = new Busboy({ headers, limits: { fieldSize: body.length } });
    form.on("field", (name, value) => fields.push([name, value]));
    form.on("file", (name, file) => {
      const chunks: Buffer[] = [];
      file.on("data", (chunk: Buffer) => chunks.push(chunk));
      file.once("end", () => fields.push([name, Buffer.concat(chunks)])).once("error", reject);
    });
    form.once("finish", () => resolve(fields)).once("error", reject);
    form.end(body);
  }).catch(() => {
    throw invalidRequest(
      "Invalid multipart form; send it with a boundary, as curl -F and FormData do.",
      undefined,
      "invalid_form",
    );
  });
}

function fieldValue(name: string, value: string | Uint8Array): unknown {
  if (typeof value !== "string" || !JSON_FIELDS.includes(name)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch (error) {
    throw invalidRequest(
      `${name} is not valid JSON: ${(error as Error).message}; correct it.`,
      name,
      "invalid_json",
    );
  }
}
