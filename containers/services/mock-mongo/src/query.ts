/**
 * Reading: filters, projections and the stages of pipelines, of which a `find` is one as well. mingo evaluates them, except
 * what depends on BSON's types, which JavaScript's values don't have: ranges, orders, and equality of documents.
 * https://www.mongodb.com/docs/manual/reference/operator/query/
 */

import { type Document, MaxKey, MinKey } from "bson";
import { Aggregator } from "mingo";
import { Context } from "mingo/core";
import * as expressionOperators from "mingo/operators/expression";
import * as mingoOperators from "mingo/operators/query";
import { Query } from "mingo/query";
import {
  CommandError,
  countField,
  documentField,
  isPlainObject,
  pick,
  readPlain,
  write,
  writeComputed,
} from "./documents.ts";
import { type Collection, Row, type Store } from "./store.ts";
import { compareValues, isNumeric, sortKey, toNumber, typeRank, valuesAt } from "./values.ts";

/** Copies the needed part of a stored document, whose bytes the next read overwrites. */
export type Copy = (bytes: Uint8Array) => Uint8Array;

type Operator = (path: string, operand: unknown) => (document: unknown) => boolean;

/** A value matches when it, or an element of the list that it is, is of the operand's type and stands right to it. */
function range(isMatch: (order: number) => boolean): Operator {
  return (path, operand) => {
    const test = (value: unknown): boolean => {
      if (isNotANumber(value) !== isNotANumber(operand)) return false;
      const isEnd = operand instanceof MinKey || operand instanceof MaxKey;
      return (isEnd || typeRank(value) === typeRank(operand)) && isMatch(compareValues(value, operand));
    };
    return (document) => {
      const found = valuesAt(document, path);
      // A missing value counts as null.
      if (found.length === 0) return test(null);
      return found.some((value) => test(value) || (Array.isArray(value) && value.some(test)));
    };
  };
}

function isNotANumber(value: unknown): boolean {
  return isNumeric(value) && Number.isNaN(toNumber(value));
}

type MingoOperator = (path: string, operand: unknown, options: unknown) => (document: unknown) => boolean;

const { $eq: equalsScalar, $in: isOneOfScalars } = mingoOperators as unknown as {
  readonly [name in "$eq" | "$in"]: MingoOperator;
};

const isComposed = (value: unknown) => Array.isArray(value) || isPlainObject(value);

/** Equal documents also have their fields in the same order, which mingo does not check. */
const isOneOf: MingoOperator = (path, operand, options) => {
  const composed = Array.isArray(operand) ? operand.filter(isComposed) : [];
  if (composed.length === 0) return isOneOfScalars(path, operand, options);
  const scalars = (operand as unknown[]).filter((one) => !isComposed(one));
  const isScalar = isOneOfScalars(path, scalars, options);
  const test = (value: unknown) => composed.some((one) => compareValues(value, one) === 0);
  return (document) =>
    valuesAt(document, path).some((value) => test(value) || (Array.isArray(value) && value.some(test))) ||
    isScalar(document);
};

const equals: MingoOperator = (path, operand, options) =>
  isComposed(operand) ? isOneOf(path, [operand], options) : equalsScalar(path, operand, options);

function not(operator: MingoOperator): MingoOperator {
  return (path, operand, options) => {
    const test = operator(path, operand, options);
    return (document) => !test(document);
  };
}

const queryContext = Context.init({
  query: {
    ...mingoOperators,
    $eq: equals,
    $ne: not(equals),
    $in: isOneOf,
    $nin: not(isOneOf),
    $gt: range((order) => order > 0),
    $gte: range((order) => order >= 0),
    $lt: range((order) => order < 0),
    $lte: range((order) => order <= 0),
    // mingo's answer would be wrong for ids, dates and binary data.
    $type: () => {
      throw new CommandError(2, "$type is not supported by this server");
    },
  } as never,
});

const OPTIONS = {
  scriptEnabled: false,
  // For $expr.
  context: Context.from(queryContext, Context.init({ expression: expressionOperators as never })),
};

/** @throws CommandError 2 for a filter that can't be read, such as one with an unknown operator. */
export function predicate(filter: Document): (document: Document) => boolean {
  return orBadValue(() => {
    const query = new Query(filter, OPTIONS);
    return (document) => orBadValue(() => query.test(document));
  });
}

