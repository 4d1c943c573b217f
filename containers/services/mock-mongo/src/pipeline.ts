/** Aggregation: documents stay the bytes that they are until a stage computes something else of them. */
import type { Patience } from "@engine-room/service-process";
import type { Document } from "bson";
import { Aggregator } from "mingo";
import { isPlainObject, readPlain, write, writeComputed } from "./documents.ts";
import { CommandError } from "./errors.ts";
import { projector } from "./projection.ts";
import { matches, orBadValue, predicate, refuseScripts } from "./query.ts";
import { readOrder, Sorter } from "./sorting.ts";
import type { Collection, Store } from "./store.ts";

/** What a pipeline may hold in memory, as MongoDB's stages may. */
const MAX_PIPELINE_BYTES = 100 * 1024 * 1024;

type Stage = (documents: readonly Uint8Array[], patience: Patience) => Promise<readonly Uint8Array[]>;

/** `$skip` and `$count` are what the drivers' own countDocuments sends. */
const STAGES: Readonly<Record<string, (operand: unknown) => Stage>> = {
  $match(operand) {
    const test = predicate(asDocument("$match", operand));
    return (documents, patience) =>
      eachOf(documents, patience, (bytes) => (test(readPlain(bytes)) ? [bytes] : []));
  },
  $project(operand) {
    const project = projector(asDocument("$project", operand));
    return (documents, patience) => eachOf(documents, patience, (bytes) => [project(bytes)]);
  },
  $sort(operand) {
    const order = readOrder(asDocument("$sort", operand));
    return async (documents) => {
      const sorter = new Sorter<Uint8Array>(order, Number.POSITIVE_INFINITY);
      for (const [place, bytes] of documents.entries()) sorter.add(bytes, readPlain(bytes), place);
      return sorter.sorted();
    };
  },
  $skip(operand) {
    const count = asCount("$skip", operand, 0);
    return async (documents) => documents.slice(count);
  },
  $limit(operand) {
    const count = asCount("$limit", operand, 1);
    return async (documents) => documents.slice(0, count);
  },
  $count(operand) {
    if (typeof operand !== "string" || operand === "" || /[$.\0]/.test(operand)) {
      throw new CommandError(2, "the count field must be a non-empty string without '$' and '.'");
    }
    return async (documents) => (documents.length === 0 ? [] : [write({ [operand]: documents.length })]);
  },
  $group(operand) {
    const group = asDocument("$group", operand);
    refuseScripts(group);
    const run = (documents: readonly Uint8Array[]) =>
      orBadValue(() =>
        new Aggregator([{ $group: group }] as never, { scriptEnabled: false }).run(
          documents.map((bytes) => readPlain(bytes)) as never,
        ),
      ) as Document[];
    // What is wrong with it shows before any document is read.
    run([]);
    return async (documents) => run(documents).map((document) => writeComputed(document));
  },
};

/** Runs a pipeline over a collection. @throws CommandError 2, 9, 40324, and 292 when it needs too much memory. */
export async function runPipeline(
  store: Store,
  collection: Collection | undefined,
  pipeline: readonly unknown[],
  patience: Patience,
): Promise<readonly Uint8Array[]> {
  const stages = pipeline.map(readStage);
  if (collection === undefined) return [];
  const first = pipeline[0] as Document | undefined;
  // The first match decides what is read at all.
  const isFiltered = first?.$match !== undefined;
  const rest = isFiltered ? stages.slice(1) : stages;
  const after = pipeline.slice(isFiltered ? 1 : 0) as Document[];
  const found = matches(store, collection, isFiltered ? asDocument("$match", first.$match) : {});
  const needs = { isCounted: isCountOnly(after), documents: neededOf(after) };
  let documents: readonly Uint8Array[] = await collect(found, needs, patience);
  for (const stage of rest) {
    documents = await stage(documents, patience);
    await patience.rest();
  }
  return documents;
}

/** The least document, for stages that count and look at nothing. */
const EMPTY = Buffer.from([5, 0, 0, 0, 0]);

async function collect(
  found: ReturnType<typeof matches>,
  needs: { readonly isCounted: boolean; readonly documents: number },
  patience: Patience,
): Promise<Uint8Array[]> {
  const documents: Uint8Array[] = [];
  let size = 0;
  for (const match of found) {
    if (match === undefined) {
      await patience.rest();
      continue;
    }
    documents.push(needs.isCounted ? EMPTY : match.bytes);
    if (documents.length >= needs.documents) break;
    size += needs.isCounted ? 0 : match.bytes.length;
    if (size > MAX_PIPELINE_BYTES) {
      throw new CommandError(292, `The pipeline needs more than ${MAX_PIPELINE_BYTES} bytes; match less`);
    }
  }
  return documents;
}

/** How many documents a pipeline looks at that begins with `$skip` and `$limit`; infinitely many where it doesn't. */
function neededOf(stages: readonly Document[]): number {
  let skipped = 0;
  for (const stage of stages) {
    if (typeof stage.$limit === "number") return skipped + stage.$limit;
    if (typeof stage.$skip !== "number") break;
    skipped += stage.$skip;
  }
  return Number.POSITIVE_INFINITY;
}

async function eachOf(
  documents: readonly Uint8Array[],
  patience: Patience,
  change: (bytes: Uint8Array) => readonly Uint8Array[],
): Promise<Uint8Array[]> {
  const changed: Uint8Array[] = [];
  for (const bytes of documents) {
    changed.push(...change(bytes));
    await patience.rest();
  }
  return changed;
}

function readStage(stage: unknown): Stage {
  const names = isPlainObject(stage) ? Object.keys(stage) : [];
  const [name = ""] = names;
  if (names.length !== 1) {
    throw new CommandError(9, "A pipeline stage specification object must contain exactly one field.");
  }
  const make = Object.hasOwn(STAGES, name) ? STAGES[name] : undefined;
  if (make === undefined) throw new CommandError(40324, `Unrecognized pipeline stage name: '${name}'`);
  return make((stage as Document)[name]);
}

/** Whether the pipeline counts documents and looks at none: countDocuments of the drivers. */
function isCountOnly(stages: readonly Document[]): boolean {
  return (
    stages.length > 0 &&
    stages.every((stage) => {
      if (stage.$skip !== undefined || stage.$limit !== undefined || stage.$count !== undefined) return true;
      return stage.$group !== undefined && JSON.stringify(stage.$group) === '{"_id":1,"n":{"$sum":1}}';
    }) &&
    // Without one of these the documents themselves are the result.
    stages.some((stage) => stage.$count !== undefined || stage.$group !== undefined)
  );
}

function asDocument(name: string, operand: unknown): Document {
  if (isPlainObject(operand)) return operand;
  throw new CommandError(2, `the ${name} specification must be an object`);
}

function asCount(name: string, operand: unknown, least: number): number {
  if (typeof operand === "number" && Number.isInteger(operand) && operand >= least) return operand;
  throw new CommandError(2, `the ${name} specification must be a whole number of ${least} or more`);
}
