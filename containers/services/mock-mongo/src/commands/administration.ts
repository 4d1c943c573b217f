/** Handshake, collections and indexes. */
import { Patience } from "@engine-room/service-process";
import { type Document, UUID } from "bson";
import { FIRST_BATCH_DOCUMENTS } from "../cursors.ts";
import { MAX_DOCUMENT_BYTES, write } from "../documents.ts";
import { CommandError } from "../errors.ts";
import type { IndexSpec } from "../indexes.ts";
import { predicate } from "../query.ts";
import { CursorReply } from "../reply.ts";
import { ListSource } from "../sources.ts";
import type { Collection, Store } from "../store.ts";
import { MAX_MESSAGE_BYTES } from "../wire.ts";
import {
  type Command,
  type CommandContext,
  countField,
  databaseOf,
  documentField,
  findCollection,
  listField,
  namespaceOf,
} from "./command.ts";
import { MAX_WRITE_BATCH } from "./writing.ts";

/** The protocol of MongoDB 7.0: what the drivers of today expect, and what this server answers. */
const WIRE_VERSION = 21;
const VERSION = "7.0.0";

export const hello: Command = {
  // Drivers of tomorrow tell more about themselves.
  fields: undefined,
  run({ body }, { connectionId }) {
    return {
      ...("hello" in body ? {} : { ismaster: true }),
      helloOk: true,
      isWritablePrimary: true,
      maxBsonObjectSize: MAX_DOCUMENT_BYTES,
      maxMessageSizeBytes: MAX_MESSAGE_BYTES,
      maxWriteBatchSize: MAX_WRITE_BATCH,
      localTime: new Date(),
      logicalSessionTimeoutMinutes: 30,
      connectionId,
      minWireVersion: 0,
      maxWireVersion: WIRE_VERSION,
      readOnly: false,
    };
  },
};

export const buildInfo: Command = {
  fields: [],
  run: () => ({
    version: VERSION,
    versionArray: [7, 0, 0, 0],
    gitVersion: "",
    modules: [],
    storageEngines: ["lmdb"],
    bits: 64,
    maxBsonObjectSize: MAX_DOCUMENT_BYTES,
  }),
};

export const ping: Command = { fields: [], run: () => ({}) };

/** Sessions carry no state here: ending them is nothing to do. */
export const endSessions: Command = { fields: [], run: () => ({}) };

export const listCollections: Command = {
  fields: ["filter", "nameOnly", "cursor", "authorizedCollections"],
  run({ body }, { store, cursors }) {
    const database = databaseOf(body);
    const test = predicate(documentField(body, "filter", {}));
    const rows = store
      .list(database)
      .map((collection) => describe(collection))
      .filter(test)
      .map((row) => (body.nameOnly === true ? { name: row.name, type: row.type } : row));
    return firstRows(cursors, rows, `${database}.$cmd.listCollections`, body);
  },
};

async function firstRows(
  cursors: CommandContext["cursors"],
  rows: readonly Document[],
  namespace: string,
  body: Document,
): Promise<CursorReply> {
  const batchSize = countField(documentField(body, "cursor", {}), "batchSize", FIRST_BATCH_DOCUMENTS);
  const source = new ListSource(rows.map((row) => write(row)));
  return new CursorReply(
    await cursors.open(source, namespace, batchSize, false, new Patience()),
    "firstBatch",
  );
}

function describe({ name, uuid }: Collection): Document {
  return {
    name,
    type: "collection",
    options: {},
    info: { readOnly: false, uuid: new UUID(uuid) },
    idIndex: { v: 2, key: { _id: 1 }, name: "_id_" },
  };
}

export const listDatabases: Command = {
  fields: ["filter", "nameOnly", "authorizedDatabases"],
  run({ body }, { store }) {
    const test = predicate(documentField(body, "filter", {}));
    const names = [...new Set(store.list().map(({ database }) => database))];
    return {
      databases: names.map((name) => ({ name, sizeOnDisk: 0, empty: false })).filter(test),
      totalSize: 0,
    };
  },
};

export const create: Command = {
  fields: ["idIndex"],
  async run({ body }, { store }) {
    const { database, collection } = namespaceOf(body, "create");
    await store.write(() => {
      if (store.find(database, collection) !== undefined) {
        throw new CommandError(48, `Collection ${database}.${collection} already exists.`);
      }
      store.ensure(database, collection);
    });
    return {};
  },
};

