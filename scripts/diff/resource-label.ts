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
  return `${kind} ${ownName({ type, inputs }) ?? name}`;
}

/**
 * What the cluster or the host knows it by: two that have it can't be there at once. undefined: only `up` knows, or the
 * type has no names that are known here.
 */
export function ownName({ type, inputs }: Omit<Named, "name">): string | undefined {
  if (type.startsWith("docker:")) return isPlain(inputs.name) ? inputs.name : undefined;
  if (!type.startsWith("kubernetes:")) return undefined;
  const { name, namespace } = (inputs.metadata ?? {}) as { name?: unknown; namespace?: unknown };
  if (!isPlain(name)) return undefined;
  return isPlain(namespace) ? `${namespace}/${name}` : name;
}

/** No placeholder of a secret or of something unknown. */
function isPlain(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.startsWith("[");
}
