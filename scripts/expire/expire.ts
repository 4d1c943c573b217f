/** Finds expired stacks and destroys them as `npx engine-room down` does, one after the other. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { ConfigError, counted } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { HOURLY_DIGITS, sumUsd } from "../plan/amounts.ts";
import { figure, textTable } from "../plan/text-table.ts";
import type { StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { endStack } from "../stack/backend.ts";
import { StackLockedError } from "../stack/lock.ts";
import type { PulumiState, StackRecord } from "./pulumi-states.ts";

/** Whether a stack is expired: `guard.ttlHours` of its last `up`, from the end of that `up`. */
export interface Lifetime {
  /** `over`: expired. `updating`: expired, and another operation runs on it. `retained`: its own `retain` names it. */
  readonly time: "over" | "running" | "retained" | "unlimited" | "updating" | "unknown";
  /** With the hours that decide. */
  readonly why: string;
  /** Whether it may be expired, and waiting does not help. */
  readonly needsPerson: boolean;
}

const TIME_WORDS: Readonly<Record<Lifetime["time"], string>> = {
  unlimited: "no ttl",
  retained: "retained",
  running: "running",
  over: "expired",
  updating: "busy",
  unknown: "unknown",
};

/** Longer than any operation: a later lock, or an `up` without an end, comes from a killed command. */
export const LONGEST_OPERATION_HOURS = 6;
const MILLISECONDS_PER_HOUR = 3_600_000;
const MILLISECONDS_PER_MINUTE = 60_000;

/** Values that decide; a value that the state keeps as a secret is a text here, and matches none of these. */
const decidingSchema = z.object({
  guard: z.looseObject({ ttlHours: z.number().positive().optional() }).default({}),
  retain: z.array(z.string()).default([]),
});

/**
 * Pure. Age counts from the last `up`, not from the last operation: a failed `down` would give a stack its whole time again.
 *
 * @param now - In milliseconds of Unix time.
 */
export function lifetimeOf({ name, isUpdating, lastOperation, lastUp }: StackRecord, now: number): Lifetime {
  const hoursSince = (time: number) => (now - time) / MILLISECONDS_PER_HOUR;
  if (lastUp === null) {
    const isStuck = lastOperation !== null && hoursSince(lastOperation) > LONGEST_OPERATION_HOURS;
    return unknown("the state has no `up` of it that ended", isStuck);
  }
  const deciding = decidingSchema.safeParse(lastUp.values);
  if (!deciding.success) {
    const paths = deciding.error.issues.map(({ path }) => path.join("."));
    return unknown(`its configuration in the state can't be read: ${paths.join(", ")}`, true);
  }
  const { guard, retain } = deciding.data;
  const { ttlHours } = guard;
  const known = (time: Lifetime["time"], why: string) => ({ time, why, needsPerson: false });
  if (ttlHours === undefined) return known("unlimited", "its configuration has no guard.ttlHours");
  const ttl = hours(ttlHours);
  if (retain.includes(name))
    return known("retained", `its own \`retain\` names it, so its ttl of ${ttl} has no effect`);
  const age = hoursSince(lastUp.endTime);
  if (age <= ttlHours)
    return known("running", `${hours(ttlHours - age)} left of ${ttl} after its last \`up\``);
  const ended = `its last \`up\` ended ${hours(age)} ago`;
  if (!isUpdating) return known("over", `${ended}, and its ttl is ${ttl}`);
  const isStuck = age - ttlHours > LONGEST_OPERATION_HOURS;
  const advice =
    "; no operation takes that long: see whether one is under way; else `pulumi cancel`, then `npx engine-room down`";
  const why = `${ended}, and another operation has it${isStuck ? advice : ""}`;
  return { time: "updating", why, needsPerson: isStuck };
}

function unknown(reason: string, needsPerson: boolean): Lifetime {
  const why = `${reason.replaceAll(/\s+/g, " ")}${needsPerson ? "; check it by hand" : ""}`;
  return { time: "unknown", why, needsPerson };
}

/** `8 h`, `11.3 h`. */
function hours(number: number): string {
  return `${figure(number, Number.isInteger(number) ? 0 : 1)} h`;
}

export interface SurveyedStack {
  readonly state: PulumiState;
  readonly record: Omit<StackRecord, "lastUp">;
  readonly lifetime: Lifetime;
  /** For people, of an hour; null for stacks that are not expired. */
  readonly cost: string | null;
}

/**
 * Every stack of the states, in their order; a stack whose history or configuration can't be read does not stop the
 * others.
 *
 * @param now - In milliseconds of Unix time.
 * @throws UserError if a state can't be listed.
 */
export async function survey(states: readonly PulumiState[], now: number): Promise<SurveyedStack[]> {
  const surveyed: SurveyedStack[] = [];
  for (const state of states)
    for (const record of await state.stacks()) {
      const lifetime = await readLifetime(state, record, now);
      const isOver = lifetime.time === "over" || lifetime.time === "updating";
      surveyed.push({ state, record, lifetime, cost: isOver ? await costOf(state, record.name) : null });
    }
  return surveyed;
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
    return unknown(error.message, true);
  }
}

