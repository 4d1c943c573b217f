/** What is said of money, against what is known of prices. */
import { SYSTEM_POOL } from "../aws/names.ts";
import { stackCost } from "../cost/cost.ts";
import { type Check, type CheckedStack, stackCheck } from "./finding.ts";

const PRICE_KEYS = ["region", "pools.hourlyUsd", "pools.capacity", "pools.instanceType"] as const;

export const costChecks = {
  // A guard against money that does not guard is worse than none: nobody looks any more.
  capIsJudged: stackCheck(["policies", ...PRICE_KEYS], (stack) => {
    const { hourlyUsdCap, levels } = stack.config.policies;
    const level = levels["price-is-below-cap"];
    const withoutPrice = unknownLines(stack);
    if (hourlyUsdCap === undefined || level === "off" || withoutPrice.length === 0) return [];
    return [
      {
        ...(level === "advisory" ? ({ severity: "warning" } as const) : {}),
        path: "policies.hourlyUsdCap",
        ...unjudgedCap(hourlyUsdCap, withoutPrice),
      },
    ];
  }),

  ownPriceIsNeeded: stackCheck(["otherHourlyUsd", ...PRICE_KEYS], ({ spec }) => {
    const { otherHourlyUsd, ...rented } = spec.rented;
    if (otherHourlyUsd === undefined) return [];
    const { lines } = stackCost({ ...spec, rented }, []);
    if (lines.slice(spec.pools.length).some(({ hourlyUsd }) => hourlyUsd === null)) return [];
    return [
      {
        path: "otherHourlyUsd",
        reason: `All but the pools has a price in ${spec.region}, and ${otherHourlyUsd} USD would be ignored.`,
        fix: "Remove it.",
      },
    ];
  }),
} satisfies Record<string, Check>;

/** How much of a line there is depends on engines; whether it has a price does not. */
function unknownLines({ spec }: CheckedStack): readonly string[] {
  return stackCost(spec, []).withoutPrice;
}

/** A cap on what a stack may cost, where the cost is not known. @param hourlyUsdCap - US dollars. */
function unjudgedCap(hourlyUsdCap: number, withoutPrice: readonly string[]) {
  const pools = withoutPrice.filter((name) => name.startsWith("pool ") && name !== `pool ${SYSTEM_POOL}`);
  const keys = [
    ...(pools.length > 0 ? ["hourlyUsd of each pool"] : []),
    ...(pools.length < withoutPrice.length ? ["otherHourlyUsd for all else together"] : []),
  ];
  return {
    reason: `Whether the stack costs less than its cap of ${hourlyUsdCap.toFixed(2)} USD an hour can't be judged: there is no price of ${withoutPrice.join(", ")}.`,
    fix: `Write what an hour costs: ${keys.join(" and ")}.`,
  };
}
