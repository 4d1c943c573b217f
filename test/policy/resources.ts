/** Resources with the fields that rules read. */
import type { CheckedResource, StackFacts } from "../../policy/rule.ts";

export function resource(
  type: string,
  inputs: Readonly<Record<string, unknown>>,
  more: Partial<Omit<CheckedResource, "type" | "inputs">> = {},
): CheckedResource {
  const name = more.name ?? "one";
  return {
    type,
    name,
    urn: `urn:pulumi:prod::engine-room::${type}::${name}`,
    inputs,
    propertyDependencies: {},
    options: {},
    ...more,
  };
}

/** A Deployment with one container. */
export function deployment(container: object, spec: object = {}): CheckedResource {
  return resource("kubernetes:apps/v1:Deployment", {
    spec: { template: { spec: { ...spec, containers: [{ name: "main", ...container }] } } },
  });
}

export const facts: StackFacts = {
  platform: "kubernetes",
  keepsDocuments: true,
  hourlyUsdCap: null,
  hasApiKeys: true,
  exposure: "public",
  listenerEndsTls: true,
  awaitedImages: ["registry.example.org/room/trtllm:25.07-0123456789ab", "docker.io/library/mongo:8.0.26"],
};
