/** Fills a stack with documents: a folder, or the sample collection. */
import { DocumentsClient, type DocumentsClientOptions } from "./documents-client.ts";
import type { Entry } from "./entry.ts";
import { readFolder } from "./folder.ts";
import { type Failure, type LoadSummary, load } from "./load.ts";
import { Progress } from "./progress.ts";
import { sampleEntries } from "./sample-collection.ts";
import type { SampleMark } from "./sample-mark.ts";

export interface SeedOptions extends Pick<DocumentsClientOptions, "gateway" | "apiKey"> {
  /** Ends the load; a later one goes on from there. */
  readonly signal?: AbortSignal;
  /** Where progress goes. @default standard error */
  readonly out?: NodeJS.WriteStream;
}

/**
 * Loads the sample collection into a gateway; what it has already stays as it is.
 *
 * @param mark - Of the stack whose own databases they are; undefined for databases that run elsewhere.
 * @throws UserError when a picture is missing in the download cache and its package can't be had.
 */
export async function seedSamples(mark: SampleMark | undefined, options: SeedOptions): Promise<LoadSummary> {
  const { out = process.stderr, signal } = options;
  const report = (line: string) => void out.write(`  ${line}\n`);
  const entries = await sampleEntries({ report, ...(signal === undefined ? {} : { signal }) });
  // Before the first document: with it, the stack is no longer one without documents.
  if ((await mark?.read()) === "none") await mark?.write("begun");
  const summary = await seed(entries, [], options);
  if (summary.stopped === undefined && summary.failures.length === 0) await mark?.write("settled");
  return summary;
}

/**
 * Loads the sample collection into a new stack, once and as a whole. One that has documents already gets none, and what
 * people delete stays deleted; a load that was interrupted, or in which documents failed, goes on.
 *
 * @returns undefined where nothing was to be loaded.
 * @throws UserError as seedSamples does; GatewayRefusal when the gateway can't be asked.
 */
export async function seedSamplesOnce(
  mark: SampleMark,
  options: SeedOptions,
): Promise<LoadSummary | undefined> {
  const { out = process.stderr, signal = new AbortController().signal, ...target } = options;
  const state = await mark.read();
  if (state === "settled") return undefined;
  if (state === "begun") {
    out.write("  going on with the sample pictures, whose load did not come to its end\n");
    return seedSamples(mark, options);
  }
  const onWait = (reason: string, seconds: number) => void out.write(`  ${waitLine(reason, seconds)}\n`);
  if (await new DocumentsClient({ ...target, onWait }).isEmpty(signal)) return seedSamples(mark, options);
  await mark.write("settled");
  return undefined;
}

/**
 * Loads a folder of pictures and captions into a gateway.
 *
 * @param directory - Absolute path.
 * @throws UserError when the folder can't be read or holds nothing to load.
 */
export async function seedFolder(directory: string, options: SeedOptions): Promise<LoadSummary> {
  const { entries, failures } = await readFolder(directory);
  return seed(entries, failures, options);
}

async function seed(
  entries: readonly Entry[],
  failed: readonly Failure[],
  { out = process.stderr, signal, ...target }: SeedOptions,
): Promise<LoadSummary> {
  const progress = new Progress(entries.length, out);
  const onWait = (reason: string, seconds: number) => progress.note(waitLine(reason, seconds));
  try {
    const summary = await load(entries, new DocumentsClient({ ...target, onWait }), {
      onProgress: (done) => progress.update(done),
      ...(signal === undefined ? {} : { signal }),
    });
    return {
      ...summary,
      total: summary.total + failed.length,
      failures: [...failed, ...summary.failures],
    };
  } finally {
    progress.close();
  }
}

function waitLine(reason: string, seconds: number): string {
  return `${reason}; trying again in ${seconds.toFixed(1)} s`;
}
