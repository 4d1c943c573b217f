/** Stops a gateway without breaking off an answer. */
import type { GatewayServer } from "./server.ts";

/** How often the end of the last request is looked for. */
const POLL_MILLISECONDS = 20;

/**
 * Refuses new requests (/readyz says 503), waits for the running ones, and closes the server. It listens until then, so
 * that a load balancer sees the 503. No request outlives limits.requestSeconds, and no upload the time that
 * server.ts gives it, so this ends.
 */
export async function drain({ app, gateway }: GatewayServer): Promise<void> {
  gateway.isDraining = true;
  while (gateway.inFlight > 0) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
  }
  await app.close();
}
