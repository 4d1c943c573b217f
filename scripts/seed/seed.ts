/** Fills a stack with documents: a folder, or the sample collection. */
import { DocumentsClient, type DocumentsClientOptions } from "./documents-client.ts";
import type { Entry } from "./entry.ts";
import { readFolder } from "./folder.ts";
import { type Failure, type LoadSummary, load } from "./load.ts";
import { Progress } from "./progress.ts";
import { sampleEntries } from "./sample-collection.ts";

export interface SeedOptions extends Pick<DocumentsClientOptions, "gateway" | "apiKey"> {
  /** Ends the load; a later one goes on from there. */
  readonly signal?: AbortSignal;
  /** Where progress goes. @default standard error */
  readonly out?: NodeJS.WriteStream;
}

/**
 * Loads the sample collection into a gateway; what it has already stays as it is.
 *
 * @throws UserError when a picture is missing in the download cache and its package can't be had.
 */
export async function seedSamples(options: SeedOptions): Promise<LoadSummary> {
  const { out = process.stderr } = options;
  const report = (line: string) => void out.write(`  ${line}\n`);
  const { signal } = options;
  const entries = await sampleEntries({ report, ...(signal === undefined ? {} : { signal }) });
  return seed(entries, [], options);
}

/**
 * Loads the sample collection into a gateway that has no document at all, so that what people delete stays deleted.
 *
 * @returns undefined where there was a document.
 * @throws UserError as seedSamples does; GatewayRefusal when the gateway can't be asked.
 */
export async function seedSamplesOnce(options: SeedOptions): Promise<LoadSummary | undefined> {
  const { out = process.stderr, signal = new AbortController().signal, ...target } = options;
  const onWait = (reason: string, seconds: number) => void out.write(`  ${waitLine(reason, seconds)}\n`);
  const isEmpty = await new DocumentsClient({ ...target, onWait }).isEmpty(signal);
  return isEmpty ? seedSamples(options) : undefined;
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
