/** Names of resources as people know them. */
import type { GraphResource } from "./rendered-tree.ts";

type Named = Pick<GraphResource, "type" | "name" | "inputs">;

/**
 * `Deployment engine-room/llava`, `Container engine-room-llava`; the name in the program where the inputs have none, or one
 * that only `up` knows.
 */
export function resourceLabel({ type, name, inputs }: Named): string {
  const kind = type.split(/[:/]/).at(-1) ?? type;
  if (type.startsWith("pulumi:providers:")) return `Provider ${kind} ${name}`;
  const { metadata } = inputs as { metadata?: { name?: unknown; namespace?: unknown } };
  const own = type.startsWith("kubernetes:")
    ? metadata?.name
    : type.startsWith("docker:")
      ? inputs.name
      : undefined;
  if (!isPlain(own)) return `${kind} ${name}`;
  const namespace = type.startsWith("kubernetes:") ? metadata?.namespace : undefined;
  return isPlain(namespace) ? `${kind} ${namespace}/${own}` : `${kind} ${own}`;
}

/** No placeholder of a secret or of something unknown. */
function isPlain(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.startsWith("[");
}
