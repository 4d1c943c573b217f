/** How many bytes of bodies may be in memory at one time. A place for a request is only given once its body is there. */
import type { FastifyRequest } from "fastify";
import type { GatewayApp } from "../context.ts";
import { unavailable } from "../errors.ts";

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
