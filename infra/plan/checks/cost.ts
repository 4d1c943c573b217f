/** What is said of money, against what is known of prices. */
import { stackCost } from "../cost/cost.ts";
import { unjudgedCap } from "../cost/unjudged-cap.ts";
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
