import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import type { RenderedStack } from "../../../scripts/render.ts";
import { renderedObjects, stackObjects } from "./rendered.ts";

type Resource = RenderedStack["resources"][number];

/** A resource as `npm run render` has it. */
function resource(type: string, name: string, inputs: object, more: Partial<Resource> = {}): Resource {
  return {
    type,
    name,
    urn: urn(type, name),
    parent: urn("pulumi:pulumi:Stack", "engine-room-tests"),
    custom: true,
    inputs: { ...inputs },
    dependencies: [],
    propertyDependencies: {},
    options: {},
    ...more,
  };
}

const objectsOf = (...resources: Resource[]) => stackObjects({ resources, outputs: {} }).objects;
const urn = (type: string, name: string) => `urn:pulumi:tests::engine-room::${type}::${name}`;
const NAMESPACE = "kubernetes:core/v1:Namespace";
const JOB = "kubernetes:batch/v1:Job";
const DEPLOYMENT = "kubernetes:apps/v1:Deployment";

test("objects come after what they depend on, with nothing of Pulumi's own", () => {
  const metadata = (name: string) => ({ name, namespace: "models" });
  const objects = stackObjects({
    outputs: { engineStore: "claim" },
    resources: [
      resource("pulumi:providers:kubernetes", "cluster", { context: "there" }),
      resource("engine-room:kubernetes:TritonServer", "llama", {}, { custom: false }),
      resource(
        DEPLOYMENT,
        "llama",
        { apiVersion: "apps/v1", kind: "Deployment", metadata: metadata("llama"), spec: { replicas: 1 } },
        {
          parent: urn("engine-room:kubernetes:TritonServer", "llama"),
          dependencies: [urn(JOB, "llama-engine"), urn(NAMESPACE, "namespace")],
        },
      ),
      resource(
        JOB,
        "llama-engine",
        { apiVersion: "batch/v1", kind: "Job", metadata: metadata("llama-0123456789ab"), spec: {} },
        { dependencies: [urn(NAMESPACE, "namespace")] },
      ),
      resource(NAMESPACE, "namespace", { apiVersion: "v1", kind: "Namespace", metadata: { name: "models" } }),
      resource("kubernetes:helm.sh/v3:Release", "keda", { chart: "keda" }),
      resource(
        "kubernetes:core/v1:PersistentVolumeClaim",
        "existing",
        { apiVersion: "v1", kind: "PersistentVolumeClaim" },
        { readId: "models/store" },
      ),
    ],
  });
  expect(objects).toEqual({
    objects: [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: "models" } },
      { apiVersion: "batch/v1", kind: "Job", metadata: metadata("llama-0123456789ab"), spec: {} },
      { apiVersion: "apps/v1", kind: "Deployment", metadata: metadata("llama"), spec: { replicas: 1 } },
    ],
    charts: ["keda"],
    outputs: { engineStore: "claim" },
  });
});

test("an object without a name of its own gets one", () => {
  const inputs = { apiVersion: "v1", kind: "ConfigMap", metadata: { labels: { a: "b" } } };
  expect(objectsOf(resource("kubernetes:core/v1:ConfigMap", "c", inputs))).toEqual([
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c-tests", labels: { a: "b" } } },
  ]);
});

test("secrets are of the form that the API takes", () => {
  const secret = (inputs: object) => {
    const common = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" } };
    return objectsOf(resource("kubernetes:core/v1:Secret", "s", { ...common, ...inputs }))[0];
  };
  expect(secret({ type: "Opaque", data: "[secret]" })).toMatchObject({ type: "Opaque", data: {} });
  expect(secret({ data: { token: "[secret]", plain: "YQ==" } })).toMatchObject({
    data: { token: Buffer.from("[secret]").toString("base64"), plain: "YQ==" },
  });
  expect(secret({ stringData: { token: "[secret]" } })).toMatchObject({ stringData: { token: "[secret]" } });
});

test("a value that only `up` knows is an error with its path", () => {
  const inputs = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "s" },
    spec: { ports: [{ port: 1 }, { port: "[unknown]" }] },
  };
  expect(() => objectsOf(resource("kubernetes:core/v1:Service", "s", inputs))).toThrow(
    "spec.ports.1.port of Service s is known only after `up`; give what it refers to a name of its own.",
  );
});

test("what is no object of the API is an error", () => {
  const file = resource("kubernetes:yaml/v2:ConfigFile", "f", { file: "x.yaml" });
  expect(() => objectsOf(file)).toThrow(
    "f of type kubernetes:yaml/v2:ConfigFile is no single object of the Kubernetes API.",
  );
});

test("a stack file is rendered by the project's own command, which says what is wrong with one", async () => {
  const local = await renderedObjects(join(projectRoot, "Pulumi.local.yaml"));
  expect(local).toMatchObject({ objects: [], charts: [], outputs: { models: [{ name: "smollm2" }] } });
  const folder = mkdtempSync(join(tmpdir(), "engine-room-stack-file-"));
  try {
    const file = join(folder, "stack.yaml");
    writeFileSync(file, "config:\n  engine-room:platform: moon\n");
    await expect(renderedObjects(file)).rejects.toThrow(/platform/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
