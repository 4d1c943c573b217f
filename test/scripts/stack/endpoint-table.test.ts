import { expect, test } from "vitest";
import type { Endpoints } from "../../../infra/plan/endpoints.ts";
import { endpointTable } from "../../../scripts/stack/endpoint-table.ts";

const endpoints: Endpoints = {
  gateway: "https://models.example.org",
  gatewayReach: "public",
  gatewayDnsName: "demo.elb.amazonaws.com",
  mongo: null,
  vector: null,
  encoders: null,
  models: {},
  reach: "cluster",
};

test("the table says who reaches the gateway, where these are others", () => {
  const last = (changes: Partial<Endpoints>) =>
    endpointTable({
      endpoints: { ...endpoints, ...changes },
      models: [],
      release: "25.07",
      engineStore: "",
      cost: { hourlyUsd: 0, monthlyUsd: 0, buildUsd: 0, pricesAsOf: null, withoutPrice: [] },
      notes: [],
    })
      .trim()
      .split("\n")
      .at(-1);
  expect(last({})).toBe("  Reachable from: public (gateway), cluster (all others)");
  expect(last({ gatewayReach: "cluster" })).toBe("  Reachable from: cluster");
});
