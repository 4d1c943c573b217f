/** The cost of a stack, from its pools and dated price tables. No service is asked: every figure is an estimate. */
import { localDiskUse, machineDiskGiB, rootDisk } from "../aws/machines.ts";
import {
  EFS_INCLUDED_MIBPS_PER_GB,
  GP3_INCLUDED_MIBPS,
  onDemandHourlyUsd,
  type PricedService,
  type PricedStorage,
  priceOf,
  pricesAsOf,
  REFERENCE_REGION,
} from "../catalogue/prices.ts";
import { engineBytesGiB } from "../engine/engine-size.ts";
import { buildPoolOf } from "../pool-space.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { GB_PER_GIB } from "../units.ts";
import { asleepNodes, instanceTypes, isPricedByTable, plannedNodes, poolHourlyUsd } from "./pool-price.ts";
import { buildEstimate } from "./times.ts";
import type { CostLine, EngineOfModel, GpuCost } from "./types.ts";

/** 365 × 24 ÷ 12. */
export const HOURS_PER_MONTH = 730;

/**
 * Pools at the number of machines that their replicas need, on-demand by table, spot and machines outside the table by the
 * stack's own price only. Parts without a price are named in `withoutPrice` and are in no sum.
 *
 * @param engines - Engines that the stack needs; two models with one key build it once.
 */
