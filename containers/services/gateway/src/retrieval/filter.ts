/** Filters of clients over metadata, as filters of the vector database. */
import { z } from "zod";

const MOST_CONDITIONS = 32;
const MOST_VALUES = 256;
/** Longest text that is compared. */
const LONGEST_TEXT = 1024;

/**
 * A path in metadata: names that the vector database's own path syntax takes as they are
 * (https://qdrant.tech/documentation/concepts/payload/#json-path).
 */
const path = z
  .string()
  .max(256)
  .regex(
    /^metadata(?:\.[A-Za-z0-9_-]+)+$/,
    "must be metadata.KEY, or metadata.KEY.KEY, with keys of letters, digits and _ -",
  );

const scalar = z.union([z.string().max(LONGEST_TEXT), z.number(), z.boolean()]);
type Scalar = z.infer<typeof scalar>;

const condition = z.union(
  [
    scalar,
    z.strictObject({ in: z.array(scalar).min(1).max(MOST_VALUES) }),
    z
      .strictObject({
        gt: z.number().optional(),
        gte: z.number().optional(),
        lt: z.number().optional(),
        lte: z.number().optional(),
      })
      .refine((range) => Object.keys(range).length > 0, "must hold one of in, gt, gte, lt, lte"),
  ],
  {
    error:
      "must be a text, number or boolean to be equal to, { in: [...] }, or { gt, gte, lt, lte } with numbers",
  },
);

/** All conditions must hold; a list in the metadata matches where one of its values does. */
export const filterSchema = z
  .record(path, condition)
  .refine(
    (filter) => Object.keys(filter).length <= MOST_CONDITIONS,
    `must hold ${MOST_CONDITIONS} conditions or fewer`,
  )
  .describe(
    'By path: "metadata.year": 2020, "metadata.tag": { "in": ["a", "b"] }, "metadata.size": { "gte": 10, "lt": 20 }.',
  );
export type FilterInput = z.infer<typeof filterSchema>;

/** A filter in Qdrant's own form. */
export interface VectorFilter {
  readonly must: readonly VectorCondition[];
}

type VectorCondition =
  | { readonly key: string; readonly match: { readonly value: Scalar } | { readonly any: readonly Scalar[] } }
  | { readonly key: string; readonly range: Readonly<Record<string, number>> }
  | { readonly should: readonly VectorCondition[] };

/** @returns undefined for a filter that asks for nothing. */
export function vectorFilter(filter: FilterInput | undefined): VectorFilter | undefined {
  const conditions = Object.entries(filter ?? {});
  if (conditions.length === 0) return undefined;
  return { must: conditions.map(([key, wanted]) => translate(key, wanted)) };
}

function translate(key: string, wanted: z.infer<typeof condition>): VectorCondition {
  if (typeof wanted !== "object") return equal(key, wanted);
  if (!("in" in wanted)) return { key, range: wanted as Readonly<Record<string, number>> };
  const texts = wanted.in.filter((value) => typeof value === "string");
  const integers = wanted.in.filter((value) => Number.isSafeInteger(value));
  const others = wanted.in.filter((value) => typeof value === "boolean" || isFraction(value));
  // `any` takes values of one kind, and neither fractions nor booleans.
  const lists = [texts, integers].filter((values) => values.length > 0);
  return {
    should: [...lists.map((any) => ({ key, match: { any } })), ...others.map((one) => equal(key, one))],
  };
}

function equal(key: string, value: Scalar): VectorCondition {
  // `match` knows no fractions.
  return isFraction(value) ? { key, range: { gte: value, lte: value } } : { key, match: { value } };
}

function isFraction(value: Scalar): value is number {
  return typeof value === "number" && !Number.isSafeInteger(value);
}
