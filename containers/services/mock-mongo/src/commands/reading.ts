/** find, getMore, killCursors, count, aggregate. */
import type { Patience } from "@engine-room/service-process";
import { type Document, Long } from "bson";
import { FIRST_BATCH_DOCUMENTS } from "../cursors.ts";
import { CommandError } from "../errors.ts";
import { runPipeline } from "../pipeline.ts";
import { projector } from "../projection.ts";
import { matches, predicate } from "../query.ts";
import { CursorReply } from "../reply.ts";
import { readOrder, Sorter } from "../sorting.ts";
import { ListSource, ScanSource, SequenceSource, type Source } from "../sources.ts";
import type { Collection, Store } from "../store.ts";
import {
  type Command,
  countField,
  databaseOf,
  documentField,
  findCollection,
  listField,
  namespaceOf,
  patienceOf,
  refuseOptions,
} from "./command.ts";

/** Options of `find` that would change its result. */
const UNSUPPORTED = ["collation", "tailable", "awaitData", "min", "max", "returnKey", "showRecordId", "let"];

export const find: Command = {
  fields: [
    "filter",
    "projection",
    "sort",
    "skip",
    "limit",
    "batchSize",
    "singleBatch",
    "hint",
    "allowDiskUse",
    "noCursorTimeout",
    ...UNSUPPORTED,
  ],
  async run({ body }, context) {
    refuseOptions(body, UNSUPPORTED);
    const { database, collection: name } = namespaceOf(body, "find");
    const batchSize = countField(body, "batchSize", FIRST_BATCH_DOCUMENTS);
    const patience = patienceOf(body);
    const source = await findSource(context.store, findCollection(context, body, "find"), body, patience);
    const isSingle = body.singleBatch === true;
    const batch = await context.cursors.open(source, `${database}.${name}`, batchSize, isSingle, patience);
    return new CursorReply(batch, "firstBatch");
  },
};

async function findSource(
  store: Store,
  collection: Collection | undefined,
  body: Document,
  patience: Patience,
): Promise<Source> {
  const filter = documentField(body, "filter", {});
  const order = readOrder(documentField(body, "sort", {}));
  const skip = countField(body, "skip", 0);
  const limit = countField(body, "limit", 0) || Number.POSITIVE_INFINITY;
  const project = projector(documentField(body, "projection", {}));
  // A filter that can't be read is an error on an empty collection as well.
  predicate(filter);
  if (collection === undefined) return new ListSource([]);
  const found = matches(store, collection, filter);
  if (order.length === 0) return new ScanSource(found, project, skip, limit);
  const sorter = new Sorter<number>(order, skip + limit);
  for (const match of found) {
    if (match === undefined) await patience.rest();
    else sorter.add(match.sequence, match.document, match.sequence);
  }
  return new SequenceSource(store, collection, Float64Array.from(sorter.sorted().slice(skip)), project);
}

export const getMore: Command = {
  fields: ["collection", "batchSize"],
  async run({ body }, { cursors }) {
    const { collection } = body;
    if (typeof collection !== "string")
      throw new CommandError(14, "BSON field 'collection' is the wrong type");
    const batchSize = countField(body, "batchSize", 0) || Number.POSITIVE_INFINITY;
    const namespace = `${databaseOf(body)}.${collection}`;
    const batch = await cursors.next(toLong(body.getMore), namespace, batchSize, patienceOf(body));
    return new CursorReply(batch, "nextBatch");
  },
};

export const killCursors: Command = {
  fields: ["cursors"],
  run({ body }, { cursors }) {
    const ids = listField(body, "cursors").map(toLong);
    const killed = ids.filter((id) => cursors.kill(id));
    return {
      cursorsKilled: killed,
      cursorsNotFound: ids.filter((id) => !killed.includes(id)),
      cursorsAlive: [],
      cursorsUnknown: [],
    };
  },
};

export const count: Command = {
  fields: ["query", "limit", "skip", "hint", "fields", "collation"],
  async run({ body }, context) {
    refuseOptions(body, ["collation"]);
    const collection = findCollection(context, body, "count");
    const query = documentField(body, "query", {});
    const skip = countField(body, "skip", 0);
    const limit = countField(body, "limit", 0) || Number.POSITIVE_INFINITY;
    predicate(query);
    if (collection === undefined) return { n: 0 };
    let n = 0;
    if (Object.keys(query).length === 0) n = context.store.count(collection);
    else {
      const patience = patienceOf(body);
      for (const match of matches(context.store, collection, query)) {
        if (match === undefined) await patience.rest();
        else n += 1;
      }
    }
    return { n: Math.min(Math.max(n - skip, 0), limit) };
  },
};

export const aggregateCommand: Command = {
  fields: [
    "pipeline",
    "cursor",
    "explain",
    "allowDiskUse",
    "bypassDocumentValidation",
    "hint",
    "collation",
    "let",
  ],
  async run({ body }, context) {
    refuseOptions(body, ["explain", "collation", "let"]);
    const { database, collection: name } = namespaceOf(body, "aggregate");
    const batchSize = countField(documentField(body, "cursor", {}), "batchSize", FIRST_BATCH_DOCUMENTS);
    const patience = patienceOf(body);
    const collection = findCollection(context, body, "aggregate");
    const found = await runPipeline(context.store, collection, listField(body, "pipeline"), patience);
    const source = new ListSource(found);
    const batch = await context.cursors.open(source, `${database}.${name}`, batchSize, false, patience);
    return new CursorReply(batch, "firstBatch");
  },
};

function toLong(value: unknown): Long {
  if (value instanceof Long) return value;
  if (typeof value === "number" && Number.isInteger(value)) return Long.fromNumber(value);
  throw new CommandError(14, "A cursor id must be a 64-bit integer");
}