/** As in `npx engine-room plan`, with all its models up: `at least $1.655`. */
async function costOf(state: PulumiState, name: string): Promise<string> {
  try {
    const { cost } = await withStackFile(state, name, async (stack) => readPlan(stack));
    return sumUsd(cost.hourlyUsd, HOURLY_DIGITS, cost.withoutPrice.length > 0);
  } catch (error) {
    // An older program may have accepted a configuration that this one refuses.
    if (error instanceof ConfigError || error instanceof UserError) return "not known";
    throw error;
  }
}

/** With a file made from the state's own record: that of the branch may be deleted. */
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

/** The end of a stack. */
export interface Ending {
  /** Whether it is gone with all billed resources, or another operation will end. */
  readonly isSettled: boolean;
  /** For people: `destroyed`. */
  readonly words: string;
}

/**
 * Destroys an expired stack. Reads the state once more: an `up` may have begun while others were destroyed. Never
 * throws.
 *
 * @param now - In milliseconds of Unix time.
 * @param out - Stream for the list of resources that still cost money.
 */
export async function endIfOver(
  { state, record }: SurveyedStack,
  now: number,
  out: NodeJS.WriteStream,
): Promise<Ending> {
  const left = ({ needsPerson, why }: Lifetime, reason: string): Ending => ({
    isSettled: !needsPerson,
    words: `not destroyed: ${reason} (${why})`,
  });
  try {
    const again = (await state.stacks()).find(({ name }) => name === record.name);
    if (again === undefined) return { isSettled: true, words: "destroyed" };
    const lifetime = await readLifetime(state, again, now);
    if (lifetime.time !== "over") return left(lifetime, "it changed meanwhile");
    try {
      const { isRestKnown } = await withStackFile(state, again.name, (stack) => endStack(stack, false, out));
      const rest = isRestKnown ? "" : "; it is unknown whether parts of it still cost money";
      return { isSettled: isRestKnown, words: `destroyed${rest}` };
    } catch (error) {
      if (!(error instanceof StackLockedError)) throw error;
      return left(await readLifetime(state, { ...again, isUpdating: true }, now), error.message);
    }
  } catch (error) {
    return { isSettled: false, words: `not destroyed, still costs money: ${(error as Error).message}` };
  }
}

interface EndingRun {
  /**
   * Begins no stack after this time since `started`: credentials that expire during a run leave its lock behind.
   * @default never
   */
  readonly beginWithinMinutes?: number | undefined;
  /** In milliseconds of Unix time. */
  readonly started: number;
  /** Receives each line once it is known. */
  readonly say: (text: string) => void;
  /** @default the clock */
  readonly now?: () => number;
  readonly end: (stack: SurveyedStack, now: number) => Promise<Ending>;
}

/**
 * Destroys the expired stacks. Begins no further stack after SIGINT or SIGTERM.
 *
 * @returns Whether all are destroyed, or in an operation that will end.
 */
export async function endAll(
  stacks: readonly SurveyedStack[],
  { beginWithinMinutes, started, say, now = Date.now, end }: EndingRun,
): Promise<boolean> {
  // A stack that fails each time, and uses all of it, comes after the others in the next run.
  const over = stacks
    .filter(({ lifetime }) => lifetime.time === "over")
    .toSorted((a, b) => (a.record.lastOperation ?? 0) - (b.record.lastOperation ?? 0));
  let isInterrupted = false;
  const interrupted = () => {
    isInterrupted = true;
  };
  // The CLI ends what it is doing.
  process.on("SIGINT", interrupted).on("SIGTERM", interrupted);
  let settled = 0;
  try {
    for (const stack of over) {
      if (isInterrupted) break;
      const { record, lifetime, cost } = stack;
      const minutes = (now() - started) / MILLISECONDS_PER_MINUTE;
      const isLate = beginWithinMinutes !== undefined && minutes > beginWithinMinutes;
      if (!isLate)
        say(`\nDestroying ${record.name}: ${lifetime.why} (cost of an hour: ${cost ?? "not known"}).\n`);
      const { isSettled, words } = isLate ? lateEnding(beginWithinMinutes) : await end(stack, now());
      say(`${record.name}: ${words}.\n`);
      if (isSettled) settled += 1;
    }
  } finally {
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
  }
  return settled === over.length;
}

function lateEnding(limitMinutes: number): Ending {
  const limit = counted(limitMinutes, "minute");
  return {
    isSettled: false,
    words: `not destroyed, still costs money: the limit of ${limit} has passed, and credentials could expire in its middle; the next run destroys it`,
  };
}

/** A line a stack. Pure. */
export function surveyReport(stacks: readonly SurveyedStack[]): string {
  if (stacks.length === 0) return "The state has no stacks.\n";
  const columns = ["STACK", "TIME", "AN HOUR", "WHY"];
  const rows = stacks.map(({ record, lifetime, cost }) => [
    record.name,
    TIME_WORDS[lifetime.time],
    cost ?? "",
    lifetime.why,
  ]);
  const over = stacks.filter(({ lifetime }) => lifetime.time === "over").length;
  const next = `${counted(over, "stack is", "stacks are")} expired${over === 0 ? "." : `; \`npx engine-room expire --down\` destroys ${over === 1 ? "it" : "them"}.`}`;
  return `${[...textTable(columns, rows, { indent: 0 }), "", next].join("\n")}\n`;
}