/** Runs mingo, and turns its errors into the client's. @throws CommandError */
function orBadValue<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(2, (error as Error).message);
  }
}

/** Whether it is a condition such as `{ $gt: 1 }`, not a document for equality. */
export function isOperators(value: unknown): value is Document {
  return isPlainObject(value) && Object.keys(value).some((key) => key.startsWith("$"));
}

/**
 * Documents one after the other, and undefined when the work may pause: nothing that was read is held on to there, so
 * documents that are written meanwhile may or may not be seen, as in MongoDB.
 */
export type Rows = Iterator<Row | undefined, void> & Iterable<Row | undefined>;

/** Work between two pauses of a scan, in bytes; a document costs so many, and its own. */
const PAUSE_WORK = 1024 * 1024;
const DOCUMENT_WORK = PAUSE_WORK / 64;

/**
 * Documents that match, in the order of insertion; they end if the collection is dropped meanwhile.
 *
 * @param collection - Undefined when it does not exist: the filter is still checked.
 * @param copy - Returns the kept part of each document.
 * @throws CommandError 2 at the first step.
 */
export function* matches(
  store: Store,
  collection: Collection | undefined,
  filter: Document,
  copy: Copy = Buffer.from,
): Rows {
  const ids = namedIds(filter);
  const conditions = isOperators(filter._id) ? Object.keys(filter._id).length : 1;
  // Documents found by a filter that only names `_id`s need no further test.
  const isDone = ids !== undefined && Object.keys(filter).length * conditions === 1;
  const test = isDone || Object.keys(filter).length === 0 ? () => true : predicateOfBytes(filter);
  if (collection === undefined) return;
  let work = 0;
  for (const sequence of store.places(collection, ids)) {
    const bytes = store.read(collection, sequence);
    if (bytes !== undefined && test(bytes)) yield new Row(copy(bytes), sequence);
    work += DOCUMENT_WORK + (bytes?.length ?? 0);
    if (work < PAUSE_WORK) continue;
    work = 0;
    yield undefined;
    if (store.find(collection)?.id !== collection.id) return;
  }
}

/** A predicate that reads only the fields of the filter. */
function predicateOfBytes(filter: Document): (bytes: Uint8Array) => boolean {
  const test = predicate(filter);
  const paths = Object.keys(filter);
  // Operators such as `$or` may look anywhere.
  const copy = paths.some((path) => path.startsWith("$")) ? (bytes: Uint8Array) => bytes : fieldsAt(paths);
  return (bytes) => test(readPlain(copy(bytes)));
}

/** A copy of the fields of the first level in which paths begin. */
function fieldsAt(paths: readonly string[]): Copy {
  const names = new Set(paths.map((path) => path.split(".", 1)[0]));
  return (bytes) => pick(bytes, (name) => names.has(name));
}

/** The `_id`s that a filter allows; undefined for any. */
function namedIds({ _id: id }: Document): readonly unknown[] | undefined {
  const wanted = isOperators(id) ? ("$eq" in id ? [id.$eq] : id.$in) : [id];
  const isNamed = (one: unknown) => one !== null && one !== undefined && !Array.isArray(one);
  return Array.isArray(wanted) && wanted.every((one) => isNamed(one) && !(one instanceof RegExp))
    ? wanted
    : undefined;
}

/** The input of a pipeline, and its memory. */
interface Work {
  readonly read: (sequence: number) => Row | undefined;
  readonly memory: QueryMemory;
  heldBytes: number;
}

/** Memory of all queries of a server. */
export interface QueryMemory {
  heldBytes: number;
  readonly mostBytes: number;
}

type Stage = (rows: Rows, work: Work) => Rows;

/** Bytes of a row's objects beside its own, before `memoryUses` multiplies: 200,000 rows took 290 bytes each. */
const ROW_BYTES = 64;

function hold(work: Work, bytes: number): void {
  work.heldBytes += bytes;
  work.memory.heldBytes += bytes;
  const { heldBytes, mostBytes } = work.memory;
  if (heldBytes <= mostBytes) return;
  const fix = "match fewer documents, give the sort a limit, or try again when others have ended";
  throw new CommandError(
    292,
    `The query exceeded the memory limit of ${mostBytes} bytes, which all queries share: it holds ${work.heldBytes} of ${heldBytes}; ${fix}`,
  );
}

/** Sent by the drivers' countDocuments: it needs no memory. */
const COUNT_GROUP = '{"_id":1,"n":{"$sum":1}}';

