/** From what the Pulumi CLI hands to a policy pack, to what rules look at. */
import type { PolicyResource, ResourceValidationArgs } from "@pulumi/policy";
import { type CheckedResource, UNKNOWN } from "./rule.ts";

export function fromStackResource(resource: PolicyResource): CheckedResource {
  const dependencies = Object.entries(resource.propertyDependencies).map(
    ([key, resources]) => [key, resources.map(({ urn }) => urn)] as const,
  );
  return { ...common(resource), propertyDependencies: Object.fromEntries(dependencies) };
}

/** Before a resource is made nobody knows what its inputs depend on; rules with that need look at the whole stack. */
export function fromResource(args: ResourceValidationArgs): CheckedResource {
  return { ...common(args), propertyDependencies: {} };
}

function common({
  type,
  name,
  urn,
  props,
  opts,
}: Pick<PolicyResource, "type" | "name" | "urn" | "props" | "opts">) {
  return {
    type,
    name,
    urn,
    parent: opts.parent ?? "",
    inputs: plain(props) as Record<string, unknown>,
    // A pack is told of `protect`, and not of `retainOnDelete`.
    options: { protect: opts.protect, retainOnDelete: null },
  };
}

/** The SDK hands out proxies that throw at an unknown value; rules want to see which ones are. */
function plain(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const read = (key: string) => orUnknown(() => (value as Record<string, unknown>)[key]);
  if (Array.isArray(value)) return Array.from({ length: value.length }, (_, index) => read(String(index)));
  return Object.fromEntries(Object.keys(value).map((key) => [key, read(key)]));
}

function orUnknown(read: () => unknown): unknown {
  let value: unknown;
  try {
    value = read();
  } catch (error) {
    // Its class is no part of the SDK's types.
    if ((error as Error).constructor.name === "UnknownValueError") return UNKNOWN;
    throw error;
  }
  return plain(value);
}
