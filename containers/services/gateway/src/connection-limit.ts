/** Bounds the connections to the gateway. */
import type { GatewayApp } from "./context.ts";
import type { GatewayMetrics } from "./metrics.ts";

/** A client that comes back again and again must not fill the log. */
const LOG_SECONDS = 60;

/**
 * Closes every connection beyond `most` before anything of it is read: an answer would need the room that is missing.
 * Each is counted, and the log says so at most once a minute.
 *
 * @param most - Connections at the same time.
 */
export function limitConnections(app: GatewayApp, most: number, metrics: GatewayMetrics): void {
  let loggedAt = Number.NEGATIVE_INFINITY;
  app.server.maxConnections = most;
  app.server.on("drop", () => {
    metrics.refusedConnections.inc();
    if (performance.now() - loggedAt < LOG_SECONDS * 1000) return;
    loggedAt = performance.now();
    app.log.warn(
      `connections are refused: ${most} are open, the most that limits.connections allows; raise it, or let clients share connections`,
    );
  });
}
