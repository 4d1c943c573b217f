/** Points as clients name and send them. */
import { z } from "zod";

/** A whole number from 0, or a UUID; as JSON numbers go, exact up to 2^53 - 1. */
export const pointId = z.union([z.int().min(0), z.guid().transform((text) => text.toLowerCase())]);
export type PointId = z.infer<typeof pointId>;

export const MAX_DIMENSIONS = 65_536;
/** Products of larger values, added up, would not fit into 32-bit floats. */
const MAX_VALUE = 1e16;

/** Checked in one loop: a request may hold millions of numbers. */
export const numbers = z.custom<readonly number[]>(isVector, {
  message: `must be a list of 1 to ${MAX_DIMENSIONS} numbers from -1e16 to 1e16`,
});

function isVector(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > MAX_DIMENSIONS) return false;
  for (let index = 0; index < value.length; index++) {
    const number: unknown = value[index];
    // NaN is in no range, and Infinity, which JSON has as 1e999, in none of these.
    if (typeof number !== "number" || !(number >= -MAX_VALUE && number <= MAX_VALUE)) return false;
  }
  return true;
}

export const vectorName = z.string().min(1).max(100);

/** One vector for a collection without names, or vectors by name. */
const pointVectors = z.union([numbers, z.record(vectorName, numbers)]);
const payload = z.record(z.string(), z.unknown()).nullish();

/** Points of one request. */
export const MAX_POINTS = 10_000;

const point = z.strictObject({ id: pointId, vector: pointVectors, payload });
export type PointInput = z.infer<typeof point>;

/** Points one by one. */
const pointList = z.array(point).min(1).max(MAX_POINTS);

/** Points by columns, as `Batch` of the Python client sends them. */
const pointBatch = z
  .strictObject({
    ids: z.array(pointId).min(1).max(MAX_POINTS),
    vectors: z.union([
      z.array(numbers).max(MAX_POINTS),
      z.record(vectorName, z.array(numbers).max(MAX_POINTS)),
    ]),
    payloads: z.array(payload).max(MAX_POINTS).nullish(),
  })
  .superRefine(({ ids, vectors, payloads }, context) => {
    const columns = Array.isArray(vectors) ? [vectors] : Object.values(vectors);
    for (const column of [...columns, ...(payloads ? [payloads] : [])]) {
      if (column.length !== ids.length) {
        context.addIssue({
          code: "custom",
          message: `has ${ids.length} ids and a column of ${column.length}`,
        });
      }
    }
  })
  .transform(({ ids, vectors, payloads }): PointInput[] =>
    ids.map((id, row) => ({ id, vector: rowOf(vectors, row), payload: payloads?.[row] ?? null })),
  );

type Columns = readonly (readonly number[])[] | Readonly<Record<string, readonly (readonly number[])[]>>;

function rowOf(vectors: Columns, row: number): PointInput["vector"] {
  if (isList(vectors)) return vectors[row] ?? [];
  return Object.fromEntries(Object.entries(vectors).map(([name, column]) => [name, column[row] ?? []]));
}

function isList(vectors: Columns): vectors is readonly (readonly number[])[] {
  return Array.isArray(vectors);
}

const shardKey = { shard_key: z.null().optional() };

const pointsRequest = z.strictObject({ points: pointList, ...shardKey }).transform(({ points }) => points);
const batchRequest = z.strictObject({ batch: pointBatch, ...shardKey }).transform(({ batch }) => batch);

/** The form that an upsert has; both give a list of points. */
export function upsertSchema(body: unknown): z.ZodType<PointInput[]> {
  return typeof body === "object" && body !== null && "batch" in body ? batchRequest : pointsRequest;
}
