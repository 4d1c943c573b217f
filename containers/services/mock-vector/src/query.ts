/** Qdrant's query API: nearest by vector or point, prefetches, fusion of their ranks. */
import type { Patience } from "@engine-room/service-process";
import { z } from "zod";
import { type Collection, type ScoredPoint, UNNAMED } from "./collection.ts";
import { RequestError } from "./errors.ts";
import { compileFilter, type Filter, filterSchema } from "./filter.ts";
import { numbers, type PointId, pointId, vectorName } from "./points.ts";
import { payloadSelector, vectorSelector } from "./selectors.ts";

/** More results are refused: an answer must fit into memory. */
export const MAX_LIMIT = 10_000;
const DEFAULT_LIMIT = 10;
/** DEFAULT_RRF_K of Qdrant's lib/segment/src/common/reciprocal_rank_fusion.rs. */
const DEFAULT_RRF_K = 2;
const MAX_QUERIES = 100;

const nearest = z.union([numbers, pointId]);

const query = z.union(
  [
    nearest,
    z.strictObject({ nearest }),
    z.strictObject({ fusion: z.literal("rrf") }),
    z.strictObject({ rrf: z.strictObject({ k: z.int().min(1).max(1_000_000).nullish() }) }),
  ],
  {
    error:
      "must be a vector of numbers from -1e16 to 1e16, the id of a point, { nearest } with one of them, { fusion: 'rrf' } or { rrf: { k } }",
  },
);

/** Approximate search has parameters; this search is exact, so that they change nothing. */
const params = z.looseObject({}).nullish();

const parts = {
  query: query.nullish(),
  using: vectorName.nullish(),
  filter: filterSchema.nullish(),
  params,
  score_threshold: z.number().nullish(),
  limit: z.int().min(1).max(MAX_LIMIT).nullish(),
  lookup_from: z.null().optional(),
};

interface Prefetch {
  query?: z.infer<typeof query> | null | undefined;
  using?: string | null | undefined;
  filter?: Filter | null | undefined;
  score_threshold?: number | null | undefined;
  limit?: number | null | undefined;
  prefetch?: Prefetch | Prefetch[] | null | undefined;
}

const prefetch: z.ZodType<Prefetch> = z.lazy(() => z.strictObject({ ...parts, prefetch: prefetches }));
const prefetches = z.union([prefetch, z.array(prefetch).max(16)]).nullish();

export const queryRequest = z.strictObject({
  ...parts,
  prefetch: prefetches,
  offset: z.int().min(0).max(MAX_LIMIT).nullish(),
  with_payload: payloadSelector,
  with_vector: vectorSelector,
  shard_key: z.null().optional(),
});
export type QueryRequest = z.infer<typeof queryRequest>;

export const queryBatch = z.strictObject({ searches: z.array(queryRequest).min(1).max(MAX_QUERIES) });

/** The best points. @throws RequestError 400 for a query that can't be answered. */
export async function runQuery(
  collection: Collection,
  request: QueryRequest,
  patience: Patience,
): Promise<ScoredPoint[]> {
  const offset = request.offset ?? 0;
  const wanted = offset + (request.limit ?? DEFAULT_LIMIT);
  const found = await results(collection, { ...request, limit: wanted }, 0, patience);
  return found.slice(offset);
}

/** Prefetches may hold prefetches; nobody needs many levels. */
const MAX_DEPTH = 4;

async function results(
  collection: Collection,
  one: Prefetch,
  depth: number,
  patience: Patience,
): Promise<ScoredPoint[]> {
  if (depth > MAX_DEPTH)
    throw new RequestError(400, `Wrong input: prefetches nest more than ${MAX_DEPTH} deep`);
  const inner = listOf(one.prefetch);
  const wanted = one.limit ?? DEFAULT_LIMIT;
  const k = fusionConstant(one.query);
  if (k === undefined) {
    if (inner.length === 0) return nearestTo(collection, one, wanted, patience);
    throw new RequestError(400, "Bad request: prefetches are supported with a fusion query only");
  }
  if (inner.length === 0) {
    throw new RequestError(400, "Bad request: Fusion needs prefetches whose results it joins");
  }
  const lists: ScoredPoint[][] = [];
  for (const part of inner) lists.push(await results(collection, part, depth + 1, patience));
  const accepts = compileFilter(one.filter);
  return fuse(lists, k)
    .filter(({ id, payload }) => accepts === undefined || accepts(id, payload))
    .filter(({ score }) => one.score_threshold == null || score >= one.score_threshold)
    .slice(0, wanted);
}

/** The k of a fusion; undefined for another query. */
function fusionConstant(given: Prefetch["query"]): number | undefined {
  if (!isObject(given)) return undefined;
  if ("fusion" in given) return DEFAULT_RRF_K;
  return "rrf" in given ? (given.rrf.k ?? DEFAULT_RRF_K) : undefined;
}

async function nearestTo(
  collection: Collection,
  one: Prefetch,
  wanted: number,
  patience: Patience,
): Promise<ScoredPoint[]> {
  const accepts = compileFilter(one.filter);
  const target = isObject(one.query) && "nearest" in one.query ? one.query.nearest : one.query;
  if (target === null || target === undefined) {
    const points = await collection.page(undefined, wanted, accepts, patience);
    return points.map((point) => ({ ...point, score: 0 }));
  }
  const request = {
    using: one.using ?? UNNAMED,
    limit: wanted,
    threshold: one.score_threshold ?? undefined,
  };
  if (isVector(target)) return collection.search({ ...request, query: target, accepts }, patience);
  const id = target as PointId;
  const vector = collection.vectors(id)[request.using];
  if (vector === undefined) throw new RequestError(404, `Not found: No point with id ${id} found`);
  const others = (candidate: PointId, payload: Readonly<Record<string, unknown>>) =>
    candidate !== id && (accepts === undefined || accepts(candidate, payload));
  return collection.search({ ...request, query: vector, accepts: others }, patience);
}

/** Reciprocal rank fusion: a point's score is the sum of 1 / (k + rank) over the lists that hold it, ranks from 0. */
export function fuse(lists: readonly (readonly ScoredPoint[])[], k = DEFAULT_RRF_K): ScoredPoint[] {
  const fused = new Map<PointId, ScoredPoint>();
  for (const list of lists) {
    for (const [rank, point] of list.entries()) {
      const score = 1 / (k + rank) + (fused.get(point.id)?.score ?? 0);
      fused.set(point.id, { ...point, score });
    }
  }
  // Sorting is stable: of equal scores the one that came first stays first. Qdrant promises no order there.
  return [...fused.values()].sort((a, b) => b.score - a.score);
}

function listOf<T>(given: T | T[] | null | undefined): T[] {
  if (given === null || given === undefined) return [];
  return Array.isArray(given) ? given : [given];
}

function isObject(
  value: Prefetch["query"],
): value is Extract<Prefetch["query"], object> & { length?: never } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isVector(value: unknown): value is readonly number[] {
  return Array.isArray(value);
}
