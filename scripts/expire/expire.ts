/** Finds expired stacks and destroys them as `npx engine-room down` does, one after the other, and says so. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { count } from "../../infra/plan/checks/words.ts";
import { ConfigError } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { HOURLY_DIGITS, sumUsd } from "../plan/amounts.ts";
import { figure, textTable } from "../plan/text-table.ts";
import type { StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { endStack, type StackEnd } from "../stack/backend.ts";
import { StackLockedError } from "../stack/lock.ts";
import { type Lifetime, lifetimeOf, needsPerson, type StackRecord } from "./lifetime.ts";
import type { PulumiState } from "./pulumi-states.ts";

export interface SurveyedStack {
  readonly state: PulumiState;
  readonly record: Omit<StackRecord, "lastUp">;
  readonly lifetime: Lifetime;
  /** For people, of an hour; null for stacks that are not expired. */
  readonly cost: string | null;
}

/**
 * Every stack of the states, in their order; one whose history or configuration can't be read says so, and stops no other.
 *
 * @param now - In milliseconds of Unix time.
 * @throws UserError where a state can't be listed.
 */
export async function survey(states: readonly PulumiState[], now: number): Promise<SurveyedStack[]> {
  const surveyed: SurveyedStack[] = [];
  for (const state of states)
    for (const record of await state.stacks()) {
      const lifetime = await readLifetime(state, record, now);
      const isOver = lifetime.kind === "over" || lifetime.kind === "updating";
      surveyed.push({ state, record, lifetime, cost: isOver ? await costOf(state, record.name) : null });
    }
  return surveyed;
}

export type Ending =
  /** With `isRestKnown` false it is not known whether something of it still costs money. */
  | ({ readonly kind: "ended" } & Pick<StackEnd, "isRestKnown">)
  /** Changed since it was surveyed, or taken by another operation. */
  | { readonly kind: "left"; readonly reason: string; readonly lifetime: Lifetime }
  /** Not begun: there was no time left that is long enough for an end. */
  | { readonly kind: "late"; readonly beginWithinMinutes: number }
  | { readonly kind: "failed"; readonly reason: string };

/**
 * Destroys an expired stack. Asks the state once more: an `up` may have begun while others were destroyed. Never throws.
 *
 * @param now - In milliseconds of Unix time.
 */
export async function endIfOver({ state, record }: SurveyedStack, now: number): Promise<Ending> {
  try {
    const again = (await state.stacks()).find(({ name }) => name === record.name);
    if (again === undefined) return { kind: "ended", isRestKnown: true };
    const lifetime = await readLifetime(state, again, now);
    if (lifetime.kind !== "over") return { kind: "left", reason: "it changed in the meantime", lifetime };
    return await ended(state, again, now);
  } catch (error) {
    return { kind: "failed", reason: (error as Error).message };
  }
}

async function ended(state: PulumiState, record: SurveyedStack["record"], now: number): Promise<Ending> {
  try {
    const { isRestKnown } = await withStackFile(state, record.name, (stack) => endStack(stack, false));
    return { kind: "ended", isRestKnown };
  } catch (error) {
    if (!(error instanceof StackLockedError)) throw error;
    const lifetime = await readLifetime(state, { ...record, isUpdating: true }, now);
    return { kind: "left", reason: error.message, lifetime };
  }
}

async function readLifetime(
  state: PulumiState,
  record: SurveyedStack["record"],
  now: number,
): Promise<Lifetime> {
  try {
    return lifetimeOf({ ...record, lastUp: await state.lastUp(record.name) }, now);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { kind: "unknown", reason: error.message, isStuck: true };
  }
}

async function costOf(state: PulumiState, name: string): Promise<string> {
  try {
    return await withStackFile(state, name, async (stack) => hourlyCost(stack));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return "not known";
  }
}

