/** Property values: as the engine sends them, with secrets and outputs wrapped, and plain, as handlers take them. */

/** Plain JSON, secrets unwrapped; a value that a preview does not know yet is UNKNOWN_VALUE. */
export type PropertyMap = Readonly<Record<string, unknown>>;

// From @pulumi/pulumi/runtime/rpc.ts.
export const UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";
const OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4";

type Path = readonly (string | number)[];

/** True where the value, or anything in it, is known only after `up`. */
export function hasUnknown(value: unknown): boolean {
  if (value === UNKNOWN_VALUE) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Unwraps secrets and outputs at any depth. `secretPaths`: where secrets were, inner before outer. */
export function unwrap(properties: PropertyMap | undefined): {
  readonly properties: PropertyMap;
  readonly secretPaths: readonly Path[];
} {
  const secretPaths: Path[] = [];
  const plain = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => plain(item, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    const { [SIGNATURE_KEY]: signature, ...rest } = value as Record<string, unknown>;
    if (signature !== SECRET_SIGNATURE && signature !== OUTPUT_SIGNATURE)
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, plain(item, [...path, key])]),
      );
    const inner = "value" in rest ? plain(rest.value, path) : UNKNOWN_VALUE;
    if (signature === SECRET_SIGNATURE || rest.secret === true) secretPaths.push(path);
    return inner;
  };
  return { properties: plain(properties ?? {}, []) as PropertyMap, secretPaths };
}

/** Wraps the values at the paths of secrets, as far as there are values. */
export function wrap(properties: PropertyMap, secretPaths: readonly Path[]): Record<string, unknown> {
  const wrapped = structuredClone(properties) as Record<string, unknown>;
  // An inner secret is wrapped first: the path to it ends at the wrapping of an outer one.
  for (const path of secretPaths) {
    let parent: unknown = wrapped;
    for (const key of path.slice(0, -1)) parent = (parent as Record<string, unknown> | undefined)?.[key];
    const key = path.at(-1) ?? "";
    if (typeof parent === "object" && parent !== null && key in parent) {
      const record = parent as Record<string, unknown>;
      record[key] = { [SIGNATURE_KEY]: SECRET_SIGNATURE, value: record[key] };
    }
  }
  return wrapped;
}
