/** What most want to know of a stack with GPUs: machines and money where it costs any, and time; above all the rest. */

import { monthOf } from "../../infra/plan/cost/cost.ts";
import { asleepNodes, plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import type { FirstUp, GpuCost } from "../../infra/plan/cost/types.ts";
import type { GpuPlan } from "../../infra/plan/gpu-stack.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { HOURLY_DIGITS, SUM_DIGITS, sumUsd } from "./amounts.ts";
import { buildSum } from "./cost-section.ts";
import { duration, paragraph } from "./text-table.ts";

const STEPS: Readonly<Record<FirstUp["steps"][number]["what"], string>> = {
  network: "network",
  controlPlane: "control plane",
  machines: "its first machines",
  builds: "engines",
  coldStart: "cold start",
};

/** A paragraph each; nothing for stacks without engines. */
export function summaryLines(plan: StackPlan): readonly string[] {
  if (plan.tier === "cpu") return [];
  const costsMoney = plan.cost.hourlyUsd !== 0;
  const paragraphs = [...(costsMoney ? [machineWords(plan), costWords(plan)] : []), timeWords(plan)];
  return paragraphs.flatMap((text) => paragraph(text));
}

function machineWords({ spec }: GpuPlan): string {
  const pools = spec.pools.map((pool) => {
    const count = plannedNodes(spec, pool);
    return { count, asleep: asleepNodes(spec, pool), type: pool.instanceType ?? `machine of ${pool.name}` };
  });
  const always = spec.rented.machines.map(({ count, instanceType }) => ({
    count,
    asleep: count,
    type: instanceType,
  }));
  const all = [...pools, ...always];
  const list = (of: "count" | "asleep") =>
    all
      .filter((machines) => machines[of] > 0)
      .map((machines) => `${machines[of]} × ${machines.type}`)
      .join(" + ");
  return `Machines: ${list("count") || "none"}; asleep ${list("asleep") || "none"}.`;
}

/** What is billed by use is in no sum, so that a sum is a lower bound wherever there is any of it. */
function costWords({ cost, spec }: GpuPlan): string {
  const isAtLeast = cost.withoutPrice.length > 0 || cost.besides.length > 0;
  const hour = (amount: number | null) => `${sumUsd(amount, HOURLY_DIGITS, isAtLeast)} an hour`;
  const month = (amount: number | null) => `${sumUsd(amount, SUM_DIGITS, isAtLeast)} a month`;
  const once = cost.builds.length === 0 ? "" : `; engines, built once: ${buildSum(cost.builds)}`;
  const { elsewhere, hourlyUsd, monthlyUsd, withoutPrice, lines } = cost;
  const here = `${hour(hourlyUsd)} (${month(monthlyUsd)}), ${asleepHour(cost)} asleep (\`npx engine-room sleep\`)${once}`;
  if (withoutPrice.length === 0) return `Cost: ${here}.`;
  const isOne = withoutPrice.length === 1;
  const missing = `${withoutPrice.length} of its ${lines.length} parts ${isOne ? "has" : "have"} no price`;
  if (elsewhere === null) return `Cost: ${here}. ${missing}.`;
  const there = `${hour(elsewhere.hourlyUsd)} (${month(monthOf(elsewhere.hourlyUsd))}), ${sumUsd(elsewhere.asleepHourlyUsd, HOURLY_DIGITS, isAtLeast)} asleep`;
  // Of nothing, or of what costs nothing, there is no sum to tell.
  const others = hourlyUsd === null || hourlyUsd === 0 ? "" : `; the others: ${here}`;
  return `Cost: no price table for ${spec.region}; in ${elsewhere.region} it would be ${there}. ${missing} in ${spec.region}${others}.`;
}

/** An hour of what is left after `npx engine-room sleep`. */
export function asleepHour({
  asleepHourlyUsd,
  withoutPrice,
  besides,
}: Pick<GpuCost, "asleepHourlyUsd" | "withoutPrice" | "besides">): string {
  return sumUsd(asleepHourlyUsd, HOURLY_DIGITS, withoutPrice.length > 0 || besides.length > 0);
}

/** A Docker host has no registry before it: its cold start downloads the images. */
function timeWords({ firstUp: { steps, seconds }, platform }: GpuPlan): string {
  const parts = steps.map((step) => `${STEPS[step.what]} ${duration(step.seconds)}`).join(" + ");
  const images = platform === "docker" ? "" : ", once images are in their registry";
  return `First \`up\`: about ${duration(seconds)} until its models answer (estimate: ${parts})${images}.`;
}
