/** The part of Qdrant's REST API that is answered: https://api.qdrant.tech/api-reference */
import { Patience } from "@engine-room/service-process";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { AnswerRoom } from "./answer-room.ts";
import { type Collection, type LivePoint, UNNAMED } from "./collection.ts";
import type { Collections } from "./collections.ts";
import { RequestError } from "./errors.ts";
import { compileFilter } from "./filter.ts";
import { pointId, upsertSchema } from "./points.ts";
import { parse } from "./problems.ts";
import { type QueryRequest, queryBatch, queryRequest, runQuery } from "./query.ts";
import {
  type CreateCollection,
  collectionName,
  countPoints,
  createCollection,
  deletePoints,
  retrievePoints,
  scrollPoints,
} from "./schemas.ts";
import { recordOf, type Selection } from "./selectors.ts";
import type { VectorParams } from "./store.ts";

const DEFAULT_SCROLL_LIMIT = 10;
/** Version of Qdrant whose API this is; the official clients compare it with their own. */
const VERSION = "1.16.0";

export function installRoutes(app: FastifyInstance, collections: Collections): void {
  app.get("/", () => ({ title: "engine-room vector database (Qdrant REST)", version: VERSION }));
  collectionRoutes(app, collections);
  writeRoutes(app, collections);
  readRoutes(app, collections);
  searchRoutes(app, collections);
}

function collectionRoutes(app: FastifyInstance, collections: Collections): void {
  app.get("/collections", () => answer({ collections: collections.names().map((name) => ({ name })) }));

  app.get("/collections/:name/exists", (request) => answer({ exists: collections.has(nameOf(request)) }));

  app.get("/collections/:name", (request) => answer(describe(collections.get(nameOf(request)))));

  app.put("/collections/:name", async (request) => {
    const name = parse(collectionName, nameOf(request));
    await collections.create(name, readVectors(parse(createCollection, request.body)));
    return answer(true);
  });

  app.delete("/collections/:name", async (request) => answer(await collections.remove(nameOf(request))));
}

function readVectors({ vectors }: CreateCollection): VectorParams {
  const named: Readonly<Record<string, VectorParams[string]>> = isOneVector(vectors)
    ? { [UNNAMED]: vectors }
    : vectors;
  return Object.fromEntries(
    Object.entries(named).map(([name, { size, distance }]) => [name, { size, distance }]),
  );
}

function isOneVector(vectors: CreateCollection["vectors"]): vectors is VectorParams[string] {
  return typeof vectors.size === "number";
}

function describe({ stored, size }: Collection): object {
  const { [UNNAMED]: unnamed, ...named } = stored.vectors;
  return {
    status: "green",
    optimizer_status: "ok",
    vectors_count: size,
    indexed_vectors_count: 0,
    points_count: size,
    segments_count: 1,
    config: {
      params: { vectors: unnamed ?? named, shard_number: 1, replication_factor: 1, on_disk_payload: false },
      hnsw_config: { m: 0, ef_construct: 100, full_scan_threshold: 10_000 },
      optimizer_config: {
        deleted_threshold: 0.2,
        vacuum_min_vector_number: 1000,
        default_segment_number: 1,
        flush_interval_sec: 0,
      },
    },
    payload_schema: {},
  };
}

function writeRoutes(app: FastifyInstance, collections: Collections): void {
  app.put("/collections/:name/points", async (request) => {
    await collections.get(nameOf(request)).upsert(parse(upsertSchema(request.body), request.body));
    return answer(completed());
  });

  app.post("/collections/:name/points/delete", async (request) => {
    const collection = collections.get(nameOf(request));
    const body = parse(deletePoints, request.body);
    const accepts = "filter" in body ? (compileFilter(body.filter) ?? (() => true)) : undefined;
    await collection.remove(
      "points" in body ? body.points : await collection.matching(accepts ?? (() => false)),
    );
    return answer(completed());
  });
}

