/** Ends stacks one after the other, those first that nothing has happened to for longest, and begins none too late. */
import { type Ending, endIfOver, type SurveyedStack } from "./expire.ts";
import { needsPerson } from "./lifetime.ts";
import { endingAnnouncement, endingReport } from "./report.ts";

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
 * Ends those whose time is over. After SIGINT or SIGTERM no further one is begun.
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
