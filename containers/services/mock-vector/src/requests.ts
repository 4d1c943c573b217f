/** Schemas of requests; unknown fields are refused, in one sentence with their place. */
import { z } from "zod";
import { DISTANCES } from "./vectors.ts";

/** A request that can't be answered; the client sees status and sentence. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly statusCode: number;

  constructor(statusCode: 400 | 404 | 409 | 500, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** Each level of a filter costs a frame of the stack. */
const MAX_DEPTH = 64;
/** Points of one request, and of one answer, which must fit into memory. */
const MAX_POINTS = 10_000;
const MAX_DIMENSIONS = 65_536;
/** Products of larger values, added up, would not fit into 32-bit floats. */
const MAX_VALUE = 1e16;

/** @throws RequestError 400 with the first thing that is wrong and where. */
export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  refuseDepth(value);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // An unknown key, such as `batch`, is the reason for a missing key.
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  const place = issue?.path.filter((part) => part !== UNNAMED).join(".");
  throw new RequestError(400, `Format error in JSON body: ${place ? `${place}: ` : ""}${issue?.message}`);
}

/** Refuses deep nesting, without recursion, which would overflow the stack. @throws RequestError 400 */
function refuseDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) {
      throw new RequestError(400, `Format error in JSON body: it nests more than ${MAX_DEPTH} levels deep`);
    }
    level = level.flatMap((outer) => {
      // A vector's numbers have nothing within.
      const isVector = Array.isArray(outer) && typeof outer[0] === "number";
      return typeof outer !== "object" || outer === null || isVector ? [] : Object.values(outer);
    });
  }
}

/** A whole number from 0, or a UUID; as JSON numbers go, exact up to 2^53 - 1. */
export const pointId = z.union([z.int().min(0), z.guid().transform((text) => text.toLowerCase())], {
  error: "must be a whole number from 0 to 2^53 - 1, or a UUID",
});
export type PointId = z.infer<typeof pointId>;
const ids = z.array(pointId).min(1).max(MAX_POINTS);

