/** Property paths of resource options, such as `spec.template`, `data["a.b"]`, `list[*].name` and `*`. */
import type { PropertyKeys } from "../program/changes.ts";

const SEGMENT = /\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.[\]]+)/g;

/** Whether a difference is at or below one of the paths. */
export function isAtOption(paths: readonly string[], keys: PropertyKeys): boolean {
  return paths.some((path) => {
    const segments = [...path.matchAll(SEGMENT)].map(([, quoted, index, name]) => quoted ?? index ?? name);
    return segments.every(
      (segment, position) =>
        position < keys.length && (segment === "*" || segment === optionKey(keys[position])),
    );
  });
}

/** Options know elements by where they stand. */
function optionKey(key: PropertyKeys[number] | undefined): string {
  return String(typeof key === "object" ? key.index : key);
}