/** Stages by name; `wanted`: how many documents the later stages let through. */
const STAGES: Readonly<Record<string, (stage: Document, wanted: number) => Stage>> = {
  $match(stage) {
    const test = predicate(documentField(stage, "$match"));
    return each((row) => (test(row.document) ? row : undefined));
  },
  $project(stage) {
    const change = projector(documentField(stage, "$project"));
    return each((row) => new Row(change(row.bytes)));
  },
  $sort: (stage, wanted) => sort(documentField(stage, "$sort"), wanted),
  $skip(stage) {
    let left = countField(stage, "$skip", 0);
    return each((row) => (left-- > 0 ? undefined : row));
  },
  $limit(stage) {
    const count = countField(stage, "$limit", 0);
    if (count === 0) throw new CommandError(2, "the limit must be positive");
    return function* (rows) {
      let seen = 0;
      for (const row of rows) {
        yield row;
        if (row !== undefined && ++seen === count) return;
      }
    };
  },
  $group(stage) {
    if (JSON.stringify(stage.$group) === COUNT_GROUP) return count;
    const run = mingoStage({ $group: documentField(stage, "$group") });
    // Reports its errors before any document is read.
    run([]);
    return function* (rows, work) {
      const documents: Document[] = [];
      for (const row of rows) {
        if (row === undefined) yield;
        else {
          hold(work, row.bytes.length + ROW_BYTES);
          documents.push(row.document);
        }
      }
      for (const document of run(documents)) yield new Row(writeComputed(document));
    };
  },
};

function each(change: (row: Row) => Row | undefined): Stage {
  return function* (rows) {
    for (const row of rows) {
      const changed = row && change(row);
      if (row === undefined || changed !== undefined) yield changed;
    }
  };
}

/** The number of documents; no row for 0. */
const count: Stage = function* (rows) {
  let n = 0;
  for (const row of rows) {
    if (row === undefined) yield;
    else n += 1;
  }
  if (n > 0) yield new Row(write({ _id: 1, n }));
};

/** A stage that mingo runs. @throws CommandError 2, also when it is run. */
function mingoStage(stage: Document): (documents: readonly Document[]) => Document[] {
  const aggregator = orBadValue(() => new Aggregator([stage] as never, { scriptEnabled: false }));
  return (documents) => orBadValue(() => aggregator.run(documents as never)) as Document[];
}

const isYes = (value: unknown) => value === true || (typeof value === "number" && value !== 0);
const isNo = (value: unknown) => value === false || value === 0;

/** `{ a: { b: 1 } }` as `{ "a.b": 1 }`, which means the same. */
function flattened(projection: Document, parent = ""): Document {
  const entries = Object.entries(projection).flatMap(([name, value]) =>
    isPlainObject(value) && !isOperators(value)
      ? Object.entries(flattened(value, `${parent}${name}.`))
      : [[parent + name, value]],
  );
  return Object.fromEntries(entries);
}

/**
 * A projection. One that only names fields keeps their BSON types and their order; one that computes works on plain values,
 * see `writeComputed`.
 *
 * @throws CommandError 2 and 238 for one that can't be read.
 */
export function projector(projection: Document): Copy {
  const { _id: id, ...fields } = flattened(projection);
  const paths = Object.keys(fields);
  const positional = paths.find((path) => path.endsWith(".$"));
  if (positional !== undefined) {
    throw new CommandError(238, `The positional projection '${positional}' is not supported by this server`);
  }
  if (id === undefined && paths.length === 0) return Buffer.from;
  const choices = Object.values(paths.length === 0 ? projection : fields);
  const isIncluding = choices.every(isYes);
  const isExcluding = choices.every(isNo);
  const leadsOn = (path: string) => paths.some((other) => other.startsWith(`${path}.`));
  const isNaming = (id === undefined || isYes(id) || isNo(id)) && (isIncluding || isExcluding);
  if (isNaming && !paths.some((path) => /^_id\.|\$/.test(path) || leadsOn(path))) {
    // Included if it is not excluded.
    const named = isNo(id) === isExcluding ? [...paths, "_id"] : paths;
    return (bytes) =>
      pick(bytes, (path, isContainer) => {
        if (named.includes(path)) return isIncluding;
        return isContainer && leadsOn(path) ? undefined : isExcluding;
      });
  }
  const computed = mingoStage({ $project: projection });
  return (bytes) => writeComputed(computed([readPlain(bytes)])[0] ?? {});
}

