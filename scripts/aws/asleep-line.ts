/** What `sleep` says last: what a stack costs that sleeps. Pure. */
import type { AwsPlan } from "../../infra/plan/gpu-stack.ts";
import { asleepHour, NO_PRICE } from "../plan/amounts.ts";

/** @param stack - Its name. */
export function asleepLine({ cost }: Pick<AwsPlan, "cost">, stack: string): string {
  const hour = asleepHour(cost);
  return hour === NO_PRICE
    ? `Asleep the stack still costs money, and nothing of it has a price: ${cost.withoutPrice.join(", ")}; \`npx engine-room down --stack ${stack}\` ends that.\n`
    : `Asleep the stack costs ${hour} an hour; \`npx engine-room down --stack ${stack}\` ends that.\n`;
}
