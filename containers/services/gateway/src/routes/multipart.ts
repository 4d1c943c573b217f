/** Bodies of multipart/form-data, for images that come as files; the other routes take JSON only. */
import { Response } from "undici";
import type { GatewayApp } from "../context.ts";
import { invalidRequest } from "../errors.ts";

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
          throw invalidRequest(`The form holds ${name} twice; send it once.`, name, "invalid_form");
        }
        fields[name] = await fieldValue(name, value);
      }
      return fields;
    },
  );
}

type Form = Awaited<ReturnType<Response["formData"]>>;
type FormValue = NonNullable<ReturnType<Form["get"]>>;

async function readForm(body: Buffer, contentType: string): Promise<Form> {
  try {
    return await new Response(body, { headers: { "content-type": contentType } }).formData();
  } catch {
    throw invalidRequest(
      "The body is no multipart form that can be read; send it with a boundary, as curl -F and FormData do.",
      undefined,
      "invalid_form",
    );
  }
}

async function fieldValue(name: string, value: FormValue): Promise<unknown> {
  if (typeof value !== "string") return new Uint8Array(await value.arrayBuffer());
  if (!JSON_FIELDS.includes(name)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch (error) {
    throw invalidRequest(
      `${name} is not JSON: ${(error as Error).message}; correct it.`,
      name,
      "invalid_json",
    );
  }
}
