/** Reads inputs that nobody has typed: what is absent, or of another kind, is undefined. */

/** `at(inputs, "spec", "template", "spec")`; undefined where the path leads nowhere. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((inner, key) => (isMapping(inner) ? inner[key] : undefined), value);
}

/** Entries of a list; none where it is no list. */
export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" ? found : undefined;
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
