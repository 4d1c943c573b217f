/**
 * Reading: filters, projections and the stages of pipelines, of which a `find` is one as well. mingo evaluates them, except
 * what depends on BSON's types, which JavaScript's values don't have: ranges and orders.
 * https://www.mongodb.com/docs/manual/reference/operator/query/
 */

import { calculateObjectSize, type Document, MaxKey, MinKey } from "bson";
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
  readTyped,
  write,
  writeComputed,
} from "./documents.ts";
import { type Collection, type Copy, Row, type Store } from "./store.ts";
import { compareValues, isNumeric, sortKey, toNumber, typeRank, valuesAt } from "./values.ts";

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
      // Nothing counts as null.
      if (found.length === 0) return test(null);
      return found.some((value) => test(value) || (Array.isArray(value) && value.some(test)));
    };
  };
}

function isNotANumber(value: unknown): boolean {
  return isNumeric(value) && Number.isNaN(toNumber(value));
}

const queryContext = Context.init({
  query: {
    ...mingoOperators,
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
export function predicate(filter: Document): (row: { readonly document: Document }) => boolean {
  if (Object.keys(filter).length === 0) return () => true;
  return orBadValue(() => {
    const query = new Query(filter, OPTIONS);
    return ({ document }) => orBadValue(() => query.test(document));
  });
}

/** What mingo refuses is the client's mistake. @throws CommandError */
function orBadValue<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(2, (error as Error).message);
  }
}

/** A condition such as `{ $gt: 1 }`, and no document to be equal to. */
export function isOperators(value: unknown): value is Document {
  return isPlainObject(value) && Object.keys(value).some((key) => key.startsWith("$"));
}

/**
 * Documents one after the other, and undefined where the work may pause: nothing that was read is held on to there, so
 * documents that are written meanwhile may or may not be seen, as in MongoDB.
 */
export type Rows = Iterator<Row | undefined, void> & Iterable<Row | undefined>;

/**
 * Documents that match, in the order of insertion; they end where the collection is dropped meanwhile.
 *
 * @param copy - What is kept of each, with the fields that the filter names; all by default.
 * @param collection - Undefined where there is none: the filter is read all the same.
 * @throws CommandError 2 at the first step.
 */
export function* matches(
  store: Store,
  collection: Collection | undefined,
  filter: Document,
  copy?: Copy,
): Rows {
  const ids = namedIds(filter);
  const conditions = isOperators(filter._id) ? Object.keys(filter._id).length : 1;
  // Nothing is left to be tested of what was found by a filter that only names `_id`s.
  const isDone = ids !== undefined && Object.keys(filter).length * conditions === 1;
  const test = predicate(isDone ? {} : filter);
  if (collection === undefined) return;
  for (const chunk of store.chunks(collection, ids, copy)) {
    for (const row of chunk) if (test(row)) yield row;
    yield undefined;
    if (store.find(collection)?.id !== collection.id) return;
  }
}

/** The `_id`s that a filter allows; undefined where it does not say. */
function namedIds({ _id: id }: Document): readonly unknown[] | undefined {
  const wanted = isOperators(id) ? ("$eq" in id ? [id.$eq] : id.$in) : [id];
  const isNamed = (one: unknown) => one !== null && one !== undefined && !Array.isArray(one);
  return Array.isArray(wanted) && wanted.every((one) => isNamed(one) && !(one instanceof RegExp))
    ? wanted
    : undefined;
}

/** What a pipeline reads from, and what it keeps in memory. */
interface Work {
  readonly read: (sequence: number) => Row | undefined;
  heldBytes: number;
}

type Stage = (rows: Rows, work: Work) => Rows;

/** Of a sort and of what a pipeline computes, as MongoDB's. */
const MAX_HELD_BYTES = 100 * 1024 * 1024;

function hold(work: Work, bytes: number): void {
  work.heldBytes += bytes;
  if (work.heldBytes <= MAX_HELD_BYTES) return;
  const fix = "match fewer documents, or give the sort a limit";
  throw new CommandError(292, `The query exceeded its memory limit of ${MAX_HELD_BYTES} bytes; ${fix}`);
}

/** What the drivers' own countDocuments sends: nothing has to be held for it. */
const COUNT_GROUP = '{"_id":1,"n":{"$sum":1}}';

/** What each stage does; `wanted` is how many documents the stages behind it let through. */
const STAGES: Readonly<Record<string, (stage: Document, wanted: number) => Stage>> = {
  $match(stage) {
    const test = predicate(documentField(stage, "$match"));
    return each((row) => (test(row) ? row : undefined));
  },
  $project(stage) {
    const change = projector(documentField(stage, "$project"));
    return each((row) => new Row(change(row)));
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
    // What is wrong with it shows before any document is read.
    run([]);
    return function* (rows, work) {
      const documents: Document[] = [];
      for (const row of rows) {
        if (row === undefined) yield;
        else {
          hold(work, row.bytes.length);
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

/** The number of documents; nothing where there are none. */
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

/**
 * A projection. One that only names fields keeps their BSON types; one that computes works on plain values, see
 * `writeComputed`.
 */
function projector(projection: Document): (row: Row) => Uint8Array {
  const positional = Object.keys(projection).find((path) => path.endsWith(".$"));
  if (positional !== undefined) {
    throw new CommandError(238, `The positional projection '${positional}' is not supported by this server`);
  }
  const copy = copier(projection);
  if (copy !== undefined) return ({ bytes }) => copy(bytes);
  const run = mingoStage({ $project: projection });
  const project = (document: Document) => run([document])[0] ?? {};
  if (!namesFields(projection)) return ({ document }) => writeComputed(project(document));
  return ({ bytes }) => {
    const document = readTyped(bytes);
    const projected = project(document);
    // mingo puts _id last; MongoDB keeps the order of the document.
    const names = Object.keys(document).filter((name) => Object.hasOwn(projected, name));
    return write(Object.fromEntries(names.map((name) => [name, projected[name]])));
  };
}

/**
 * A projection on the bytes, where it leaves fields out, or names fields of the first level; undefined for any other. It
 * keeps `_id`.
 */
export function copier(projection: Document): Copy | undefined {
  const paths = Object.keys(projection);
  const leadsOn = (path: string) => paths.some((other) => other.startsWith(`${path}.`));
  if (paths.some((path) => /^_id|\$/.test(path) || leadsOn(path))) return undefined;
  const values = Object.values(projection);
  if (values.every((value) => value === 0 || value === false)) {
    return (bytes) => pick(bytes, (path) => (leadsOn(path) ? undefined : !paths.includes(path)));
  }
  if (paths.join().includes(".") || !values.every((value) => value === 1 || value === true)) return undefined;
  return (bytes) => pick(bytes, (path) => path === "_id" || paths.includes(path));
}

function namesFields(projection: Document): boolean {
  return Object.values(projection).every((value) => {
    if (!isPlainObject(value)) return typeof value === "number" || typeof value === "boolean";
    return Object.keys(value).join() === "$slice" || (!isOperators(value) && namesFields(value));
  });
}

/** Holds sort keys, and of a stored document its place instead of the document; equal ones stay as they came. */
function sort(specification: Document, wanted: number): Stage {
  const order = Object.entries(specification);
  const wrong = order.find(([, direction]) => direction !== 1 && direction !== -1);
  if (wrong !== undefined) {
    throw new CommandError(2, `$sort key ordering of '${wrong[0]}' must be 1 (ascending) or -1 (descending)`);
  }
  return function* (rows, work) {
    let kept: { readonly keys: readonly unknown[]; readonly item: Row | number; readonly bytes: number }[] =
      [];
    const cut = () => {
      kept.sort((a, b) => {
        for (const [index, [, direction]] of order.entries()) {
          const difference = compareValues(a.keys[index], b.keys[index]);
          if (difference !== 0) return direction * difference;
        }
        return 0;
      });
      for (const { bytes } of kept.splice(wanted)) work.heldBytes -= bytes;
    };
    let place = 0;
    for (const row of rows) {
      if (row === undefined) {
        yield;
        continue;
      }
      place += 1;
      const keys = order.map(([path, direction]) =>
        path === "$natural" ? place : sortKey(row.document, path, direction),
      );
      const item = row.sequence || row;
      const bytes = calculateObjectSize({ keys }) + (typeof item === "number" ? 0 : row.bytes.length);
      hold(work, bytes);
      kept.push({ keys, item, bytes });
      // Twice as many as are needed, so that each sort that cuts off has cut off as much as it kept.
      if (kept.length > 2 * wanted + 1024) cut();
    }
    cut();
    const items = kept.map(({ item }) => item);
    kept = [];
    // A document that was removed meanwhile is left out.
    for (const item of items) yield typeof item === "number" ? work.read(item) : item;
  };
}

export interface Result {
  readonly rows: Rows;
  /** What it keeps in memory between two batches. */
  readonly heldBytes: () => number;
}

/**
 * The result of a pipeline over a collection.
 *
 * @param copy - As for `matches`; it must keep what the pipeline looks at.
 * @throws CommandError 2, 9, 40324; its rows throw 2 and 292.
 */
export function runPipeline(
  store: Store,
  collection: Collection | undefined,
  pipeline: readonly unknown[],
  copy?: Copy,
): Result {
  const read = (sequence: number) => collection && store.read(collection, sequence, copy);
  const work: Work = { read, heldBytes: 0 };
  // The first match decides what is read at all.
  const { $match: filter, ...others } = (pipeline[0] ?? {}) as Document;
  const isMatch = filter !== undefined && Object.keys(others).length === 0;
  const first = isMatch ? documentField(pipeline[0] as Document, "$match") : {};
  let rows = matches(store, collection, first, copy);
  for (const stage of (isMatch ? pipeline.slice(1) : pipeline).map(readStage)) rows = stage(rows, work);
  return { rows, heldBytes: () => work.heldBytes };
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