function readRoutes(app: FastifyInstance, collections: Collections): void {
  app.post("/collections/:name/points", (request, reply) => {
    const collection = collections.get(nameOf(request));
    const body = parse(retrievePoints, request.body);
    const found = body.ids.flatMap((id) => collection.get(id) ?? []);
    const selection = { payload: body.with_payload ?? true, vector: body.with_vector };
    return sendJson(reply, rowsOf(collection, found, selection, new AnswerRoom()));
  });

  app.get("/collections/:name/points/:id", (request) => {
    const collection = collections.get(nameOf(request));
    const { id: text } = request.params as { readonly id: string };
    const id = parse(pointId, /^\d+$/.test(text) ? Number(text) : text);
    const found = collection.get(id);
    if (found === undefined) throw new RequestError(404, `Not found: Point with id ${id} does not exists!`);
    return answer(recordOf(collection, found, { payload: true, vector: true }));
  });

  app.post("/collections/:name/points/scroll", async (request, reply) => {
    const collection = collections.get(nameOf(request));
    const body = parse(scrollPoints, request.body);
    const limit = body.limit ?? DEFAULT_SCROLL_LIMIT;
    // One more, to know where the next page begins.
    const found = await collection.page(body.offset ?? undefined, limit + 1, compileFilter(body.filter));
    const selection = { payload: body.with_payload ?? true, vector: body.with_vector };
    const rows = rowsOf(collection, found.slice(0, limit), selection, new AnswerRoom());
    const next = JSON.stringify(found[limit]?.id ?? null);
    return sendJson(reply, `{"points":${rows},"next_page_offset":${next}}`);
  });

  app.post("/collections/:name/points/count", async (request) => {
    const collection = collections.get(nameOf(request));
    const accepts = compileFilter(parse(countPoints, request.body ?? {}).filter);
    const count = accepts === undefined ? collection.size : (await collection.matching(accepts)).length;
    return answer({ count });
  });
}

function searchRoutes(app: FastifyInstance, collections: Collections): void {
  app.post("/collections/:name/points/query", async (request, reply) => {
    const collection = collections.get(nameOf(request));
    const body = parse(queryRequest, request.body);
    return sendJson(reply, await search(collection, body, new AnswerRoom(), new Patience()));
  });

  app.post("/collections/:name/points/query/batch", async (request, reply) => {
    const collection = collections.get(nameOf(request));
    const room = new AnswerRoom();
    const patience = new Patience();
    const results: string[] = [];
    for (const one of parse(queryBatch, request.body).searches) {
      results.push(await search(collection, one, room, patience));
    }
    return sendJson(reply, `[${results.join(",")}]`);
  });
}

async function search(
  collection: Collection,
  body: QueryRequest,
  room: AnswerRoom,
  patience: Patience,
): Promise<string> {
  const found = await runQuery(collection, body, patience);
  return `{"points":${rowsOf(collection, found, { payload: body.with_payload, vector: body.with_vector }, room)}}`;
}

/** Points as JSON; with their scores where they have some. @throws RequestError 400 when they take too much room. */
function rowsOf(
  collection: Collection,
  points: readonly (LivePoint & { readonly score?: number })[],
  selection: Selection,
  room: AnswerRoom,
): string {
  const rows = points.map((point) => {
    const scored = point.score === undefined ? {} : { version: 0, score: point.score };
    const row = JSON.stringify({ ...recordOf(collection, point, selection), ...scored });
    room.take(row.length);
    return row;
  });
  return `[${rows.join(",")}]`;
}

let operations = 0;

/** Every write is on disk before it is answered, whatever `wait` says. */
function completed(): object {
  operations += 1;
  return { operation_id: operations, status: "completed" };
}

/** The frame around every result. */
function answer(result: unknown): object {
  return { result, status: "ok", time: 0 };
}

/** `answer` around a result that is JSON already. */
function sendJson(reply: FastifyReply, result: string): FastifyReply {
  return reply.type("application/json; charset=utf-8").send(`{"result":${result},"status":"ok","time":0}`);
}

function nameOf(request: FastifyRequest): string {
  return (request.params as { readonly name: string }).name;
}
