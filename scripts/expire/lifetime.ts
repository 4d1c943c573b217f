/** Whether a stack is expired: `guard.ttlHours` of its last `up`, from the end of that `up`; and what `npx engine-room expire` says of it. */
import { z } from "zod";

/** What a state knows of a stack. */
export interface StackRecord {
  readonly name: string;
  /** Whether an operation is under way, as far as the state says so before one asks for the stack. */
  readonly isUpdating: boolean;
  /** End of the last operation of any kind, in milliseconds of Unix time; null where the state does not say. */
  readonly lastOperation: number | null;
  /** The last `up`, whether it succeeded or not; null where the state has none that ended. */
  readonly lastUp: {
    /** Its end, in milliseconds of Unix time. */
    readonly endTime: number;
    /** Its configuration: keys without the project's prefix, objects and arrays as such. */
    readonly values: Readonly<Record<string, unknown>>;
  } | null;
}

export type Lifetime =
  /** It has no ttl: it never expires. */
  | { readonly kind: "unlimited" }
  /** Its own `retain` names it. */
  | { readonly kind: "retained"; readonly ttlHours: number }
  | { readonly kind: "running"; readonly ttlHours: number; readonly leftHours: number }
  | { readonly kind: "over"; readonly ttlHours: number; readonly ageHours: number }
  /** Expired, and another operation runs on it. */
  | {
      readonly kind: "updating";
      readonly ttlHours: number;
      readonly ageHours: number;
      readonly isStuck: boolean;
    }
  /** Not known. `isStuck`: waiting does not change that. */
  | { readonly kind: "unknown"; readonly reason: string; readonly isStuck: boolean };

const MILLISECONDS_PER_HOUR = 3_600_000;

/** Longer than any operation: what is still locked, or without the end of an `up`, was left so by a command that was killed. */
export const LONGEST_OPERATION_HOURS = 6;

/** Values that decide; a value that the state keeps as a secret is a text here, and none of these. */
const decidingSchema = z.object({
  guard: z.looseObject({ ttlHours: z.number().positive().optional() }).default({}),
  retain: z.array(z.string()).default([]),
});

/**
 * Pure. Age counts from the last `up`, not from the last operation: a `down` that failed would give a stack its whole time
 * again.
 *
 * @param now - In milliseconds of Unix time.
 */
export function lifetimeOf({ name, isUpdating, lastOperation, lastUp }: StackRecord, now: number): Lifetime {
  const hoursSince = (time: number) => (now - time) / MILLISECONDS_PER_HOUR;
  if (lastUp === null) {
    const quietHours = lastOperation === null ? 0 : hoursSince(lastOperation);
    return {
      kind: "unknown",
      reason: "the state has no `up` of it that ended",
      isStuck: quietHours > LONGEST_OPERATION_HOURS,
    };
  }
  const deciding = decidingSchema.safeParse(lastUp.values);
  if (!deciding.success) {
    const paths = deciding.error.issues.map(({ path }) => path.join("."));
    return {
      kind: "unknown",
      reason: `its configuration in the state can't be read: ${paths.join(", ")}`,
      isStuck: true,
    };
  }
  const { guard, retain } = deciding.data;
  const { ttlHours } = guard;
  if (ttlHours === undefined) return { kind: "unlimited" };
  if (retain.includes(name)) return { kind: "retained", ttlHours };
  const ageHours = hoursSince(lastUp.endTime);
  if (ageHours <= ttlHours) return { kind: "running", ttlHours, leftHours: ttlHours - ageHours };
  if (!isUpdating) return { kind: "over", ttlHours, ageHours };
  return {
    kind: "updating",
    ttlHours,
    ageHours,
    isStuck: ageHours - ttlHours > LONGEST_OPERATION_HOURS,
  };
}

/** Whether a person has to look: it may be expired, and waiting changes nothing. */
export function needsPerson(lifetime: Lifetime): boolean {
  return (lifetime.kind === "updating" || lifetime.kind === "unknown") && lifetime.isStuck;
}