/** With the file that the state makes of its own record: that of the branch may be gone. */
async function withStackFile<T>(
  state: PulumiState,
  name: string,
  work: (stack: StackReference) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-expire-"));
  const configFile = join(folder, `Pulumi.${name}.yaml`);
  try {
    await state.writeStackFile(name, configFile);
    return await work({ name, configFile });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface EndingRun {
  /** After so long since `started` no stack is begun: credentials that end while one goes leave its lock behind. @default never */
  readonly beginWithinMinutes?: number | undefined;
  /** In milliseconds of Unix time. */
  readonly started: number;
  /** Gets each line as it is known. */
  readonly say: (text: string) => void;
  /** @default the clock */
  readonly now?: () => number;
  /** @default ends it as `npx engine-room down` does */
  readonly end?: typeof endIfOver;
}

const MILLISECONDS_PER_MINUTE = 60_000;

/**
 * Destroys the expired ones. After SIGINT or SIGTERM no further one is begun.
 *
 * @returns Whether all are gone, or in the hands of an operation that will end.
 */
export async function endAll(
  stacks: readonly SurveyedStack[],
  { beginWithinMinutes, started, say, now = Date.now, end = endIfOver }: EndingRun,
): Promise<boolean> {
  // One that fails each time, and takes all of it, stands behind the others in the next run.
  const over = stacks
    .filter(({ lifetime }) => lifetime.kind === "over")
    .toSorted((one, other) => (one.record.lastOperation ?? 0) - (other.record.lastOperation ?? 0));
  let isInterrupted = false;
  const interrupted = () => {
    isInterrupted = true;
  };
  // The CLI ends what it is doing.
  process.on("SIGINT", interrupted).on("SIGTERM", interrupted);
  const endings: Ending[] = [];
  try {
    for (const stack of over) {
      if (isInterrupted) break;
      const isLate =
        beginWithinMinutes !== undefined && now() - started > beginWithinMinutes * MILLISECONDS_PER_MINUTE;
      if (!isLate) say(`\n${endingAnnouncement(stack)}`);
      const ending: Ending = isLate ? { kind: "late", beginWithinMinutes } : await end(stack, now());
      say(endingReport(stack.record.name, ending));
      endings.push(ending);
    }
  } finally {
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
  }
  return endings.length === over.length && endings.every(isSettled);
}

function isSettled(ending: Ending): boolean {
  if (ending.kind === "ended") return ending.isRestKnown;
  return ending.kind === "left" && !needsPerson(ending.lifetime);
}

/** As `npx engine-room plan` has it, with all its models up: `at least $1.655`. */
export function hourlyCost(stack: StackReference): string {
  try {
    const { cost } = readPlan(stack);
    return sumUsd(cost.hourlyUsd, HOURLY_DIGITS, cost.withoutPrice.length > 0);
  } catch (error) {
    // An older program took its configuration, and this one does not.
    if (error instanceof ConfigError) return "not known";
    throw error;
  }
}

/** A line a stack. Pure. */
export function surveyReport(stacks: readonly SurveyedStack[]): string {
  if (stacks.length === 0) return "The state has no stacks.\n";
  const columns = ["STACK", "TIME", "AN HOUR", "WHY"];
  const rows = stacks.map(({ record, lifetime, cost }) => [
    record.name,
    TIME_WORDS[lifetime.kind],
    cost ?? "",
    lifetimeWords(lifetime),
  ]);
  const over = stacks.filter(({ lifetime }) => lifetime.kind === "over").length;
  const next = `${over === 1 ? "1 stack is" : `${over} stacks are`} expired${over === 0 ? "." : `; \`npx engine-room expire --down\` destroys ${over === 1 ? "it" : "them"}.`}`;
  return `${[...textTable(columns, rows, { indent: 0 }), "", next].join("\n")}\n`;
}

const TIME_WORDS: Readonly<Record<Lifetime["kind"], string>> = {
  unlimited: "no ttl",
  retained: "retained",
  running: "running",
  over: "expired",
  updating: "busy",
  unknown: "unknown",
};

/** Why a stack is expired or not, with its hours. Pure. */
export function lifetimeWords(lifetime: Lifetime): string {
  const isStuck = needsPerson(lifetime);
  switch (lifetime.kind) {
    case "unlimited":
      return "its configuration has no guard.ttlHours";
    case "retained":
      return `its own \`retain\` names it, so its ttl of ${hours(lifetime.ttlHours)} has no effect`;
    case "running":
      return `${hours(lifetime.leftHours)} left of ${hours(lifetime.ttlHours)} after its last \`up\``;
    case "over":
      return `its last \`up\` ended ${hours(lifetime.ageHours)} ago, and its ttl is ${hours(lifetime.ttlHours)}`;
    case "updating":
      return `its last \`up\` ended ${hours(lifetime.ageHours)} ago, and another operation has it${isStuck ? `; ${STUCK_WORDS}` : ""}`;
    case "unknown":
      return `${lifetime.reason.replaceAll(/\s+/g, " ")}${isStuck ? "; a person has to look at it" : ""}`;
  }
}

const STUCK_WORDS =
  "no operation takes that long: see whether one is under way; else `pulumi cancel`, then `npx engine-room down`";

/** One line, before a stack is destroyed. Pure. */
export function endingAnnouncement({ record, lifetime, cost }: SurveyedStack): string {
  return `Destroying ${record.name}: ${lifetimeWords(lifetime)} (cost of an hour: ${cost ?? "not known"}).\n`;
}

/** One line. Pure. */
export function endingReport(name: string, ending: Ending): string {
  switch (ending.kind) {
    case "ended":
      return `${name}: destroyed${ending.isRestKnown ? "" : "; it is not known whether anything of it still costs money"}.\n`;
    case "left":
      return `${name}: not destroyed: ${ending.reason} (${lifetimeWords(ending.lifetime)}).\n`;
    case "late":
      return `${name}: not destroyed, still costs money: the limit of ${count(ending.beginWithinMinutes, "minute")} has passed, and credentials could expire in its middle. The next run destroys it.\n`;
    case "failed":
      return `${name}: not destroyed, still costs money: ${ending.reason}\n`;
  }
}

/** `8 h`, `11.3 h`. */
function hours(count: number): string {
  return `${figure(count, Number.isInteger(count) ? 0 : 1)} h`;
}
