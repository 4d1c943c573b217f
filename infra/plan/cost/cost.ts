/** What a stack costs, from its pools and a dated price table. Nothing here asks anybody: every figure is an estimate. */
import { pricesAsOf, REFERENCE_REGION } from "../catalogue/prices.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { buildEstimate } from "./build-seconds.ts";
import { asleepNodes, isPricedByTable, plannedNodes, poolHourlyUsd } from "./pool-price.ts";
import { hasPricedMachines, serviceLines } from "./services.ts";
import { storageLines } from "./storage.ts";
import { knownSum, monthOf, tenThousandths } from "./sums.ts";
import type { CostLine, EngineOfModel, GpuCost } from "./types.ts";

/** On AWS, what is billed by the byte, the request or the month. */
const AWS_BESIDES = [
  "data transfer, and what load balancers, NAT gateways and endpoints handle",
  "logs, and requests to the engine store",
  "images in ECR, copies of AWS Backup and keys of KMS",
] as const;

/**
 * Cost of a stack: pools at the number of machines that their replicas need, on-demand by table, spot and machines outside
 * the table by the stack's own price only. What has no price is named in `withoutPrice` and is in no sum.
 *
 * @param engines engines that the stack needs; two models with one key build it once.
 */
export function stackCost(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost {
  const builds = distinctBuilds(stack, engines);
  const lines = [
    ...stack.pools.map((pool) => poolLine(stack, pool)),
    ...withOwnPrice([...serviceLines(stack), ...storageLines(stack, engines)], stack.rented),
  ];
  const hourlyUsd = hourOf(lines.map((line) => line.hourlyUsd));
  const asleepHourlyUsd = hourOf(lines.map((line) => line.asleepHourlyUsd));
  const withoutPrice = lines.filter((line) => line.hourlyUsd === null).map(({ what }) => what);
  const usedTable =
    hasPricedMachines(stack) ||
    stack.pools.some((pool) => isPricedByTable(pool) && poolHourlyUsd(stack, pool) !== null);
  return {
    hourlyUsd,
    monthlyUsd: monthOf(hourlyUsd),
    withoutPrice,
    buildUsd: builds.some(({ usd }) => usd === null) ? null : hourOf(builds.map(({ usd }) => usd)),
    asleepHourlyUsd,
    asleepMonthlyUsd: monthOf(asleepHourlyUsd),
    lines,
    builds,
    besides: stack.platform === "aws" ? AWS_BESIDES : [],
    elsewhere: withoutPrice.length === 0 ? null : elsewhere(stack, engines),
    pricesAsOf: usedTable && stack.region !== null ? pricesAsOf(stack.region) : null,
  };
}

function hourOf(amounts: readonly (number | null)[]): number | null {
  const sum = knownSum(amounts);
  return sum === null ? null : tenThousandths(sum);
}

/** What has no price, as one line, where the stack file says what it costs together. */
function withOwnPrice(
  lines: readonly CostLine[],
  { otherHourlyUsd }: GpuStackSpec["rented"],
): readonly CostLine[] {
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

/** null where the stack's region has prices of its own, or none is to be had anywhere. */
function elsewhere(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost["elsewhere"] {
  if (stack.region === null || pricesAsOf(stack.region) !== null) return null;
  const rented = { ...stack.rented, otherHourlyUsd: undefined };
  const there = stackCost({ ...stack, region: REFERENCE_REGION, rented }, engines);
  return {
    region: REFERENCE_REGION,
    hourlyUsd: there.hourlyUsd,
    asleepHourlyUsd: there.asleepHourlyUsd,
  };
}

function poolLine(stack: GpuStackSpec, pool: PoolSpec): CostLine {
  const nodes = plannedNodes(stack, pool);
  const price = poolHourlyUsd(stack, pool);
  const machine = pool.instanceType ?? "machine of its own description";
  // No machine costs nothing, whatever one would cost.
  const usd = (count: number) => (count === 0 ? 0 : price === null ? null : tenThousandths(count * price));
  return {
    what: `pool ${pool.name}`,
    arithmetic: `${nodes} × ${machine}, ${priceWords(stack, pool, price)}`,
    hourlyUsd: usd(nodes),
    asleepHourlyUsd: usd(asleepNodes(stack, pool)),
  };
}

function priceWords(stack: GpuStackSpec, pool: PoolSpec, price: number | null): string {
  if (price === null) {
    if (pool.capacity === "spot") return "spot without hourlyUsd: no price";
    return stack.region === null ? "no region, no price" : `not in the price table of ${stack.region}`;
  }
  const amount = `${price} USD an hour each`;
  if (pool.hourlyUsd !== undefined) return `${amount}, from the stack file`;
  return pool.capacity === "owned" ? "owned" : `${amount}, on demand in ${stack.region}`;
}

/** One build for each key, in the order of the models. */
function distinctBuilds(stack: GpuStackSpec, engines: readonly EngineOfModel[]) {
  const first = new Map<string, EngineOfModel>();
  for (const one of engines) if (!first.has(one.engine.key)) first.set(one.engine.key, one);
  return [...first.values()].map(({ model, engine }) => {
    const pool = stack.pools.find(({ name }) => name === model.buildPool);
    if (pool === undefined) {
      throw new Error(
        `The stack has no pool ${model.buildPool} to build the engine of ${model.serving.name}.`,
      );
    }
    const { seconds, parts } = buildEstimate(model.engine, pool);
    const price = poolHourlyUsd(stack, pool);
    return {
      engine: `${engine.model}/${engine.shortKey}`,
      seconds,
      usd: price === null ? null : tenThousandths((seconds / 3600) * price),
      arithmetic: `estimate: ${parts.map((part) => `${part.what} ${part.seconds} s`).join(" + ")}`,
    };
  });
}
