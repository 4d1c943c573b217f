/** Time of `npx engine-room diff` of an unchanged stack, and with one changed key. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "../../scripts/bench/load.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { tell } from "../harness/progress.ts";

interface DiffFigures {
  readonly stack: string;
  readonly rounds: number;
  readonly unchangedSeconds: number;
  readonly changedKeySeconds: number;
  /** Load average of the minute before the first round; above 1, other programs use the cores. */
  readonly loadBefore: number;
}

const ROUNDS = 5;
const CLI = join(projectRoot, "scripts/cli.mjs");

/** Needs a clean working tree: a change outside stack files adds a checkout of the base. */
export function measureDiff(stack: string): DiffFigures {
  const loadBefore = loadavg()[0] ?? 0;
  const folder = mkdtempSync(join(tmpdir(), "engine-room-diff-"));
  try {
    const text = readFileSync(join(projectRoot, `Pulumi.${stack}.yaml`), "utf8");
    const changed = join(folder, `Pulumi.${stack}.yaml`);
    writeFileSync(
      changed,
      text.replace(/max: (\d+) \}/, (_, max) => `max: ${Number(max) + 1} }`),
    );
    const unchanged = Array.from({ length: ROUNDS }, () => seconds("unchanged", stack));
    const oneKey = Array.from({ length: ROUNDS }, () => seconds("one key", stack, "--config-file", changed));
    return {
      stack,
      rounds: ROUNDS,
      unchangedSeconds: median(unchanged),
      changedKeySeconds: median(oneKey),
      loadBefore,
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** One line for people. */
export function diffText(figures: DiffFigures): string {
  const { stack, rounds, unchangedSeconds, changedKeySeconds, loadBefore } = figures;
  return `diff of ${stack}, median of ${rounds}: unchanged ${unchangedSeconds.toFixed(2)} s, one changed key ${changedKeySeconds.toFixed(2)} s; load before ${loadBefore.toFixed(1)}`;
}

function seconds(what: string, stack: string, ...options: readonly string[]): number {
  const started = performance.now();
  const argv = [CLI, "diff", "--stack", stack, "--base", "HEAD", ...options];
  const run = spawnSync(process.execPath, argv, { stdio: ["ignore", "ignore", "inherit"], cwd: projectRoot });
  if (run.status !== 0) throw new Error(`diff of ${stack} ended with exit code ${run.status}.`);
  const taken = (performance.now() - started) / 1000;
  tell(`${what} ${taken.toFixed(2)} s`);
  return taken;
}