/** Holds sort keys, and of a stored document its place instead of the document; equal ones stay as they came. */
function sort(specification: Document, wanted: number): Stage {
  const order = Object.entries(specification);
  const wrong = order.find(([, direction]) => direction !== 1 && direction !== -1);
  if (wrong !== undefined) {
    throw new CommandError(2, `$sort key ordering of '${wrong[0]}' must be 1 (ascending) or -1 (descending)`);
  }
  return function* (rows, work) {
    const kept: {
      readonly keys: readonly unknown[];
      readonly item: Row | number;
      readonly bytes: number;
    }[] = [];
    const cut = () => {
      kept.sort((a, b) => {
        for (const [index, [, direction]] of order.entries()) {
          const difference = compareValues(a.keys[index], b.keys[index]);
          if (difference !== 0) return direction * difference;
        }
        return 0;
      });
      for (const { bytes } of kept.splice(wanted)) hold(work, -bytes);
    };
    for (const row of rows) {
      if (row === undefined) {
        yield;
        continue;
      }
      const keys = order.map(([path, direction]) =>
        path === "$natural" ? row.sequence : sortKey(row.document, path, direction),
      );
      const item = row.sequence || row;
      const bytes = row.bytes.length + ROW_BYTES;
      hold(work, bytes);
      kept.push({ keys, item, bytes });
      // Twice as many as are needed, so that each sort that cuts off has cut off as much as it kept.
      if (kept.length > 2 * wanted + 1024) cut();
    }
    cut();
    // A document that was removed meanwhile is left out.
    for (const { item } of kept) yield typeof item === "number" ? work.read(item) : item;
  };
}

export interface Result {
  readonly rows: Rows;
  /** Bytes kept in memory between two batches. */
  readonly heldBytes: () => number;
  /** Frees its memory; its rows are not read any more. */
  readonly release: () => void;
}

/**
 * The result of a pipeline over a collection.
 *
 * @param memory - Counts its bytes until its release.
 * @param copy - Returns the kept part of each document for stages after the first `$match` and `$sort`; all by default.
 * @throws CommandError 2, 9, 40324; its rows throw 2 and 292.
 */
export function runPipeline(
  store: Store,
  collection: Collection | undefined,
  pipeline: readonly unknown[],
  memory: QueryMemory,
  copy: Copy = Buffer.from,
): Result {
  const read = (sequence: number) => {
    const bytes = collection && store.read(collection, sequence);
    return bytes && new Row(copy(bytes), sequence);
  };
  const work: Work = { read, memory, heldBytes: 0 };
  // The first match decides what is read at all.
  const { $match: filter, ...others } = (pipeline[0] ?? {}) as Document;
  const isMatch = filter !== undefined && Object.keys(others).length === 0;
  const first = isMatch ? documentField(pipeline[0] as Document, "$match") : {};
  const stages = isMatch ? pipeline.slice(1) : pipeline;
  // A sort looks at its keys, and reads again what it puts in order.
  const { $sort: order } = (stages[0] ?? {}) as Document;
  let rows = matches(store, collection, first, order ? fieldsAt(Object.keys(order)) : copy);
  for (const stage of stages.map(readStage)) rows = stage(rows, work);
  const release = () => {
    memory.heldBytes -= work.heldBytes;
    work.heldBytes = 0;
  };
  return { rows, heldBytes: () => work.heldBytes, release };
}

function readStage(stage: unknown, index: number, pipeline: readonly unknown[]): Stage {
  const [name = "", ...others] = isPlainObject(stage) ? Object.keys(stage) : [];
  if (name === "" || others.length > 0) {
    throw new CommandError(9, "A pipeline stage specification object must contain exactly one field.");
  }
  const make = Object.hasOwn(STAGES, name) ? STAGES[name] : undefined;
  if (make === undefined) throw new CommandError(40324, `Unrecognized pipeline stage name: '${name}'`);
  return make(stage as Document, wantedBy(pipeline.slice(index + 1)));
}

/** How many documents the stages need that follow a sort; infinite for all. */
function wantedBy(stages: readonly unknown[]): number {
  const [stage, ...rest] = stages as [Document?];
  if (typeof stage?.$skip === "number") return stage.$skip + wantedBy(rest);
  return typeof stage?.$limit === "number" ? stage.$limit : Number.POSITIVE_INFINITY;
}
