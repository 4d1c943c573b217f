/** What a stack keeps on disks, and what that costs where the catalogue has a price. */

import { rootDisk } from "../aws/node-pools.ts";
import { type StoragePrice, storagePrices } from "../catalogue/prices.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { GB_PER_GIB } from "../units.ts";
import { plannedNodes } from "./pool-price.ts";
import type { CostLine, EngineOfModel } from "./types.ts";

/** 365 × 24 ÷ 12: what prices by the month are converted with. */
export const HOURS_PER_MONTH = 730;

interface StorageLine {
  readonly line: CostLine;
  /** null: no price is known for it. */
  readonly asleepHourlyUsd: number | null;
}

/**
 * Engine store and disks of rented machines on AWS; elsewhere storage is somebody's already. EFS is billed by what is kept:
 * the stack's size for it, or else the weights and engines that the stack needs, each once.
 */
export function storageLines(stack: GpuStackSpec, engines: readonly EngineOfModel[]): readonly StorageLine[] {
  if (stack.platform !== "aws") return [];
  const { machines, disks } = stack.rented;
  const controllersGiB = machines.reduce((sum, { count, diskGiB }) => sum + count * diskGiB, 0);
  const diskGiB = controllersGiB + rootDisksGiB(stack, (pool) => plannedNodes(stack, pool));
  const asleepGiB = controllersGiB + rootDisksGiB(stack, ({ nodes }) => nodes.min);
  const { kind, sizeGiB } = stack.store;
  const kept = sizeGiB === null ? keptGB(stack, engines) : sizeGiB * GB_PER_GIB;
  const words = sizeGiB === null ? "weights and engines" : `${sizeGiB} GiB`;
  return [
    always(
      line(
        stack,
        "engine store",
        `${kind}, ${words}`,
        kept,
        kind === "efs" ? "EFS Standard, regional" : null,
      ),
    ),
    {
      line: diskLine(stack, "disks of the machines", `${diskGiB} GiB in all`, diskGiB),
      asleepHourlyUsd: diskLine(stack, "", "", asleepGiB).hourlyUsd,
    },
    ...disks.map(({ what, count, sizeGiB: size }) =>
      always(diskLine(stack, what, `${count} × ${size} GiB`, count * size)),
    ),
  ];
}

/** A disk ends with its machine: those that are off have none. @param count - Machines of a pool. */
function rootDisksGiB(stack: GpuStackSpec, count: (pool: PoolSpec) => number): number {
  const sizeGiB = (pool: PoolSpec) => (stack.runsOn === "cluster" ? rootDisk(pool).sizeGiB : pool.diskGiB);
  return stack.pools
    .filter(({ capacity }) => capacity !== "owned")
    .reduce((sum, pool) => sum + count(pool) * sizeGiB(pool), 0);
}

function always(line: CostLine): StorageLine {
  return { line, asleepHourlyUsd: line.hourlyUsd };
}

function diskLine(stack: GpuStackSpec, what: string, words: string, sizeGiB: number): CostLine {
  return line(stack, what, words, sizeGiB * GB_PER_GIB, "EBS gp3");
}

function line(
  { region }: GpuStackSpec,
  what: string,
  words: string,
  gb: number,
  storage: StoragePrice["storage"] | null,
): CostLine {
  const price = storagePrices.find((row) => row.storage === storage && row.region === region);
  const usd = price?.usdPerGBMonth ?? null;
  return usd === null
    ? { what, arithmetic: words, hourlyUsd: null }
    : {
        what,
        arithmetic: `${words}: ${gb.toFixed(1)} GB × ${usd} USD a month (${storage}, ${price?.asOf}) ÷ ${HOURS_PER_MONTH}`,
        hourlyUsd: Math.round(((gb * usd) / HOURS_PER_MONTH) * 10_000) / 10_000,
      };
}

/** Weights once for each source and revision, engines once for each key. */
function keptGB(stack: GpuStackSpec, engines: readonly EngineOfModel[]): number {
  const weights = new Map(
    stack.models.map(({ engine }) => [
      `${engine.model} ${engine.weights.kind} ${engine.weights.revision}`,
      engine.weights.kind === "folder" ? 0 : engine.row.source.downloadGB,
    ]),
  );
  const built = new Map(
    engines.map(({ model, engine }) => [engine.key, engineBytesGiB(model.engine).totalGiB * GB_PER_GIB]),
  );
  return [...weights.values(), ...built.values()].reduce((sum, gb) => sum + gb, 0);
}
