/** What is found wrong without a server, by kubeconform. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeWithCluster } from "../harness/kubernetes/describe.ts";
import { objectsOfYaml, SchemaCheck } from "../harness/kubernetes/kubeconform.ts";
import type { KubernetesObject } from "../harness/kubernetes/objects.ts";
import { restrictedNamespace, volumeFor } from "../harness/kubernetes/scenes.ts";
import {
  changed,
  claim,
  defaultDeny,
  disruptionBudget,
  engineBuild,
  httpRoute,
  scaledObject,
  server,
  service,
  serviceMonitor,
} from "./shapes.ts";

const good: readonly KubernetesObject[] = [
  restrictedNamespace("a"),
  claim("a"),
  volumeFor(claim("a")),
  engineBuild("a", "llama-aaaaaaaaaaaa", 1),
  server("a", "llama"),
  service("a", "llama"),
  disruptionBudget("a", "llama"),
  defaultDeny("a"),
  scaledObject("a", "llama"),
  serviceMonitor("a", "llama"),
  httpRoute("a", "gateway"),
];

const job = engineBuild("a", "llama", 1);
const bad: readonly (readonly [KubernetesObject, string])[] = [
  [changed(job, "spec.backoffLimit", "three"), "Job llama /spec/backoffLimit: got string, want integer"],
  [
    changed(job, "spec.template.spec.tolerations", [{ key: "a", effekt: "NoSchedule" }]),
    "Job llama /spec/template/spec/tolerations/0: additional properties 'effekt' not allowed",
  ],
  [changed(job, "metadata.label", {}), "Job llama /metadata: additional properties 'label' not allowed"],
  [changed(job, "apiVersion", "batch/v2"), "Job llama: could not find schema for Job"],
  [
    changed(service("a", "s"), "spec.ports", [{ port: 80, targetPort: true }]),
    "Service s /spec/ports/0/targetPort: got boolean, want integer or string",
  ],
  [
    changed(scaledObject("a", "s"), "spec.maxReplicaCount", "2"),
    "ScaledObject s /spec/maxReplicaCount: got string, want integer",
  ],
  [
    changed(serviceMonitor("a", "m"), "metadata.label", {}),
    "ServiceMonitor m /metadata: additional properties 'label' not allowed",
  ],
  [
    changed(httpRoute("a", "h"), "spec.hostname", "x"),
    "HTTPRoute h /spec: additional properties 'hostname' not allowed",
  ],
];

describeWithCluster("kubeconform", ({ modules }) => {
  let check: SchemaCheck;
  beforeAll(() => {
    check = new SchemaCheck(modules);
  });
  afterAll(() => check?.dispose());

  test("finds nothing wrong with what the API server takes", async () => {
    expect(await check.faults(good)).toEqual([]);
  });

  test.each(bad.map(([object, fault]) => [fault, object] as const))("%s", async (fault, object) => {
    expect(await check.faults([object])).toEqual([expect.stringContaining(fault)]);
  });

  test("finds all faults of all objects", async () => {
    const faults = await check.faults([...good, ...bad.map(([object]) => object)]);
    expect(faults.length).toBe(bad.length);
  });

  test("reads YAML with several objects, and refuses a key that is there twice", async () => {
    const text =
      "# first\napiVersion: v1\nkind: Namespace\nmetadata: { name: a }\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: { name: b }\nstringdata: {}\n";
    expect(await check.faults(objectsOfYaml(text))).toEqual([
      expect.stringContaining("Secret b : additional properties 'stringdata' not allowed"),
    ]);
    expect(() => objectsOfYaml("kind: Secret\nkind: Secret\n")).toThrow(/unique/);
  });
});
