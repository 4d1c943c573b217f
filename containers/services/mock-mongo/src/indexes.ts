/** Indexes. They make no query faster here: what they do is to keep values unique. */
import type { Document } from "bson";
import { CommandError } from "./errors.ts";
import { identityOf } from "./identity.ts";
import { hasList, leavesAt } from "./paths.ts";

export interface IndexSpec {
  readonly name: string;
  /** Field path to 1 or -1. */
  readonly key: Readonly<Record<string, number>>;
  readonly unique: boolean;
}

/** The index that every collection has. */
export const ID_INDEX: IndexSpec = { name: "_id_", key: { _id: 1 }, unique: true };

/** What a document puts into a unique index. */
export interface IndexEntry {
  readonly index: IndexSpec;
  readonly identity: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/**
 * A document's entries in an index: one, or one for each element of a list.
 *
 * @param document - Plain values.
 * @throws CommandError 171 when two paths of the index lead to lists.
 */
export function entriesOf(index: IndexSpec, document: Document): IndexEntry[] {
  if (index === ID_INDEX)
    return [{ index, identity: identityOf(document._id), values: { _id: document._id } }];
  const paths = Object.keys(index.key);
  const lists = paths.filter((path) => hasList(document, path));
  if (lists.length > 1) {
    throw new CommandError(171, `cannot index parallel arrays [${lists.join("] [")}]`);
  }
  let rows: Record<string, unknown>[] = [{}];
  for (const path of paths) {
    rows = rows.flatMap((row) => leavesAt(document, path).map((value) => ({ ...row, [path]: value })));
  }
  const entries = rows.map((values) => ({ index, identity: identityOf(values), values }));
  return [...new Map(entries.map((entry) => [entry.identity, entry])).values()];
}

/** What is shown of a value in a message. */
const MAX_SHOWN_CHARACTERS = 200;

export function duplicateKey(namespace: string, { index, values }: IndexEntry): CommandError {
  const shown = Object.entries(values)
    .map(([path, value]) => `${path}: ${(JSON.stringify(value) ?? "null").slice(0, MAX_SHOWN_CHARACTERS)}`)
    .join(", ");
  return new CommandError(
    11000,
    `E11000 duplicate key error collection: ${namespace} index: ${index.name} dup key: { ${shown} }`,
    { keyPattern: index.key, keyValue: values },
  );
}
