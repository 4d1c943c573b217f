/** Finds the stacks whose time is over, and ends one of them as `npx engine-room down` does. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import type { StackReference } from "../program/stack-file.ts";
import { endStack, type StackEnd } from "../stack/backend.ts";
import { StackLockedError } from "../stack/lock.ts";
import { hourlyCost } from "./hourly-cost.ts";
import { type Lifetime, lifetimeOf, type StackRecord } from "./lifetime.ts";
import type { PulumiState } from "./pulumi-states.ts";

export interface SurveyedStack {
  readonly state: PulumiState;
  readonly record: Omit<StackRecord, "lastUp">;
  readonly lifetime: Lifetime;
  /** For people, of an hour; null for stacks whose time is not over. */
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
  /** With `isRestKnown` false nobody can say whether something of it still costs money. */
  | ({ readonly kind: "ended" } & StackEnd)
  /** Changed since it was surveyed, or taken by another operation. */
  | { readonly kind: "left"; readonly reason: string; readonly lifetime: Lifetime }
  /** Not begun: there was no time left that is long enough for an end. */
  | { readonly kind: "late"; readonly beginWithinMinutes: number }
  | { readonly kind: "failed"; readonly reason: string };

/**
 * Ends a stack whose time is over. Asks the state once more: an `up` may have begun while others were ended. Never throws.
 *
 * @param now - In milliseconds of Unix time.
 */
export async function endIfOver({ state, record }: SurveyedStack, now: number): Promise<Ending> {
  try {
    const again = (await state.stacks()).find(({ name }) => name === record.name);
    if (again === undefined) return { kind: "ended", isRestKnown: true };
    const lifetime = await readLifetime(state, again, now);
    if (lifetime.kind !== "over") return { kind: "left", reason: "it has changed meanwhile", lifetime };
    return await ended(state, again, now);
  } catch (error) {
    return { kind: "failed", reason: (error as Error).message };
  }
}

async function ended(state: PulumiState, record: SurveyedStack["record"], now: number): Promise<Ending> {
  try {
    const end = await withStackFile(state, record.name, (stack) => endStack(stack, false));
    return { kind: "ended", ...end };
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
