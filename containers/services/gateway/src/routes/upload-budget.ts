/** Bodies with images: their types and sizes, and how many bytes of them may be in memory at a time, before requests have a place. */
import type { FastifyRequest } from "fastify";
import type { Gateway, GatewayApp } from "../context.ts";
import { unavailable } from "../errors.ts";

/** Room for the text and the metadata beside an image. */
const BESIDE_IMAGE_BYTES = 1024 * 1024;

/** Options of a route that takes images, in JSON or as a form. */
export function uploadOptions({ config }: Gateway): { readonly bodyLimit: number } {
  const base64Bytes = Math.ceil(config.images.maxBytes / 3) * 4;
  return { bodyLimit: Math.max(config.limits.bodyBytes, base64Bytes + BESIDE_IMAGE_BYTES) };
}

/** Media types of these bodies, for the API's description. */
export const UPLOAD_TYPES = ["application/json", "multipart/form-data"];

/** Bodies up to this size are not counted: the number of connections bounds them. */
const SMALL_BYTES = 65_536;

/** Refuses requests with large bodies (503 with Retry-After) while `mostBytes` of them are on their way. */
export function limitUploads(app: GatewayApp, mostBytes: number): void {
  let taken = 0;
  app.addHook("onRequest", async (request, reply) => {
    const bytes = bodyBytes(request);
    if (bytes <= SMALL_BYTES) return;
    if (taken + bytes > mostBytes) {
      throw unavailable(
        `Requests of ${taken} bytes are on their way, and ${mostBytes} are the most; try again in a second.`,
        "overloaded",
        1,
      );
    }
    taken += bytes;
    reply.raw.once("close", () => {
      taken -= bytes;
    });
  });
}

/** What the client says, at most what the route takes; without a length all of that. */
function bodyBytes({ method, headers, routeOptions }: FastifyRequest): number {
  if (method !== "POST") return 0;
  const said = Number(headers["content-length"]);
  return Number.isFinite(said) ? Math.min(said, routeOptions.bodyLimit) : routeOptions.bodyLimit;
}
