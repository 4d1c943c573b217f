/** Which documents a filter matches. JavaScript in a query ($where, $function) is never run. */
import type { Document } from "bson";
import { Context } from "mingo/core";
import * as expressionOperators from "mingo/operators/expression";
import { Query } from "mingo/query";
import { isPlainObject, readPlain } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { queryContext } from "./query-operators.ts";
import type { Collection, Store, StoredDocument } from "./store.ts";

const OPTIONS = {
  scriptEnabled: false,
  // For $expr.
  context: Context.from(queryContext, Context.init({ expression: expressionOperators as never })),
};

type Predicate = (document: Document) => boolean;

/** @throws CommandError 2 for a filter that can't be read, such as one with an unknown operator. */
export function predicate(filter: Document): Predicate {
  return orBadValue(() => {
    refuseScripts(filter);
    const query = new Query(filter, OPTIONS);
    return (document) => orBadValue(() => query.test(document));
  });
}

/** What mingo refuses is the client's mistake. @throws CommandError */
export function orBadValue<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(2, (error as Error).message);
  }
}

const SCRIPTS = ["$where", "$function", "$accumulator"];

/** @throws CommandError 2 */
export function refuseScripts(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (SCRIPTS.includes(key))
      throw new CommandError(2, `${key} is not allowed: this server runs no JavaScript`);
    refuseScripts(inner);
  }
}

/** A document that matched, with its plain values. */
export interface Match extends StoredDocument {
  readonly document: Document;
}

/** Identifiers looked up between two places where others may get their turn. */
const CHUNK_IDS = 64;

/**
 * Matches in the order of insertion, and undefined where the work may pause: nothing that was read is held on to there, so
 * documents that are written meanwhile may or may not be seen, as in MongoDB.
 *
 * @param test - The filter's predicate, where the caller has it.
 */
export function* matches(
  store: Store,
  collection: Collection,
  filter: Document,
  test = predicate(filter),
): Generator<Match | undefined, void> {
  const ids = namedIds(filter);
  const chunks =
    ids === undefined ? scanned(store, collection) : lookedUp(store, collection, sequencesOf(ids));
  for (const chunk of chunks) {
    for (const stored of chunk) {
      const document = readPlain(stored.bytes);
      if (test(document)) yield { ...stored, document };
    }
    yield undefined;
  }

  function sequencesOf(wanted: readonly unknown[]): number[] {
    const found = wanted.flatMap((id) => store.sequenceOf(collection, id) ?? []);
    return [...new Set(found)].sort((a, b) => a - b);
  }
}

function* scanned(store: Store, collection: Collection): Generator<readonly StoredDocument[]> {
  for (let last = 0; ; ) {
    const chunk = store.chunk(collection, last);
    if (chunk.length === 0) return;
    yield chunk;
    last = chunk.at(-1)?.sequence ?? last;
  }
}

function* lookedUp(
  store: Store,
  collection: Collection,
  sequences: readonly number[],
): Generator<readonly StoredDocument[]> {
  for (let index = 0; index < sequences.length; index += CHUNK_IDS) {
    yield sequences.slice(index, index + CHUNK_IDS).flatMap((sequence) => {
      const bytes = store.read(collection, sequence);
      return bytes === undefined ? [] : [{ sequence, bytes }];
    });
  }
}

/** The `_id`s that a filter allows; undefined where it does not say. */
function namedIds(filter: Document): readonly unknown[] | undefined {
  const { _id: id } = filter;
  if (id === undefined || id instanceof RegExp) return undefined;
  if (!isOperators(id)) return isListOrNothing(id) ? undefined : [id];
  if ("$eq" in id) return isListOrNothing(id.$eq) ? undefined : [id.$eq];
  return Array.isArray(id.$in) && !id.$in.some((one) => one instanceof RegExp || isListOrNothing(one))
    ? id.$in
    : undefined;
}

/** A condition such as `{ $gt: 1 }`, and no document to be equal to. */
export function isOperators(value: unknown): value is Document {
  return isPlainObject(value) && Object.keys(value).some((key) => key.startsWith("$"));
}

function isListOrNothing(value: unknown): boolean {
  return value === null || value === undefined || Array.isArray(value);
}
