/** What the API server refuses: misspelt fields, wrong types, and what definitions of kinds forbid. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyAll } from "../harness/kubernetes/apply.ts";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { addNamespace, removeNamespace, restrictedNamespace } from "../harness/kubernetes/scenes.ts";
import {
  changed,
  defaultDeny,
  engineBuild,
  httpRoute,
  scaledObject,
  server,
  serviceMonitor,
} from "./shapes.ts";

const NAMESPACE = "admission";

const good: readonly KubernetesObject[] = [
  scaledObject(NAMESPACE, "llama"),
  serviceMonitor(NAMESPACE, "llama"),
  httpRoute(NAMESPACE, "gateway"),
];

const bad: readonly (readonly [string, KubernetesObject, RegExp])[] = [
  [
    "a misspelt field of a Deployment",
    changed(server(NAMESPACE, "llama"), "spec.progresDeadlineSeconds", 60),
    /\.spec\.progresDeadlineSeconds: field not declared in schema/,
  ],
  [
    "a misspelt field of a NetworkPolicy",
    changed(defaultDeny(NAMESPACE), "spec.policyType", ["Ingress"]),
    /\.spec\.policyType: field not declared in schema/,
  ],
  [
    "a wrong type in a Job",
    changed(engineBuild(NAMESPACE, "llama", 1), "spec.backoffLimit", "three"),
    /\.spec\.backoffLimit: expected numeric/,
  ],
  [
    "a selector that does not match the template",
    changed(server(NAMESPACE, "llama"), "spec.selector.matchLabels", { app: "other" }),
    /`selector` does not match template `labels`/,
  ],
  [
    "a ScaledObject with a misspelt field",
    changed(scaledObject(NAMESPACE, "llama"), "spec.minReplicas", 0),
    /\.spec\.minReplicas: field not declared in schema/,
  ],
  [
    "a ScaledObject without triggers",
    changed(scaledObject(NAMESPACE, "llama"), "spec.triggers", undefined),
    /spec\.triggers: Required value/,
  ],
  [
    "a ServiceMonitor with an interval that is none",
    changed(serviceMonitor(NAMESPACE, "llama"), "spec.endpoints", [{ port: "metrics", interval: "often" }]),
    /spec\.endpoints\[0\]\.interval: Invalid value: "often"/,
  ],
  [
    "an HTTPRoute to a Service without a port, which a rule of the definition forbids",
    changed(httpRoute(NAMESPACE, "gateway"), "spec.rules", [{ backendRefs: [{ name: "gateway" }] }]),
    /Must have port for Service reference/,
  ],
];

describeWithCluster("the API server", ({ api }) => {
  beforeAll(() => addNamespace(api, restrictedNamespace(NAMESPACE)));
  afterAll(() => removeNamespace(api, NAMESPACE));

  test.each(good.map((object) => [object.kind, object] as const))(
    "takes a good %s",
    async (_kind, object) => {
      expect(await applyAll(api, [object])).toEqual({});
      // Once more: nothing about it has changed.
      const before = await api.get(object);
      await applyAll(api, [object]);
      expect(before?.metadata.generation).toBe(1);
      expect(await api.get(object)).toEqual(before);
    },
  );

  test.each(bad)("refuses %s", async (_what, object, words) => {
    await expect(applyAll(api, [object])).rejects.toThrow(words);
  });

  test("says which object it refused, and applies none after it", async () => {
    const late = { ...serviceMonitor(NAMESPACE, "late"), metadata: { name: "late", namespace: NAMESPACE } };
    const refused = applyAll(api, [changed(httpRoute(NAMESPACE, "bad"), "spec.hostnames", ["UPPER"]), late]);
    await expect(refused).rejects.toThrow(/^gateway\.networking\.k8s\.io\/v1 HTTPRoute admission\/bad: /);
    expect(await api.get(late)).toBeUndefined();
  });

  test("has no kind that nobody defined", async () => {
    const unknown = { ...httpRoute(NAMESPACE, "x"), apiVersion: "example.org/v1", kind: "Unknown" };
    await expect(applyAll(api, [unknown])).rejects.toThrow("The server has no Unknown of example.org/v1.");
  });
});