export function stackCost(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost {
  const { region, rented } = stack;
  const builds = engineBuilds(stack, engines);
  const lines = [
    ...stack.pools.map((pool) => poolLine(stack, pool)),
    ...withOwnPrice(
      [...rentedLines(stack), ...storageLines(stack, engines), ...logLines(stack)],
      rented.otherHourlyUsd,
    ),
  ];
  const hourlyUsd = rounded(knownSum(lines.map((line) => line.hourlyUsd)));
  const asleepHourlyUsd = rounded(knownSum(lines.map((line) => line.asleepHourlyUsd)));
  const withoutPrice = lines.filter((line) => line.hourlyUsd === null).map(({ what }) => what);
  const pricedTypes = [...stack.pools.filter(isPricedByTable), ...rented.machines];
  const usesTable = pricedTypes.some(({ instanceType }) => tableHourlyUsd(region, instanceType) !== null);
  return {
    hourlyUsd,
    monthlyUsd: monthOf(hourlyUsd),
    withoutPrice,
    buildUsd: builds.some(({ usd }) => usd === null) ? null : rounded(knownSum(builds.map(({ usd }) => usd))),
    asleepHourlyUsd,
    asleepMonthlyUsd: monthOf(asleepHourlyUsd),
    lines,
    builds,
    notIncluded: rented.notIncluded,
    elsewhere: withoutPrice.length === 0 ? null : elsewhere(stack, engines),
    pricesAsOf: usesTable && region !== null ? pricesAsOf(region) : null,
  };
}

/** Sum of the known amounts; null if there are amounts and none is known. */
export function knownSum(amounts: readonly (number | null)[]): number | null {
  const known = amounts.filter((amount) => amount !== null);
  if (known.length === 0 && amounts.length > 0) return null;
  return known.reduce((sum, amount) => sum + amount, 0);
}

/** A month of an hourly amount, in cents. */
export function monthOf(hourlyUsd: number | null): number | null {
  return hourlyUsd === null ? null : Math.round(hourlyUsd * HOURS_PER_MONTH * 100) / 100;
}

/** Rounds to hundredths of a cent, as hourly prices are quoted; null for an unknown price. */
function rounded(usd: number | null, count = 1): number | null {
  return usd === null ? null : Math.round(count * usd * 10_000) / 10_000;
}

function tableHourlyUsd(region: string | null, instanceType: string | null): number | null {
  return region === null || instanceType === null ? null : onDemandHourlyUsd(region, instanceType);
}

/** A line whose amount is the same while the stack sleeps. */
function staying(what: string, arithmetic: string, usd: number | null): CostLine {
  return { what, arithmetic, hourlyUsd: rounded(usd), asleepHourlyUsd: rounded(usd) };
}

/** Replaces the lines without a price by a single line, if the stack file has their common price. */
function withOwnPrice(lines: readonly CostLine[], otherHourlyUsd: number | undefined): readonly CostLine[] {
  const unknown = lines.filter(({ hourlyUsd }) => hourlyUsd === null).map(({ what }) => what);
  if (otherHourlyUsd === undefined || unknown.length === 0) return lines;
  return [
    ...lines.filter(({ hourlyUsd }) => hourlyUsd !== null),
    {
      what: "all else",
      arithmetic: `${unknown.join(", ")}: from the stack file`,
      hourlyUsd: otherHourlyUsd,
      asleepHourlyUsd: otherHourlyUsd,
    },
  ];
}

/** null if the stack's region has prices of its own, or none is known anywhere. */
function elsewhere(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost["elsewhere"] {
  if (stack.region === null || pricesAsOf(stack.region) !== null) return null;
  const rented = { ...stack.rented, otherHourlyUsd: undefined };
  const { hourlyUsd, asleepHourlyUsd } = stackCost({ ...stack, region: REFERENCE_REGION, rented }, engines);
  return { region: REFERENCE_REGION, hourlyUsd, asleepHourlyUsd };
}

/** One build for each key, in the order of the models. */
function engineBuilds(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost["builds"] {
  const keys = engines.map(({ engine }) => engine.key);
  return engines
    .filter(({ engine }, index) => keys.indexOf(engine.key) === index)
    .map(({ model, engine }) => {
      const pool = buildPoolOf(model, stack);
      const { seconds, parts } = buildEstimate(model.engine, pool);
      return {
        engine: `${engine.model}/${engine.shortKey}`,
        seconds,
        usd: rounded(poolHourlyUsd(stack, pool), seconds / 3600),
        arithmetic: `estimate: ${Object.entries(parts)
          .map(([part, partSeconds]) => `${part} ${partSeconds} s`)
          .join(" + ")}`,
      };
    });
}

function poolLine(stack: GpuStackSpec, pool: PoolSpec): CostLine {
  const nodes = plannedNodes(stack, pool);
  const price = poolHourlyUsd(stack, pool);
  const machine = instanceTypes(pool).join(" or ") || "machine of its own description";
  // No machine costs nothing, whatever one would cost.
  const usd = (count: number) => (count === 0 ? 0 : rounded(price, count));
  return {
    what: `pool ${pool.name}`,
    arithmetic: `${nodes} × ${machine}, ${priceWords(stack, pool, price)}`,
    hourlyUsd: usd(nodes),
    // A Capacity Block is paid for, whether its machines run or not.
    asleepHourlyUsd: usd(pool.capacity === "capacityBlock" ? nodes : asleepNodes(stack, pool)),
  };
}

function priceWords({ region }: GpuStackSpec, pool: PoolSpec, price: number | null): string {
  const { capacity, hourlyUsd } = pool;
  if (price === null) {
    if (capacity === "spot") return "spot without hourlyUsd: no price";
    if (capacity === "capacityBlock")
      return "a Capacity Block, paid for beforehand, without hourlyUsd: no price";
    return region === null ? "no region, no price" : `not in the price table of ${region}`;
  }
  const amount = `${price} USD an hour each`;
  if (hourlyUsd !== undefined) return `${amount}, from the stack file`;
  const dearest = instanceTypes(pool).length > 1 ? " of the dearest" : "";
  return capacity === "owned" ? "owned" : `${amount}${dearest}, on demand in ${region}`;
}

/** Parts of a service's price that depend on its use. */
const BILLED_BY_USE: Partial<Readonly<Record<PricedService, string>>> = {
  "NAT gateway": ", without data processing",
  "interface endpoints": ", without data processing",
  "application load balancer": ", without capacity units (LCU)",
};

/** Services, and machines of controllers. */
function rentedLines({ rented, region }: GpuStackSpec): readonly CostLine[] {
  return [
    ...rented.machines.map(({ what, instanceType, count, asleepCount }) => {
      const usd = tableHourlyUsd(region, instanceType);
      const words =
        usd === null
          ? `not in the price table of ${region}`
          : `${usd} USD an hour each, on demand in ${region}`;
      return {
        what,
        arithmetic: `${count} × ${instanceType}, ${words}`,
        hourlyUsd: rounded(usd, count),
        asleepHourlyUsd: asleepCount === 0 ? 0 : rounded(usd, asleepCount),
      };
    }),
    ...rented.services.map(({ service, count, words }) => {
      const price = priceOf(service, region);
      const number = words === undefined ? `${count}` : `${words}: ${count}`;
      const amount = price === undefined ? "" : ` × ${price.usd} USD an hour (${price.asOf})`;
      return staying(
        service,
        `${number}${amount}${BILLED_BY_USE[service] ?? ""}`,
        price === undefined ? null : count * price.usd,
      );
    }),
  ];
}

/** Engine store and disks, if they are not owned already. A disk ends with its machine, unless that is only stopped. */
function storageLines(stack: GpuStackSpec, engines: readonly EngineOfModel[]): readonly CostLine[] {
  if (!stack.isRented) return [];
  const { region, store, rented } = stack;
  const machineDisks = [
    ...stack.pools.filter(({ capacity }) => capacity !== "owned").map((pool) => poolDisks(stack, pool)),
    ...rented.machines.map(({ count, asleepCount, diskGiB }) => ({
      ...keptDisks(count, diskGiB),
      asleepCount,
    })),
  ];
  // EFS is billed by its contents.
  const storedGB = store.sizeGiB === null ? neededGB(stack, engines) : store.sizeGiB * GB_PER_GIB;
  const storeWords = store.sizeGiB === null ? "weights and engines" : `${store.sizeGiB} GiB`;
  const storage = storageCost(
    region,
    store.kind === "efs" ? "EFS Standard, regional" : null,
    `${store.kind}, ${storeWords}`,
    storedGB,
  );
  return [
    staying("engine store", storage.arithmetic, storage.usd),
    ...(store.provisionedMiBps === null ? [] : [throughputLine(region, storedGB, store.provisionedMiBps)]),
    diskLine(region, "disks of the machines", machineDisks),
    ...rented.disks.map(({ what, count, sizeGiB }) => diskLine(region, what, [keptDisks(count, sizeGiB)])),
    ...rented.copies.map(({ what, sizeGiB }) => {
      const words = `a full copy of ${sizeGiB} GiB, without daily changes`;
      const { arithmetic, usd } = storageCost(region, "EBS snapshots", words, sizeGiB);
      return staying(what, arithmetic, usd);
    }),
  ];
}

/** Disks of one kind; sizes and throughput of each. */
interface Disks {
  readonly count: number;
  readonly asleepCount: number;
  readonly sizeGiB: number;
  /** Above the throughput that the price of its size includes. */
  readonly extraMiBps: number;
  /** Whether images and engines are on disks of the machine itself, whatever size the stack file gives this one. */
  readonly isBesideLocal: boolean;
}

function keptDisks(count: number, sizeGiB: number): Disks {
  return { count, asleepCount: count, sizeGiB, extraMiBps: 0, isBesideLocal: false };
}

function poolDisks(stack: GpuStackSpec, pool: PoolSpec): Disks {
  const count = plannedNodes(stack, pool);
  if (stack.runsOn === "host") return keptDisks(count, machineDiskGiB(pool));
  const { volumeSize, throughput } = rootDisk(pool);
  return {
    count,
    asleepCount: asleepNodes(stack, pool),
    sizeGiB: volumeSize,
    extraMiBps: throughput - GP3_INCLUDED_MIBPS,
    isBesideLocal: localDiskUse(pool) === "all",
  };
}

/**
 * AWS sells a gp3 disk by the GiB, which its price list calls GB: its example of 2,000 GB is a disk of that size.
 * https://aws.amazon.com/ebs/pricing/
 */
function diskLine(region: string | null, what: string, disks: readonly Disks[]): CostLine {
  const awake = diskCost(region, disks);
  const asleep = diskCost(
    region,
    disks.map((one) => ({ ...one, count: one.asleepCount })),
  );
  return { what, arithmetic: awake.arithmetic, hourlyUsd: awake.usd, asleepHourlyUsd: asleep.usd };
}

interface Cost {
  readonly arithmetic: string;
  /** US dollars an hour; null: no price is known. */
  readonly usd: number | null;
}

function diskCost(region: string | null, disks: readonly Disks[]): Cost {
  const sizeGiB = disks.reduce((sum, one) => sum + one.count * one.sizeGiB, 0);
  const extraMiBps = disks.reduce((sum, one) => sum + one.count * one.extraMiBps, 0);
  const size = storageCost(region, "EBS gp3", diskWords(disks), sizeGiB);
  const price = priceOf("EBS gp3 throughput", region);
  if (size.usd === null || price === undefined || extraMiBps === 0) return size;
  const { usd, asOf } = price;
  return {
    arithmetic: `${size.arithmetic}, and ${extraMiBps} MiB/s × ${usd} USD a month (${asOf}) ÷ ${HOURS_PER_MONTH}`,
    usd: rounded(size.usd + (extraMiBps * usd) / HOURS_PER_MONTH),
  };
}

/** `2 × 50 GiB (images and engines on local disks) + 1 × 200 GiB`: disks of one size together, in the order of the pools. */
function diskWords(disks: readonly Disks[]): string {
  const counts = new Map<string, number>();
  for (const { count, sizeGiB, isBesideLocal } of disks.filter((one) => one.count > 0)) {
    const words = `${sizeGiB} GiB${isBesideLocal ? " (images and engines on local disks)" : ""}`;
    counts.set(words, (counts.get(words) ?? 0) + count);
  }
  return [...counts].map(([words, count]) => `${count} × ${words}`).join(" + ");
}

/** @param storedGB - Includes some throughput in its price. */
function throughputLine(region: string | null, storedGB: number, provisionedMiBps: number): CostLine {
  const what = "throughput of the engine store";
  const words = `${provisionedMiBps} MiB/s provisioned`;
  const price = priceOf("EFS provisioned throughput", region);
  if (price === undefined) return staying(what, words, null);
  const { usd, asOf } = price;
  const billedMiBps = Math.max(0, provisionedMiBps - storedGB * EFS_INCLUDED_MIBPS_PER_GB);
  const arithmetic = `${words}, ${billedMiBps.toFixed(1)} above its storage's own × ${usd} USD a month (${asOf}) ÷ ${HOURS_PER_MONTH}`;
  return staying(what, arithmetic, (billedMiBps * usd) / HOURS_PER_MONTH);
}

/** @param storage - null for storage without a price. */
function storageCost(region: string | null, storage: PricedStorage | null, words: string, gb: number): Cost {
  const price = storage === null ? undefined : priceOf(storage, region);
  if (price === undefined) return { arithmetic: words, usd: null };
  const { usd, asOf } = price;
  return {
    arithmetic: `${words}: ${gb.toFixed(1)} GB × ${usd} USD a month (${storage}, ${asOf}) ÷ ${HOURS_PER_MONTH}`,
    usd: rounded((gb * usd) / HOURS_PER_MONTH),
  };
}

function logLines({ region, rented }: GpuStackSpec): readonly CostLine[] {
  const price = priceOf("CloudWatch Logs", region);
  return rented.logs.map(({ what, gbPerMonth }) => {
    const words = `assumed: ${gbPerMonth} GB a month`;
    if (price === undefined) return staying(what, words, null);
    const arithmetic = `${words} × ${price.usd} USD (CloudWatch, ${price.asOf}) ÷ ${HOURS_PER_MONTH}`;
    return staying(what, arithmetic, (gbPerMonth * price.usd) / HOURS_PER_MONTH);
  });
}

/** Weights once for each source and revision, engines once for each key. */
function neededGB({ models }: GpuStackSpec, engines: readonly EngineOfModel[]): number {
  const weights = new Map(
    models.map(({ engine: { model, weights: source, row } }) => [
      `${model} ${source.kind} ${source.revision}`,
      source.kind === "folder" ? 0 : row.source.downloadGB,
    ]),
  );
  const built = new Map(
    engines.map(({ model, engine }) => [engine.key, engineBytesGiB(model.engine).totalGiB * GB_PER_GIB]),
  );
  return [...weights.values(), ...built.values()].reduce((sum, gb) => sum + gb, 0);
}
