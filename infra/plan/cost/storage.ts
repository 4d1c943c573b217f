/** What a stack keeps on disks, and what that costs where the catalogue has a price. */
import { machineDiskGiB } from "../aws/machine/root-disk.ts";
import { localDiskUse, rootDisk } from "../aws/node-pools.ts";
import {
  EFS_INCLUDED_MIBPS_PER_GB,
  efsThroughputPrices,
  GP3_INCLUDED_MIBPS,
  gp3ThroughputPrices,
  type StoragePrice,
  storagePrices,
} from "../catalogue/prices.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { GB_PER_GIB } from "../units.ts";
import { type AwakeLine, staying } from "./lines.ts";
import { asleepNodes, plannedNodes } from "./pool-price.ts";
import { HOURS_PER_MONTH, tenThousandths } from "./sums.ts";
import type { CostLine, EngineOfModel } from "./types.ts";

/**
 * Engine store and disks of rented machines on AWS; elsewhere storage is somebody's already. EFS is billed by what is kept:
 * the stack's size for it, or else the weights and engines that the stack needs, each once.
 */
export function storageLines(stack: GpuStackSpec, engines: readonly EngineOfModel[]): readonly CostLine[] {
  if (stack.platform !== "aws") return [];
  const { machines, disks } = stack.rented;
  const controllers = machines.map(({ count, diskGiB }) => ({ count, sizeGiB: diskGiB, extraMiBps: 0 }));
  const all = [...rootDisks(stack, (pool) => plannedNodes(stack, pool)), ...controllers];
  // A machine that is stopped keeps its disks.
  const asleepCount = stack.runsOn === "host" ? plannedNodes : asleepNodes;
  const asleep = [...rootDisks(stack, (pool) => asleepCount(stack, pool)), ...controllers];
  const { kind, sizeGiB, provisionedMiBps } = stack.store;
  const kept = sizeGiB === null ? keptGB(stack, engines) : sizeGiB * GB_PER_GIB;
  const words = sizeGiB === null ? "weights and engines" : `${sizeGiB} GiB`;
  return [
    staying(
      line(
        stack,
        "engine store",
        `${kind}, ${words}`,
        kept,
        kind === "efs" ? "EFS Standard, regional" : null,
      ),
    ),
    ...(provisionedMiBps === null ? [] : [staying(throughputLine(stack, kept, provisionedMiBps))]),
    {
      ...diskLine(stack, "disks of the machines", diskWords(all), all),
      asleepHourlyUsd: diskLine(stack, "", "", asleep).hourlyUsd,
    },
    ...disks.map(({ what, count, sizeGiB: size }) =>
      staying(diskLine(stack, what, `${count} × ${size} GiB`, [{ count, sizeGiB: size, extraMiBps: 0 }])),
    ),
  ];
}

/** Disks of one kind. */
interface Disks {
  readonly count: number;
  /** Of each. */
  readonly sizeGiB: number;
  /** Of each, above what the price of its size has already. */
  readonly extraMiBps: number;
  /** Whether images and engines lie on disks of the machine itself, whatever size the stack file gives this one. */
  readonly isBesideLocal?: boolean;
}

/** A disk ends with its machine: those that are off have none. @param count - Machines of a pool. */
function rootDisks(stack: GpuStackSpec, count: (pool: PoolSpec) => number): readonly Disks[] {
  return stack.pools
    .filter(({ capacity }) => capacity !== "owned")
    .map((pool) => {
      if (stack.runsOn === "host")
        return { count: count(pool), sizeGiB: machineDiskGiB(pool), extraMiBps: 0 };
      const { volumeSize, throughput } = rootDisk(pool);
      return {
        count: count(pool),
        sizeGiB: volumeSize,
        extraMiBps: throughput - GP3_INCLUDED_MIBPS,
        isBesideLocal: localDiskUse(pool) === "all",
      };
    })
    .filter((disks) => disks.count > 0);
}

/** `2 × 50 GiB beside local disks + 1 × 200 GiB`; disks of one size together, in the order of the pools. */
function diskWords(disks: readonly Disks[]): string {
  const counts = new Map<string, number>();
  for (const { count, sizeGiB, isBesideLocal } of disks) {
    const words = `${sizeGiB} GiB${isBesideLocal === true ? " beside local disks" : ""}`;
    counts.set(words, (counts.get(words) ?? 0) + count);
  }
  return [...counts].map(([words, count]) => `${count} × ${words}`).join(" + ");
}

/** What EFS keeps ready whether anybody reads or not. @param kept - GB of storage, which has some of it already. */
function throughputLine({ region }: GpuStackSpec, kept: number, provisionedMiBps: number): AwakeLine {
  const what = "throughput of the engine store";
  const words = `${provisionedMiBps} MiB/s provisioned`;
  const price = efsThroughputPrices.find((row) => row.region === region);
  if (price === undefined) return { what, arithmetic: words, hourlyUsd: null };
  const { usdPerMiBpsMonth: usd, asOf } = price;
  const billed = Math.max(0, provisionedMiBps - kept * EFS_INCLUDED_MIBPS_PER_GB);
  return {
    what,
    arithmetic: `${words}, ${billed.toFixed(1)} above its storage's own × ${usd} USD a month (${asOf}) ÷ ${HOURS_PER_MONTH}`,
    hourlyUsd: tenThousandths((billed * usd) / HOURS_PER_MONTH),
  };
}

/**
 * AWS sells a gp3 disk by the GiB, which its price list calls GB: its example of 2,000 GB is a disk of that size.
 * https://aws.amazon.com/ebs/pricing/
 */
function diskLine(stack: GpuStackSpec, what: string, words: string, disks: readonly Disks[]): AwakeLine {
  const sizeGiB = disks.reduce((sum, one) => sum + one.count * one.sizeGiB, 0);
  const extraMiBps = disks.reduce((sum, one) => sum + one.count * one.extraMiBps, 0);
  const size = line(stack, what, words, sizeGiB, "EBS gp3");
  const price = gp3ThroughputPrices.find(({ region }) => region === stack.region);
  if (size.hourlyUsd === null || price === undefined || extraMiBps === 0) return size;
  const { usdPerMiBpsMonth, asOf } = price;
  return {
    what,
    arithmetic: `${size.arithmetic}, and ${extraMiBps} MiB/s × ${usdPerMiBpsMonth} USD a month (${asOf}) ÷ ${HOURS_PER_MONTH}`,
    hourlyUsd: tenThousandths(size.hourlyUsd + (extraMiBps * usdPerMiBpsMonth) / HOURS_PER_MONTH),
  };
}

function line(
  { region }: GpuStackSpec,
  what: string,
  words: string,
  gb: number,
  storage: StoragePrice["storage"] | null,
): AwakeLine {
  const price = storagePrices.find((row) => row.storage === storage && row.region === region);
  if (price === undefined) return { what, arithmetic: words, hourlyUsd: null };
  const { usdPerGBMonth: usd, asOf } = price;
  return {
    what,
    arithmetic: `${words}: ${gb.toFixed(1)} GB × ${usd} USD a month (${storage}, ${asOf}) ÷ ${HOURS_PER_MONTH}`,
    hourlyUsd: tenThousandths((gb * usd) / HOURS_PER_MONTH),
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
