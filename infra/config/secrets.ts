/** Which values of a stack file are secrets, by what its schema says of them. */
import type { z } from "zod";
import { secret } from "./common.ts";

export type Path = readonly (string | number)[];

/** Paths of the values that stand where the schema has a {@link secret}. */
export function secretsIn(schema: z.core.$ZodType, value: unknown, path: Path = []): readonly Path[] {
  if (value === undefined || value === null) return [];
  if (schema === secret) return [path];
  const inner = (type: z.core.$ZodType, key: string | number) =>
    secretsIn(type, (value as Record<string | number, unknown>)[key], [...path, key]);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      return Object.entries(def.shape).flatMap(([key, type]) => inner(type, key));
    case "record":
      return Object.keys(value).flatMap((key) => inner(def.valueType, key));
    case "array":
      return Array.isArray(value) ? value.flatMap((_, index) => inner(def.element, index)) : [];
    case "union":
      return def.options.flatMap((option) => secretsIn(option, value, path));
    case "pipe":
      return secretsIn(def.in, value, path);
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
      return secretsIn(def.innerType, value, path);
    default:
      return [];
  }
}
