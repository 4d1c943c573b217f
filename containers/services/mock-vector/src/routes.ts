/** The part of Qdrant's REST API that is answered: https://api.qdrant.tech/api-reference */
import { TimeSlice } from "@engine-room/service-process";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Collection, Database, Point, ScoredPoint } from "./database.ts";
import {
  collectionName,
  countPoints,
  createCollection,
  deletePoints,
  type PointId,
  type Prefetch,
  parse,
  type QueryRequest,
  queryBatch,
  queryRequest,
  RequestError,
  retrievePoints,
  scrollPoints,
  UNNAMED,
  upsertPoints,
} from "./requests.ts";

const MAX_ANSWER_CHARACTERS = 64 * 1024 * 1024;
/** Version of Qdrant whose API this is; the official clients compare it with their own. */
const VERSION = "1.16.0";
/** DEFAULT_RRF_K of Qdrant's lib/segment/src/common/reciprocal_rank_fusion.rs. */
const RRF_K = 2;

/** Every write is on disk before it is answered, whatever `wait` says. */
const COMPLETED = { operation_id: 0, status: "completed" };

const COLLECTION = "/collections/:name";

export function installRoutes(app: FastifyInstance, database: Database): void {
  const collectionOf = (request: FastifyRequest) => database.get(nameOf(request));

  app.get("/", () => ({ title: "engine-room vector database (Qdrant REST)", version: VERSION }));

  app.get("/collections", () =>
    answer({ collections: [...database.collections.keys()].sort().map((name) => ({ name })) }),
  );

  app.get(`${COLLECTION}/exists`, (request) => answer({ exists: database.collections.has(nameOf(request)) }));

  app.get(COLLECTION, (request) => answer(describe(collectionOf(request))));

  app.put(COLLECTION, async (request) => {
    const name = parse(collectionName, nameOf(request));
    await database.create(name, parse(createCollection, request.body).vectors);
    return answer(true);
  });

  app.delete(COLLECTION, async (request) => answer(await database.delete(nameOf(request))));

  app.put(`${COLLECTION}/points`, async (request) => {
    await collectionOf(request).upsert(parse(upsertPoints, request.body).points);
    return answer(COMPLETED);
  });

  app.post(`${COLLECTION}/points/delete`, async (request) => {
    const collection = collectionOf(request);
    const wanted = parse(deletePoints, request.body);
    await collection.remove(Array.isArray(wanted) ? wanted : collection.matching(wanted));
    return answer(COMPLETED);
  });

  app.post(`${COLLECTION}/points`, (request, reply) => {
    const collection = collectionOf(request);
    const { ids, ...selection } = parse(retrievePoints, request.body);
    const found = ids.flatMap((id) => collection.get(id) ?? []);
    return sendJson(reply, rowWriter()(collection, found, selection));
  });

  app.post(`${COLLECTION}/points/scroll`, (request, reply) => {
    const collection = collectionOf(request);
    const { offset, limit, filter, ...selection } = parse(scrollPoints, request.body);
    // One more, to know where the next page begins.
    const found = collection.page(offset ?? undefined, limit + 1, filter);
    const rows = rowWriter()(collection, found.slice(0, limit), selection);
    const next = JSON.stringify(found[limit]?.id ?? null);
    return sendJson(reply, `{"points":${rows},"next_page_offset":${next}}`);
  });

  app.post(`${COLLECTION}/points/count`, (request) => {
    const found = collectionOf(request).matching(parse(countPoints, request.body ?? {}).filter);
    return answer({ count: found.length });
  });

  app.post(`${COLLECTION}/points/query`, async (request, reply) => {
    const [found] = await answerQueries(collectionOf(request), [parse(queryRequest, request.body)]);
    return sendJson(reply, String(found));
  });

  app.post(`${COLLECTION}/points/query/batch`, async (request, reply) => {
    const found = await answerQueries(collectionOf(request), parse(queryBatch, request.body).searches);
    return sendJson(reply, `[${found.join(",")}]`);
  });
}

function nameOf(request: FastifyRequest): string {
  return (request.params as { readonly name: string }).name;
}

function describe({ stored, size }: Collection): object {
  const { [UNNAMED]: unnamed, ...named } = stored.vectors;
  return {
    status: "green",
    optimizer_status: "ok",
    points_count: size,
    segments_count: 1,
    // The official clients require all of it, also to create the same collection elsewhere.
    config: {
      params: { vectors: unnamed ?? named },
      hnsw_config: { m: 0, ef_construct: 100, full_scan_threshold: 10_000 },
      optimizer_config: {
        deleted_threshold: 0.2,
        vacuum_min_vector_number: 1000,
        default_segment_number: 1,
        flush_interval_sec: 0,
      },
      wal_config: { wal_capacity_mb: 32, wal_segments_ahead: 0 },
    },
    payload_schema: {},
  };
}

