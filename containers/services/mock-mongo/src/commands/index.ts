/** All commands by name, and those of handshake, collections and indexes; any other gets MongoDB's own error 59. */

import { type Document, Double } from "bson";
import { CommandError, documentField, listField, MAX_DOCUMENT_BYTES, write } from "../documents.ts";
import { predicate } from "../query.ts";
import { type IndexSpec, namespaceOf } from "../store.ts";
import { batchReply, MAX_MESSAGE_BYTES, type Reply, type Request } from "../wire.ts";
import {
  type Command,
  type CommandContext,
  commandName,
  databaseOf,
  existing,
  refuseFields,
  targetOf,
} from "./command.ts";
import { READING } from "./queries.ts";
import { MAX_WRITE_BATCH, WRITING } from "./writes.ts";

/** The protocol of MongoDB 7.0, which current drivers require. */
const WIRE_VERSION = 21;

const hello: Command = {
  // Newer drivers may send fields that are not known here.
  fields: undefined,
  run: (body) => ({
    ...("hello" in body ? {} : { ismaster: true }),
    helloOk: true,
    isWritablePrimary: true,
    maxBsonObjectSize: MAX_DOCUMENT_BYTES,
    maxMessageSizeBytes: MAX_MESSAGE_BYTES,
    maxWriteBatchSize: MAX_WRITE_BATCH,
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: WIRE_VERSION,
    readOnly: false,
  }),
};

const buildInfo: Command = {
  fields: [],
  run: () => ({
    version: "7.0.0",
    versionArray: [7, 0, 0, 0],
    gitVersion: "",
    modules: [],
    maxBsonObjectSize: MAX_DOCUMENT_BYTES,
  }),
};

/** Also the end of sessions, which carry no state here. */
const ping: Command = { fields: [], run: () => ({}) };

/** A cursor's only batch: all of it fits into a message. */
function listed(documents: readonly Document[], namespace: string): Reply {
  return batchReply("firstBatch", 0, namespace, documents.map(write));
}

const ID_INDEX: IndexSpec = { key: { _id: 1 }, name: "_id_" };

function keyText(key: Document): string {
  return JSON.stringify(key);
}

function readIndex(index: Document): IndexSpec {
  const { name } = index;
  const key = documentField(index, "key");
  if (typeof name !== "string" || name === "") {
    throw new CommandError(9, "The 'name' field is a required property of an index specification");
  }
  // The index on `_id` is unique anyway.
  const known = ["key", "name", "v", "background", keyText(key) === keyText(ID_INDEX.key) ? "unique" : ""];
  const unknown = Object.keys(index).find((option) => index[option] !== false && !known.includes(option));
  const isOrdered = Object.values(key).every((direction) => direction === 1 || direction === -1);
  if (unknown === undefined && isOrdered && Object.keys(key).length > 0) return { name, key };
  const problem =
    unknown === undefined ? "the directions of its fields are not 1 or -1" : `the option '${unknown}'`;
  throw new CommandError(67, `Index ${name} is not supported by this server: ${problem}`);
}

