/** The catalogue's tables, by which dashboards and alerts are made, against what the services register. */
import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import { ConcurrencyLimiter } from "../../../containers/services/gateway/src/limits.ts";
import { GatewayMetrics } from "../../../containers/services/gateway/src/metrics.ts";
import { PendingRequests } from "../../../containers/services/gateway/src/pending.ts";
import { RetrievalMetrics } from "../../../containers/services/gateway/src/retrieval/metrics.ts";
import { gatewayMetrics, retrievalMetrics } from "../../../infra/plan/catalogue/service-metrics.ts";

interface Row {
  readonly kind: string;
  readonly labels: readonly string[];
}

/** By name, but for those of Node.js, which prom-client has. */
function registered(registry: Registry): Readonly<Record<string, Row>> {
  const own = registry.getMetricsAsArray().filter(({ name }) => !/^(process|nodejs)_/.test(name));
  return Object.fromEntries(
    own.map((metric) => {
      // The library keeps its labels in a field that its types lack.
      const { name, labelNames = [] } = metric as unknown as { name: string; labelNames?: readonly string[] };
      return [name, { kind: metric.constructor.name.toLowerCase(), labels: [...labelNames].sort() }];
    }),
  );
}

function planned(table: Readonly<Record<string, Row>>): Readonly<Record<string, Row>> {
  return Object.fromEntries(
    Object.entries(table).map(([name, { kind, labels }]) => [name, { kind, labels: [...labels].sort() }]),
  );
}

describe("the gateway registers what the catalogue has", () => {
  test("of requests", () => {
    const { registry } = new GatewayMetrics({
      limiter: new ConcurrencyLimiter(1, 1),
      pending: new PendingRequests(),
      inFlight: () => 0,
    });
    expect(registered(registry)).toEqual(planned(gatewayMetrics));
  });

  test("of retrieval", () => {
    const registry = new Registry();
    new RetrievalMetrics(registry);
    expect(registered(registry)).toEqual(planned(retrievalMetrics));
  });
});
