import { expect, test } from "vitest";
import { readStack } from "../../../../infra/config/config.ts";
import { clusterStack, cpuClusterValues, type Values } from "./stacks.ts";

const routed = (route: Values) =>
  clusterStack({ ...cpuClusterValues, gateway: { hostname: "models.example.org", route } });

test("a Gateway that is there takes the host name instead of an Ingress", () => {
  const { ingress, route, endpoints } = routed({ gateway: "shared", namespace: "edge", listener: "https" });
  expect(ingress).toBeNull();
  expect(route).toMatchObject({
    host: "models.example.org",
    gateway: "shared",
    gatewayNamespace: "edge",
    listener: "https",
    requestSeconds: 300,
    service: "gateway",
    port: 8080,
  });
  expect(endpoints.gateway).toBe("https://models.example.org");
});

test("a Gateway of the stack's own namespace may have no certificate", () => {
  const { route, endpoints } = routed({ gateway: "shared", tls: false });
  expect(route).toMatchObject({ gatewayNamespace: "engine-room", listener: null });
  expect(endpoints.gateway).toBe("http://models.example.org");
});

test("what the Gateway has is not said of the route", () => {
  const pathsOf = (gateway: Values) =>
    readStack({ ...cpuClusterValues, gateway: { route: { gateway: "shared" }, ...gateway } }).problems.map(
      ({ path }) => path,
    );
  expect(pathsOf({ hostname: "m.example.org" })).toEqual([]);
  expect(pathsOf({})).toEqual(["gateway.hostname"]);
  expect(
    pathsOf({ hostname: "m.example.org", ingressClass: "nginx", tls: { issuer: "letsencrypt" } }),
  ).toEqual(["gateway.tls", "gateway.ingressClass"]);
});