/** The frame around every result. */
function answer(result: unknown): object {
  return { result, status: "ok", time: 0 };
}

/** `answer` around a result that is JSON already. */
function sendJson(reply: FastifyReply, result: string): FastifyReply {
  return reply.type("application/json; charset=utf-8").send(`{"result":${result},"status":"ok","time":0}`);
}

/** Answers of all queries, as JSON; others have their turn between two of them. */
async function answerQueries(collection: Collection, queries: readonly QueryRequest[]): Promise<string[]> {
  const slice = new TimeSlice();
  const write = rowWriter();
  const answers: string[] = [];
  for (const query of queries) {
    answers.push(`{"points":${write(collection, runQuery(collection, query), query)}}`);
    await slice.rest();
  }
  return answers;
}

/** Writes points as JSON, as many as one answer may hold. @throws RequestError 400 when they are too many. */
function rowWriter(): (collection: Collection, points: readonly Point[], selection: Selection) => string {
  let characters = 0;
  return (collection, points, selection) => {
    const rows = points.map((point) => {
      const row = JSON.stringify(rowOf(collection, point, selection));
      characters += row.length;
      if (characters <= MAX_ANSWER_CHARACTERS) return row;
      throw new RequestError(
        400,
        `Wrong input: the answer would have more than ${MAX_ANSWER_CHARACTERS} characters; ask for fewer points, fewer keys of the payload, or no vectors`,
      );
    });
    return `[${rows.join(",")}]`;
  };
}

/** Fields of each point in an answer. */
type Selection = Pick<QueryRequest, "with_payload" | "with_vector">;

function rowOf(
  collection: Collection,
  { id, payload, ...scored }: Point | ScoredPoint,
  { with_payload: keys, with_vector: names }: Selection,
): object {
  const { [UNNAMED]: unnamed, ...named } = names ? collection.vectorsOf(id) : {};
  return {
    id,
    ...(keys && { payload: picked(payload, keys) }),
    ...(names && { vector: unnamed ?? picked(named, names) }),
    ...("score" in scored && { version: 0, ...scored }),
  };
}

function picked(object: object, wanted: true | readonly string[]): object {
  if (wanted === true) return object;
  return Object.fromEntries(Object.entries(object).filter(([name]) => wanted.includes(name)));
}

/** The best points of a query. @throws RequestError 400 for one that can't be answered. */
function runQuery(collection: Collection, request: QueryRequest): ScoredPoint[] {
  const { offset, prefetch: prefetches } = request;
  const end = offset + request.limit;
  const isFusion = request.query === "rrf";
  if (isFusion !== prefetches.length > 0 || prefetches.some(({ query }) => query === "rrf")) {
    throw new RequestError(
      400,
      "Bad request: a fusion needs prefetches with vectors or points, and only a fusion has prefetches",
    );
  }
  if (!isFusion) return nearestTo(collection, { ...request, limit: end }).slice(offset);
  const least = request.score_threshold ?? 0;
  return fuse(prefetches.map((prefetch) => nearestTo(collection, prefetch)))
    .filter(({ id, payload, score }) => request.filter(id, payload) && score >= least)
    .slice(offset, end);
}

function nearestTo(
  collection: Collection,
  { query, using, filter, limit, score_threshold }: Prefetch,
): ScoredPoint[] {
  const search = { using, limit, threshold: score_threshold };
  if (Array.isArray(query)) return collection.search({ ...search, query, accepts: filter });
  const vector = collection.vectorsOf(query)[using];
  if (vector === undefined) throw new RequestError(404, `Not found: No point with id ${query} found`);
  const accepts: Prefetch["filter"] = (id, payload) => id !== query && filter(id, payload);
  return collection.search({ ...search, query: vector, accepts });
}

/** Reciprocal rank fusion: a point's score is the sum of 1 / (2 + rank) over the lists that hold it, ranks from 0. */
export function fuse(lists: readonly (readonly Point[])[]): ScoredPoint[] {
  const fused = new Map<PointId, ScoredPoint>();
  for (const list of lists) {
    for (const [rank, point] of list.entries()) {
      const score = 1 / (RRF_K + rank) + (fused.get(point.id)?.score ?? 0);
      fused.set(point.id, { ...point, score });
    }
  }
  // Sorting is stable: points of equal scores keep their order. Qdrant promises no order there.
  return [...fused.values()].sort((a, b) => b.score - a.score);
}
