import { expect, test } from "vitest";
import { schemasOfDefinition, schemasOfSwagger } from "./schemas.ts";

const reference = (name: string) => ({ $ref: `#/definitions/${name}` });
const shared = (name: string) => ({ $ref: `_definitions.json#/definitions/${name}` });

test("kinds of the server: a file each, closed, with its own names", () => {
  const files = schemasOfSwagger({
    definitions: {
      "io.k8s.api.apps.v1.Deployment": {
        type: "object",
        properties: {
          apiVersion: { type: "string" },
          kind: { type: "string" },
          spec: reference("io.k8s.api.apps.v1.DeploymentSpec"),
        },
        "x-kubernetes-group-version-kind": [{ group: "apps", version: "v1", kind: "Deployment" }],
      },
      "io.k8s.api.apps.v1.DeploymentSpec": {
        type: "object",
        required: ["ports"],
        properties: {
          // A field, though it has the name of a keyword.
          items: { type: "array", items: { type: "object", properties: { a: { type: "string" } } } },
          labels: { type: "object", additionalProperties: { type: "string" } },
          port: { type: "string", format: "int-or-string" },
          memory: reference("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        },
      },
      "io.k8s.apimachinery.pkg.api.resource.Quantity": { type: "string" },
      "io.k8s.api.core.v1.Pod": {
        type: "object",
        "x-kubernetes-group-version-kind": [{ group: "", version: "v1", kind: "Pod" }],
      },
    },
  });
  expect([...files.keys()]).toEqual(["apps_v1_deployment.json", "v1_v1_pod.json", "_definitions.json"]);
  expect(files.get("apps_v1_deployment.json")).toMatchObject({
    required: ["apiVersion", "kind"],
    additionalProperties: false,
    properties: {
      apiVersion: { enum: ["apps/v1"] },
      kind: { enum: ["Deployment"] },
      spec: shared("io.k8s.api.apps.v1.DeploymentSpec"),
    },
  });
  const definitions = files.get("_definitions.json")?.definitions as Record<string, unknown>;
  expect(definitions["io.k8s.api.apps.v1.DeploymentSpec"]).toEqual({
    type: "object",
    required: ["ports"],
    additionalProperties: false,
    properties: {
      items: {
        type: "array",
        items: { type: "object", properties: { a: { type: "string" } }, additionalProperties: false },
      },
      labels: { type: "object", additionalProperties: { type: "string" } },
      port: { type: ["string", "integer"] },
      memory: shared("io.k8s.apimachinery.pkg.api.resource.Quantity"),
    },
  });
  expect(definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]).toEqual({
    type: ["string", "number"],
  });
});

test("kinds of a definition: versions that are served; what is open stays open", () => {
  const spec = {
    type: "object",
    properties: {
      anything: { type: "object", properties: {}, "x-kubernetes-preserve-unknown-fields": true },
      either: { "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] },
      perhaps: { type: "string", nullable: true },
      choice: {
        type: "object",
        properties: { a: {}, b: {} },
        oneOf: [{ properties: { a: {} }, required: ["a"] }],
      },
    },
  };
  const openAPIV3Schema = { type: "object", properties: { metadata: { type: "object" }, spec } };
  const files = schemasOfDefinition({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.org" },
    spec: {
      group: "example.org",
      names: { kind: "Thing" },
      versions: [
        { name: "v1", served: true, schema: { openAPIV3Schema } },
        { name: "v1beta1", served: false, schema: { openAPIV3Schema } },
      ],
    },
  });
  expect([...files.keys()]).toEqual(["example.org_v1_thing.json"]);
  expect(files.get("example.org_v1_thing.json")?.properties).toEqual({
    apiVersion: { type: "string", enum: ["example.org/v1"] },
    kind: { type: "string", enum: ["Thing"] },
    metadata: shared("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    spec: {
      type: "object",
      additionalProperties: false,
      properties: {
        anything: { type: "object", properties: {} },
        either: { type: ["string", "integer"] },
        perhaps: { type: ["string", "null"] },
        choice: {
          type: "object",
          additionalProperties: false,
          properties: { a: {}, b: {} },
          oneOf: [{ properties: { a: {} }, required: ["a"] }],
        },
      },
    },
  });
});
