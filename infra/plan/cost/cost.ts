/** What a stack costs, from its pools and a dated price table. Nothing here asks anybody: every figure is an estimate. */
import { pricesAsOf } from "../catalogue/prices.ts";
import type { GpuStackSpec, PoolSpec } from "../spec.ts";
import { buildEstimate } from "./build-seconds.ts";
import { isPricedByTable, plannedNodes, poolHourlyUsd } from "./pool-price.ts";
import { hasPricedMachines, serviceLines } from "./services.ts";
import { HOURS_PER_MONTH, storageLines } from "./storage.ts";
import type { CostLine, EngineOfModel, GpuCost } from "./types.ts";

/** On AWS, what is billed by the byte or the request. */
const AWS_TRAFFIC = [
  "data transfer, and what load balancers, NAT gateways and endpoints handle",
  "logs, and requests to the engine store",
] as const;

/**
 * Cost of a stack: pools at the number of machines that their replicas need, on-demand by table, spot and machines outside
 * the table by the stack's own price only. What has no price is listed as `unpriced` and is in no sum.
 *
 * @param engines engines that the stack needs; two models with one key build it once.
 */
export function stackCost(stack: GpuStackSpec, engines: readonly EngineOfModel[]): GpuCost {
  const pools = stack.pools.map((pool) => poolCost(stack, pool));
  const builds = distinctBuilds(stack, engines);
  const services = serviceLines(stack);
  const storage = storageLines(stack, engines);
  const lines = [...pools.map(({ line }) => line), ...services, ...storage.map(({ line }) => line)];
  const hourlyUsd = cents(sum(lines.map((line) => line.hourlyUsd ?? 0)));
  const asleepHourlyUsd = cents(
    sum([
      ...pools.map((pool) => pool.asleepHourlyUsd),
      ...services.map((line) => line.hourlyUsd ?? 0),
      ...storage.map((stored) => stored.asleepHourlyUsd ?? 0),
    ]),
  );
  const usedTable =
    hasPricedMachines(stack) ||
    stack.pools.some((pool) => isPricedByTable(pool) && poolHourlyUsd(stack, pool) !== null);
  return {
    hourlyUsd,
    monthlyUsd: dollars(hourlyUsd * HOURS_PER_MONTH),
    buildUsd: cents(sum(builds.map((build) => build.usd ?? 0))),
    asleepHourlyUsd,
    asleepMonthlyUsd: dollars(asleepHourlyUsd * HOURS_PER_MONTH),
    lines,
    builds: builds.map(({ unpriced: _unpriced, ...build }) => build),
    unpriced: [
      ...lines.filter((line) => line.hourlyUsd === null).map((line) => `${line.what}: ${line.arithmetic}`),
      ...builds.flatMap((build) => (build.unpriced === null ? [] : [build.unpriced])),
      ...(stack.platform === "aws" ? AWS_TRAFFIC : []),
    ],
    pricesAsOf: usedTable && stack.region !== null ? pricesAsOf(stack.region) : null,
  };
}

function poolCost(
  stack: GpuStackSpec,
  pool: PoolSpec,
): { readonly line: CostLine; readonly asleepHourlyUsd: number } {
  const nodes = plannedNodes(stack, pool);
  const price = poolHourlyUsd(stack, pool);
  const machine = pool.instanceType ?? "machine of its own description";
  return {
    line: {
      what: `pool ${pool.name}`,
      arithmetic: `${nodes} × ${machine}, ${priceWords(stack, pool, price)}`,
      // No machine costs nothing, whatever one would cost.
      hourlyUsd: nodes === 0 ? 0 : price === null ? null : cents(nodes * price),
    },
    asleepHourlyUsd: cents(pool.nodes.min * (price ?? 0)),
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
    const name = `${engine.model}/${engine.shortKey}`;
    return {
      engine: name,
      seconds,
      usd: price === null ? null : cents((seconds / 3600) * price),
      arithmetic: `estimate: ${parts.map((part) => `${part.what} ${part.seconds} s`).join(" + ")}`,
      unpriced: price === null ? `build of ${name}: about ${seconds} s on pool ${pool.name}` : null,
    };
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Hundredths of a cent: what hourly prices are quoted in. */
function cents(usd: number): number {
  return Math.round(usd * 10_000) / 10_000;
}

function dollars(usd: number): number {
  return Math.round(usd * 100) / 100;
}
