/** Between the values that the engine sends, where secrets are wrapped, and the plain values that handlers take. */
import type { PropertyMap } from "./contract.ts";
import { UNKNOWN_VALUE } from "./contract.ts";

/** Keys and values of @pulumi/pulumi/runtime/rpc.ts. */
const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";
const OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4";

type Path = readonly (string | number)[];

interface Unwrapped {
  readonly properties: PropertyMap;
  /** Where secrets were. */
  readonly secretPaths: readonly Path[];
}

/** Takes secrets and outputs apart, at any depth. */
export function unwrap(properties: PropertyMap | undefined): Unwrapped {
  const secretPaths: Path[] = [];
  const visit = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => visit(item, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    const wrapped = value as Record<string, unknown>;
    const signature = wrapped[SIGNATURE_KEY];
    if (signature === SECRET_SIGNATURE || signature === OUTPUT_SIGNATURE) {
      if (signature === SECRET_SIGNATURE || wrapped.secret === true) secretPaths.push(path);
      return "value" in wrapped ? visit(wrapped.value, path) : UNKNOWN_VALUE;
    }
    return Object.fromEntries(
      Object.entries(wrapped).map(([key, item]) => [key, visit(item, [...path, key])]),
    );
  };
  return { properties: visit(properties ?? {}, []) as PropertyMap, secretPaths };
}

/** Wraps what stands at the paths of secrets, as far as something stands there. */
export function wrap(properties: PropertyMap, secretPaths: readonly Path[]): Record<string, unknown> {
  const secrets = new Set(secretPaths.map((path) => JSON.stringify(path)));
  const visit = (value: unknown, path: Path): unknown => {
    const inner = visitInner(value, path);
    return secrets.has(JSON.stringify(path)) ? { [SIGNATURE_KEY]: SECRET_SIGNATURE, value: inner } : inner;
  };
  const visitInner = (value: unknown, path: Path): unknown => {
    if (Array.isArray(value)) return value.map((item, index) => visit(item, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, visit(item, [...path, key])]));
  };
  return visitInner(properties, []) as Record<string, unknown>;
}