const COMMANDS: Readonly<Record<string, Command>> = {
  ...READING,
  ...WRITING,
  hello,
  isMaster: hello,
  ismaster: hello,
  buildInfo,
  buildinfo: buildInfo,
  ping,
  endSessions: ping,
  listCollections: {
    fields: ["filter", "nameOnly", "cursor", "authorizedCollections"],
    run(body, { store }) {
      const database = databaseOf(body);
      const test = predicate(documentField(body, "filter", {}));
      const type = { type: "collection", options: {}, info: { readOnly: false } };
      const found = store
        .list(database)
        .map(({ name }) => ({ name, ...type }))
        .filter(test);
      return listed(found, `${database}.$cmd.listCollections`);
    },
  },

  listDatabases: {
    fields: ["filter", "nameOnly", "authorizedDatabases"],
    run(body, { store }) {
      const test = predicate(documentField(body, "filter", {}));
      const names = new Set(store.list().map(({ database }) => database));
      const databases = [...names].map((name) => ({ name, sizeOnDisk: 0, empty: false }));
      return { databases: databases.filter(test), totalSize: 0 };
    },
  },

  create: {
    fields: ["idIndex"],
    run(body, { store }) {
      const target = targetOf(body);
      return store.write(() => {
        if (store.find(target) !== undefined) {
          throw new CommandError(48, `Collection ${namespaceOf(target)} already exists.`);
        }
        store.ensure(target);
        return {};
      });
    },
  },

  drop: {
    fields: [],
    async run(body, { store }) {
      const target = targetOf(body);
      const nIndexesWas = await store.write(() => {
        const collection = existing(store, target);
        store.drop(collection);
        return collection.indexes.length + 1;
      });
      await store.purge();
      return { nIndexesWas, ns: namespaceOf(target) };
    },
  },

  dropDatabase: {
    fields: [],
    async run(body, { store }) {
      const database = databaseOf(body);
      await store.write(() => {
        for (const collection of store.list(database)) store.drop(collection);
      });
      await store.purge();
      return { dropped: database };
    },
  },

  createIndexes: {
    fields: ["indexes", "commitQuorum"],
    run(body, { store }) {
      const target = targetOf(body);
      const wanted = (listField(body, "indexes") as Document[]).map(readIndex);
      return store.write(() => {
        const before = store.find(target)?.indexes ?? [];
        const after = [ID_INDEX, ...before];
        for (const { name, key } of wanted) {
          const same = after.find((index) => index.name === name || keyText(index.key) === keyText(key));
          if (same === undefined) after.push({ name, key });
          else if (keyText(same.key) !== keyText(key)) {
            throw new CommandError(86, `An existing index has the same name as the requested index: ${name}`);
          }
        }
        store.setIndexes(store.ensure(target), after.slice(1));
        return { numIndexesBefore: before.length + 1, numIndexesAfter: after.length };
      });
    },
  },

  listIndexes: {
    fields: ["cursor"],
    run(body, { store }) {
      const target = targetOf(body);
      const { indexes } = existing(store, target);
      const rows = [ID_INDEX, ...indexes].map(({ name, key }) => ({ v: 2, key, name }));
      return listed(rows, namespaceOf(target));
    },
  },

  dropIndexes: {
    fields: ["index"],
    run(body, { store }) {
      const target = targetOf(body);
      const { index: dropped } = body;
      return store.write(() => {
        const collection = existing(store, target);
        const { indexes } = collection;
        const left = dropped === "*" ? [] : indexes.filter(({ name }) => name !== dropped);
        if (dropped !== "*" && left.length === indexes.length) {
          throw new CommandError(27, `index not found with name [${String(dropped)}]`);
        }
        store.setIndexes(collection, left);
        return { nIndexesWas: indexes.length + 1 };
      });
    },
  },
};

/** For metrics: never a client's text. @returns "unknown" for commands that this server does not have. */
export function commandLabel(name: string): string {
  return Object.hasOwn(COMMANDS, name) ? name : "unknown";
}

/** Runs one command. @throws CommandError, or another error if it fails itself. */
export async function runCommand({ body }: Request, context: CommandContext): Promise<Reply> {
  const name = commandName(body);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) throw new CommandError(59, `no such command: '${name}'`);
  if (command.fields !== undefined) refuseFields(body, command.fields);
  const reply = await command.run(body, context);
  return reply instanceof Uint8Array ? reply : { ...reply, ok: new Double(1) };
}

/** The reply to a failed command. */
export function failure(error: unknown): Document {
  const isKnown = error instanceof CommandError;
  const known = isKnown ? error : new CommandError(1, `Internal error: ${(error as Error).message}`);
  const { code, codeName, message, details } = known;
  return { ...details, ok: new Double(0), errmsg: message, code, codeName };
}
