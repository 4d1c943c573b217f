/** The question before an operation spends money or deletes paid resources: `up` and `down` of stacks on rented machines. */
import { createInterface } from "node:readline/promises";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { UserError } from "../errors.ts";
import { HOURLY_DIGITS, sumUsd, usd } from "../plan/amounts.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import type { StackValues } from "./preview-text.ts";
import type { StackBackend } from "./state.ts";

/**
 * Shows an operation's changes and cost, and asks. It asks nothing if no machine is rented, with `--yes`, and if CI=true.
 *
 * @param isYes - Whether `--yes` is given.
 * @returns Whether to continue.
 * @throws UserError without a terminal to ask at.
 */
export async function isConfirmed(
  stack: StackReference,
  backend: StackBackend,
  operation: "up" | "down",
  isYes: boolean,
): Promise<boolean> {
  const { isRented } = await operationsOf(stack);
  if (!isRented || isYes || process.env.CI === "true") return true;
  // Refuses credentials of another account, too.
  const record = await backend.record();
  if (operation === "down" && record !== "resources") return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw new UserError(
      `\`${operation}\` of the stack ${stack.name} changes rented machines, and without a terminal it can't be confirmed. Add --yes to continue; CI=true means the same.`,
    );
  const { changes } = await backend.preview({ operation, out: process.stderr });
  process.stderr.write(
    operation === "up" ? upCost(stack, await backend.lastApplied()) : `It ends ${downCost(stack)}.\n${LOST}`,
  );
  if (operation === "up" && changes.length === 0) return true;
  return ask(operation === "up" ? "Go on?" : `Delete the stack ${stack.name}?`);
}

const LOST =
  "Documents of its databases, engines and weights are deleted; a stack that `retain` of the stack file names is refused.\n";

/** @param before - Values of the last `up`; undefined before the first `up`, or when unknown. */
function upCost(stack: StackReference, before: StackValues | undefined): string {
  const { hourlyUsd, pricesAsOf, withoutPrice } = readPlan(stack).cost;
  const was = before === undefined ? null : hourlyOf(before);
  const delta = was === null || hourlyUsd === null ? null : hourlyUsd - was;
  const change =
    delta === null
      ? ""
      : delta === 0
        ? ", as now"
        : `, ${usd(Math.abs(delta), HOURLY_DIGITS)} ${delta > 0 ? "more" : "less"} than now`;
  const source = pricesAsOf === null ? "" : ` (on-demand prices of ${pricesAsOf})`;
  return `It costs ${sumUsd(hourlyUsd, HOURLY_DIGITS, withoutPrice.length > 0)} an hour${change}${source}.\n`;
}

function downCost(stack: StackReference): string {
  try {
    const { hourlyUsd, withoutPrice } = readPlan(stack).cost;
    return `${sumUsd(hourlyUsd, HOURLY_DIGITS, withoutPrice.length > 0)} an hour`;
  } catch {
    // `down` must work without a valid file, too.
    return "its costs, which are unknown";
  }
}

/** null when this program no longer accepts these values. */
function hourlyOf(values: StackValues): number | null {
  try {
    return checkedPlan(values).plan.cost.hourlyUsd;
  } catch {
    return null;
  }
}

async function ask(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}
