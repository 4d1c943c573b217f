/** GET /metrics, for Prometheus. */
import type { Gateway, GatewayApp } from "../context.ts";

export function metricsRoute(app: GatewayApp, { metrics }: Gateway): void {
  app.get(
    "/metrics",
    { schema: { tags: ["health"], summary: "Metrics in Prometheus' text format" } },
    async (_request, reply) => {
      const text = await metrics.registry.metrics();
      return reply.type(metrics.registry.contentType).send(text);
    },
  );
}