/** Checked in one loop: a request may hold millions of numbers. */
const numbers = z.custom<number[]>(isVector, {
  error: `must be a list of 1 to ${MAX_DIMENSIONS} numbers from -1e16 to 1e16`,
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

/** The name of a collection's only vector, if it has no name. */
export const UNNAMED = "";

/** Values by names of vectors; with `isSingle`, of the vector without a name. */
function byVector<T extends z.ZodType>(schema: T, isSingle: (given: unknown) => boolean) {
  return z.preprocess(
    (given) => (isSingle(given) ? { [UNNAMED]: given } : given),
    z.record(z.string(), schema),
  );
}

/** One, or a list. */
function listOf<T extends z.ZodType>(schema: T, most: number) {
  return z.preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(schema).max(most));
}

export type Payload = Readonly<Record<string, unknown>>;
const payload = z.record(z.string(), z.unknown()).nullish();

const point = z.strictObject({ id: pointId, vector: byVector(numbers, Array.isArray), payload });
export type PointInput = z.infer<typeof point>;

export const upsertPoints = z.strictObject({ points: z.array(point).min(1).max(MAX_POINTS) });

/** Whether a filter accepts a point. */
export type Accepts = (id: PointId, payload: Payload) => boolean;

const scalar = z.union([z.string(), z.number(), z.boolean()]);

const match = z
  .union([z.strictObject({ value: scalar }), z.strictObject({ any: z.array(scalar) })], {
    error: "must be { value } or { any: [...] } with strings, numbers or booleans",
  })
  .transform((wanted) => {
    const listed = new Set<unknown>("any" in wanted ? wanted.any : [wanted.value]);
    return (value: unknown) => listed.has(value);
  });

const limit = z.number().nullish();
const range = z.strictObject({ gt: limit, gte: limit, lt: limit, lte: limit }).transform(
  ({ gt, gte, lt, lte }) =>
    (value: unknown) =>
      typeof value === "number" &&
      (gt == null || value > gt) &&
      (gte == null || value >= gte) &&
      (lt == null || value < lt) &&
      (lte == null || value <= lte),
);

const conditions = listOf(
  z.lazy(() => condition),
  1000,
).default([]);
const clauses = { must: conditions, should: conditions, must_not: conditions };

/** A filter as a function. */
const clausesFilter = z.strictObject(clauses).transform(acceptsClauses);

function acceptsClauses({ must, should, must_not }: Record<keyof typeof clauses, Accepts[]>): Accepts {
  return (id, payload) =>
    must.every((accepts) => accepts(id, payload)) &&
    (should.length === 0 || should.some((accepts) => accepts(id, payload))) &&
    !must_not.some((accepts) => accepts(id, payload));
}

/** Other forms of conditions (is_empty, geo, nested, full text …) are refused. */
const condition: z.ZodType<Accepts> = z
  .strictObject({
    key: z.string().optional(),
    match: match.optional(),
    range: range.optional(),
    has_id: z
      .array(pointId)
      .transform((given) => new Set(given))
      .optional(),
    ...clauses,
  })
  .transform(({ key, match, range, has_id, ...nested }, context): Accepts => {
    const test = match ?? range;
    const forms = [match, range, has_id, Object.values(nested).flat()[0]];
    if (
      forms.filter((form) => form !== undefined).length > 1 ||
      (key === undefined) !== (test === undefined)
    ) {
      const message = "must be { key, match }, { key, range }, { has_id } or { must, should, must_not }";
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    }
    if (key !== undefined && test) return (_id, payload) => valuesAt(payload, key).some(test);
    if (has_id) return (id) => has_id.has(id);
    return acceptsClauses(nested);
  });

/** Values at `a.b`, or at each element of `a[].b`; a list that is the value itself counts by its elements. */
function valuesAt(payload: Payload, path: string): unknown[] {
  let values: unknown[] = [payload];
  for (const part of path.split(".")) {
    const isEach = part.endsWith("[]");
    const name = isEach ? part.slice(0, -2) : part;
    values = values.flatMap((value) => {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return [];
      const inner = (value as Payload)[name];
      return isEach || !Array.isArray(inner) ? inner : [inner];
    });
  }
  return values.flat();
}

/** Without a filter all points are accepted. */
export const filter = clausesFilter.prefault({});

/** All, none, or some keys; a path would count as an unknown key. */
const withPayload = z.union(
  [z.boolean(), z.array(z.string().regex(/^[^.[\]]+$/, "must be a key, not a path"))],
  { error: "must be true, false, or a list of keys" },
);
/** All, none, or some names. */
const withVector = z.union([z.boolean(), z.array(z.string())]).default(false);

const nearest = z.union([numbers, pointId]);

/** A vector, the id of a point, or the fusion of prefetches by reciprocal ranks. */
const query = z.union(
  [
    nearest,
    z.strictObject({ nearest }).transform((given) => given.nearest),
    z.strictObject({ fusion: z.literal("rrf") }).transform(({ fusion }) => fusion),
  ],
  {
    error:
      "must be a vector of numbers from -1e16 to 1e16, the id of a point, { nearest } with one of them, or { fusion: 'rrf' }",
  },
);

const pageSize = z.int().min(1).max(MAX_POINTS).default(10);

const prefetch = z.strictObject({
  query,
  using: z.string().default(UNNAMED),
  filter,
  /** Parameters of approximate search, without effect on this exact search. */
  params: z.looseObject({}).nullish(),
  score_threshold: z.number().nullish(),
  limit: pageSize,
});
export type Prefetch = z.infer<typeof prefetch>;

export const queryRequest = z.strictObject({
  ...prefetch.shape,
  prefetch: listOf(prefetch, 16).default([]),
  offset: z.int().min(0).max(MAX_POINTS).default(0),
  with_payload: withPayload.default(false),
  with_vector: withVector,
});
export type QueryRequest = z.infer<typeof queryRequest>;

export const queryBatch = z.strictObject({ searches: z.array(queryRequest) });

/** A name is a part of URLs and keys. */
export const collectionName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,255}$/, "a collection's name must be 1 to 255 letters, digits and _ . -");

/** Settings of storage and indexes: they change no answer of an exact search. */
const ignored = z.unknown().optional();

const vectorParams = z
  .strictObject({
    size: z.int().min(1).max(MAX_DIMENSIONS),
    distance: z.enum(DISTANCES),
    on_disk: ignored,
    hnsw_config: ignored,
  })
  .transform(({ size, distance }) => ({ size, distance }));

export const createCollection = z.strictObject({
  vectors: byVector(
    vectorParams,
    (given) => typeof (given as { size?: unknown } | null)?.size === "number",
  ).refine((named) => Object.keys(named).length > 0, "a collection needs a vector"),
  shard_number: ignored,
  replication_factor: ignored,
  write_consistency_factor: ignored,
  on_disk_payload: ignored,
  hnsw_config: ignored,
  optimizers_config: ignored,
  wal_config: ignored,
});
/** Vectors of a collection by name. */
export type VectorParams = z.infer<typeof createCollection>["vectors"];

/** Points by their ids, or those that a filter accepts. */
export const deletePoints = z
  .strictObject({ points: ids.optional(), filter: clausesFilter.optional() })
  .refine(
    ({ points, filter }) => (points === undefined) !== (filter === undefined),
    "must hold points or filter",
  )
  .transform(({ points, filter }) => points ?? filter ?? []);

const selection = { with_payload: withPayload.default(true), with_vector: withVector };

export const retrievePoints = z.strictObject({ ids, ...selection });

export const scrollPoints = z.strictObject({
  offset: pointId.nullish(),
  limit: pageSize,
  filter,
  ...selection,
});

export const countPoints = z.strictObject({ filter, exact: z.boolean().nullish() });
