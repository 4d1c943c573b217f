/** Every place of a stack file that accepts a secret, read from the schemas, so that new places are included. */
import type { z } from "zod";
import { secret } from "../../infra/config/common.ts";

/** Parts of a zod schema that are searched. */
interface SchemaParts {
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly innerType?: z.ZodType;
  readonly element?: z.ZodType;
  readonly valueType?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly in?: z.ZodType;
}

export interface SecretPlace {
  /** Keys from the top; `0` in a list. */
  readonly path: readonly string[];
  /** `text`: the secret itself. `file`: the path of a file that holds it. */
  readonly kind: "text" | "file";
}

/** Keys of paths to files that hold only a secret. */
const SECRET_FILE = /File$/;

export function secretPlaces(schema: z.ZodType, path: readonly string[] = []): readonly SecretPlace[] {
  if (schema === secret) return [{ path, kind: "text" }];
  const parts = schema.def as unknown as SchemaParts;
  const below = [
    ...Object.entries(parts.shape ?? {}).map(([key, inner]) => [inner, [...path, key]] as const),
    ...(parts.element === undefined ? [] : [[parts.element, [...path, "0"]] as const]),
    ...(parts.valueType === undefined ? [] : [[parts.valueType, [...path, "any"]] as const]),
    ...[
      ...(parts.options ?? []),
      ...(parts.innerType === undefined ? [] : [parts.innerType]),
      ...(parts.in === undefined ? [] : [parts.in]),
    ].map((inner) => [inner, path] as const),
  ];
  if (below.length === 0) return SECRET_FILE.test(path.at(-1) ?? "") ? [{ path, kind: "file" }] : [];
  return below.flatMap(([inner, at]) => secretPlaces(inner, at));
}
