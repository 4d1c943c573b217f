/** The entry point's copy of an engine from the store to a local disk, against `dd` of the same files on the same disk. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { findPython } from "../../components/local/provider/python.ts";
import { median } from "../../scripts/bench/load.ts";
import { UserError } from "../../scripts/errors.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";

const rounds = z.object({
  readers: z.number(),
  files: z.number(),
  bytes: z.number(),
  pairs: z.array(z.object({ copySeconds: z.number(), ddSeconds: z.number() })).min(1),
});

/** What `test/bench/engine_copy_rounds.py` prints. */
export type EngineCopyRounds = z.infer<typeof rounds>;

export interface EngineCopyFigures extends EngineCopyRounds {
  /** Throughput of the copy divided by that of dd, over the pairs. */
  readonly medianRatio: number;
  readonly leastRatio: number;
  /** The quickest copy against the quickest dd: what other work on the machine disturbed least. */
  readonly quickestRatio: number;
  /** Medians, with 10^6 bytes in a megabyte. */
  readonly copyMegabytesPerSecond: number;
  readonly ddMegabytesPerSecond: number;
}

/** The engine, one copy of it, and a reserve for other programs. */
const NEEDED_BYTES = 2 * 2 ** 30 + 2 ** 29;
/** File systems in memory, by the type that statfs(2) gives: tmpfs and ramfs. */
const MEMORY_FILE_SYSTEMS = [0x01021994, 0x858458f6];

/**
 * Copies an engine of 1 GiB several times below `directory`, in a folder that is removed.
 *
 * @throws UserError if that is a file system in memory, or has too little room.
 */
export async function measureEngineCopy(directory: string): Promise<EngineCopyFigures> {
  checkDisk(directory);
  const { executable } = await findPython(undefined);
  const script = join(projectRoot, "test/bench/engine_copy_rounds.py");
  const child = spawn(executable, [script, "--directory", directory], {
    env: { ...process.env, PYTHONPATH: join(projectRoot, "containers/python") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [printed, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (code !== 0) throw new UserError(`The copies ended with exit code ${code}; the lines above say why.`);
  return engineCopyFigures(rounds.parse(JSON.parse(printed)));
}

/** Medians of the rounds. */
export function engineCopyFigures(measured: EngineCopyRounds): EngineCopyFigures {
  const { pairs, bytes } = measured;
  const ratios = pairs.map(({ copySeconds, ddSeconds }) => ddSeconds / copySeconds);
  const megabytesPerSecond = (seconds: readonly number[]) => median(seconds.map((one) => bytes / one / 1e6));
  return {
    ...measured,
    medianRatio: median(ratios),
    leastRatio: Math.min(...ratios),
    quickestRatio:
      Math.min(...pairs.map(({ ddSeconds }) => ddSeconds)) /
      Math.min(...pairs.map(({ copySeconds }) => copySeconds)),
    copyMegabytesPerSecond: megabytesPerSecond(pairs.map(({ copySeconds }) => copySeconds)),
    ddMegabytesPerSecond: megabytesPerSecond(pairs.map(({ ddSeconds }) => ddSeconds)),
  };
}

/** A line for each pair, and one for all. */
export function engineCopyText(figures: EngineCopyFigures): string {
  const { pairs, bytes, files, readers } = figures;
  const rate = (seconds: number) => (bytes / seconds / 1e6).toFixed(0).padStart(9);
  return [
    "copy MB/s   dd MB/s  ratio",
    ...pairs.map(
      ({ copySeconds, ddSeconds }) =>
        `${rate(copySeconds)} ${rate(ddSeconds)} ${(ddSeconds / copySeconds).toFixed(2).padStart(6)}`,
    ),
    `engine of ${files} files, ${(bytes / 2 ** 30).toFixed(2)} GiB, ${readers} readers, ${pairs.length} pairs: ` +
      `${figures.copyMegabytesPerSecond.toFixed(0)} MB/s against ${figures.ddMegabytesPerSecond.toFixed(0)} of dd, ` +
      `median ratio ${figures.medianRatio.toFixed(2)}, least ${figures.leastRatio.toFixed(2)}; ` +
      `the quickest of each: ratio ${figures.quickestRatio.toFixed(2)}`,
  ].join("\n");
}

function checkDisk(directory: string): void {
  const { type, bavail, bsize } = statfsSync(directory);
  if (MEMORY_FILE_SYSTEMS.includes(type))
    throw new UserError(`${directory} is in memory, and disks are compared; name a folder with --directory.`);
  const free = bavail * bsize;
  if (free < NEEDED_BYTES)
    throw new UserError(
      `${directory} has ${(free / 2 ** 30).toFixed(1)} GiB free, and the engine with a copy needs ` +
        `${NEEDED_BYTES / 2 ** 30} GiB; name a folder on a larger disk with --directory.`,
    );
}
