/** What is sent of a document. */
import type { Document } from "bson";
import { Aggregator } from "mingo";
import { isPlainObject, readPlain, readTyped, write, writeComputed } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { orBadValue, refuseScripts } from "./query.ts";

export type Projector = (bytes: Uint8Array) => Uint8Array;

/**
 * A projection of `find`, or a stage `$project`. One that only names fields keeps their BSON types; one that computes
 * works on plain values, see `writeComputed`.
 *
 * @throws CommandError 2, 238
 */
export function projector(projection: Document): Projector {
  if (Object.keys(projection).length === 0) return (bytes) => bytes;
  const positional = Object.keys(projection).find((path) => path.endsWith(".$"));
  if (positional !== undefined) {
    throw new CommandError(
      238,
      `The positional projection '${positional}' is not supported by this server; use $elemMatch`,
    );
  }
  refuseScripts(projection);
  if (!namesFields(projection)) return (bytes) => writeComputed(project(projection, readPlain(bytes)));
  return (bytes) => {
    const document = readTyped(bytes);
    const projected = project(projection, document);
    // mingo puts _id last; MongoDB keeps the order of the document.
    const names = Object.keys(document).filter((name) => Object.hasOwn(projected, name));
    return write(Object.fromEntries(names.map((name) => [name, projected[name]])));
  };
}

function namesFields(projection: Document): boolean {
  return Object.values(projection).every((value) => {
    if (isPlainObject(value)) {
      const isSlice = Object.keys(value).join() === "$slice";
      return isSlice || (!Object.keys(value).some((key) => key.startsWith("$")) && namesFields(value));
    }
    return typeof value === "number" || typeof value === "boolean";
  });
}

function project(projection: Document, document: Document): Document {
  const pipeline = [{ $project: projection }];
  return orBadValue(
    () => new Aggregator(pipeline as never, { scriptEnabled: false }).run([document as never])[0] as Document,
  );
}