export const drop: Command = {
  fields: [],
  async run({ body }, context) {
    const { database, collection: name } = namespaceOf(body, "drop");
    const indexes = await context.store.write(() => {
      const collection = existing(context.store, database, name);
      context.store.drop(collection);
      return collection.indexes.length + 1;
    });
    await context.store.purge();
    return { nIndexesWas: indexes, ns: `${database}.${name}` };
  },
};

export const dropDatabase: Command = {
  fields: [],
  async run({ body }, { store }) {
    const database = databaseOf(body);
    await store.write(() => {
      for (const collection of store.list(database)) store.drop(collection);
    });
    await store.purge();
    return { dropped: database };
  },
};

export const createIndexes: Command = {
  fields: ["indexes", "commitQuorum"],
  async run({ body }, { store }) {
    const { database, collection: name } = namespaceOf(body, "createIndexes");
    const wanted = listField(body, "indexes").map((index) => readIndex(index as Document));
    return store.write(() => {
      const isNew = store.find(database, name) === undefined;
      const collection = store.ensure(database, name);
      const added: IndexSpec[] = [];
      for (const index of wanted) {
        if (!isThere([...collection.indexes, ...added], index)) added.push(index);
      }
      store.setIndexes(collection, [...collection.indexes, ...added]);
      return {
        numIndexesBefore: collection.indexes.length + 1,
        numIndexesAfter: collection.indexes.length + added.length + 1,
        createdCollectionAutomatically: isNew,
      };
    });
  },
};

/** A name is a part of the keys that LMDB stores. */
const MAX_INDEX_NAME_BYTES = 500;
const INDEX_FIELDS = ["key", "name", "unique", "v", "background"];

function readIndex(index: Document): IndexSpec {
  const unknown = Object.keys(index).find((field) => !INDEX_FIELDS.includes(field));
  if (unknown !== undefined)
    throw new CommandError(67, `The index option '${unknown}' is not supported by this server`);
  const key = documentField(index, "key");
  const directions = Object.values(key);
  if (directions.length === 0 || directions.some((direction) => direction !== 1 && direction !== -1)) {
    throw new CommandError(
      67,
      "Values in an index key pattern must be 1 or -1: other kinds of index are not supported",
    );
  }
  if (typeof index.name !== "string" || index.name === "") {
    throw new CommandError(9, "The 'name' field is a required property of an index specification");
  }
  if (Buffer.byteLength(index.name) > MAX_INDEX_NAME_BYTES) {
    throw new CommandError(67, `The name of an index has at most ${MAX_INDEX_NAME_BYTES} bytes`);
  }
  return { name: index.name, key, unique: index.unique === true };
}

/** @throws CommandError 86 when another index has the name, 85 when the same one has another name. */
function isThere(indexes: readonly IndexSpec[], index: IndexSpec): boolean {
  const key = JSON.stringify(index.key);
  if (index.name === "_id_" || key === '{"_id":1}') return true;
  const named = indexes.find(({ name }) => name === index.name);
  if (named !== undefined) {
    if (JSON.stringify(named.key) === key && named.unique === index.unique) return true;
    throw new CommandError(86, `An existing index has the same name as the requested index: ${index.name}`);
  }
  const same = indexes.find((one) => JSON.stringify(one.key) === key);
  if (same === undefined) return false;
  throw new CommandError(85, `Index already exists with a different name: ${same.name}`);
}

export const listIndexes: Command = {
  fields: ["cursor"],
  run({ body }, context) {
    const collection = findCollection(context, body, "listIndexes");
    const { database, collection: name } = namespaceOf(body, "listIndexes");
    if (collection === undefined) throw new CommandError(26, `ns does not exist: ${database}.${name}`);
    const rows = [
      { v: 2, key: { _id: 1 }, name: "_id_" },
      ...collection.indexes.map(({ name: index, key, unique }) => ({
        v: 2,
        key,
        name: index,
        ...(unique && { unique }),
      })),
    ];
    return firstRows(context.cursors, rows, `${database}.${name}`, body);
  },
};

export const dropIndexes: Command = {
  fields: ["index"],
  async run({ body }, { store }) {
    const { database, collection: name } = namespaceOf(body, "dropIndexes");
    return store.write(() => {
      const collection = existing(store, database, name);
      const left = body.index === "*" ? [] : collection.indexes.filter((index) => index.name !== body.index);
      if (body.index !== "*" && left.length === collection.indexes.length) {
        throw new CommandError(27, `index not found with name [${String(body.index)}]`);
      }
      store.setIndexes(collection, left);
      return { nIndexesWas: collection.indexes.length + 1 };
    });
  },
};

function existing(store: Store, database: string, name: string): Collection {
  const collection = store.find(database, name);
  if (collection === undefined) throw new CommandError(26, "ns not found");
  return collection;
}
