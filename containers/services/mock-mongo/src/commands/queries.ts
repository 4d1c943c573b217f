/** find, getMore, killCursors, count and aggregate. */

import type { Document } from "bson";
import { CommandError, countField, documentField, listField } from "../documents.ts";
import { type Copy, matches, projector, runPipeline } from "../query.ts";
import { namespaceOf } from "../store.ts";
import type { Reply } from "../wire.ts";
import { type Command, type CommandContext, databaseOf, restOf, targetOf } from "./command.ts";

/** MongoDB's default of the first batch. */
const FIRST_BATCH_DOCUMENTS = 101;

/** @param options - What holds `batchSize`. */
async function openCursor(
  { store, cursors }: CommandContext,
  body: Document,
  pipeline: readonly unknown[],
  options: Document,
  copy?: Copy,
): Promise<Reply> {
  const target = targetOf(body);
  const batchSize = countField(options, "batchSize", FIRST_BATCH_DOCUMENTS);
  const result = runPipeline(store, store.find(target), pipeline, cursors.memory, copy);
  const isOnly = options.singleBatch === true;
  return cursors.open(result, namespaceOf(target), { batchSize, isOnly }, restOf(body));
}

export const READING: Readonly<Record<string, Command>> = {
  find: {
    fields: [
      ...["filter", "projection", "sort", "skip", "limit", "batchSize", "singleBatch"],
      ...["hint", "allowDiskUse", "noCursorTimeout"],
    ],
    run(body, context) {
      const filter = documentField(body, "filter", {});
      const sort = documentField(body, "sort", {});
      const pipeline: Document[] = [{ $match: filter }];
      if (Object.keys(sort).length > 0) pipeline.push({ $sort: sort });
      const skip = countField(body, "skip", 0);
      if (skip > 0) pipeline.push({ $skip: skip });
      const limit = countField(body, "limit", 0);
      if (limit > 0) pipeline.push({ $limit: limit });
      return openCursor(context, body, pipeline, body, projector(documentField(body, "projection", {})));
    },
  },

  aggregate: {
    fields: ["pipeline", "cursor", "allowDiskUse", "bypassDocumentValidation", "hint"],
    run(body, context) {
      if (typeof body.aggregate === "number") {
        throw new CommandError(
          73,
          "A pipeline of a database is not supported by this server; name a collection",
        );
      }
      return openCursor(context, body, listField(body, "pipeline"), documentField(body, "cursor", {}));
    },
  },

  getMore: {
    fields: ["collection", "batchSize"],
    run(body, { cursors }) {
      const namespace = `${databaseOf(body)}.${String(body.collection)}`;
      const batchSize = countField(body, "batchSize", 0) || Number.POSITIVE_INFINITY;
      return cursors.next(Number(body.getMore), namespace, batchSize, restOf(body));
    },
  },

  killCursors: {
    fields: ["cursors"],
    run(body, { cursors }) {
      const ids = listField(body, "cursors");
      const cursorsKilled = ids.filter((id) => cursors.kill(Number(id)));
      const cursorsNotFound = ids.filter((id) => !cursorsKilled.includes(id));
      return { cursorsKilled, cursorsNotFound, cursorsAlive: [], cursorsUnknown: [] };
    },
  },

  /** Sent by the drivers' estimatedDocumentCount; their countDocuments is a pipeline. */
  count: {
    fields: ["query"],
    async run(body, { store }) {
      const query = documentField(body, "query", {});
      const collection = store.find(targetOf(body));
      if (collection !== undefined && Object.keys(query).length === 0) return { n: store.count(collection) };
      const rest = restOf(body);
      let n = 0;
      for (const row of matches(store, collection, query)) {
        if (row === undefined) await rest();
        else n += 1;
      }
      return { n };
    },
  },
};
