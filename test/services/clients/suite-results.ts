/** Outcome of a suite's tests, from the log of pytest-reportlog, compared with the expected outcome. */

/** Outcome of a suite's tests, recorded or expected. */
export interface Outcome {
  readonly passed: readonly string[];
  /** By the server's error. */
  readonly refused: Readonly<Record<string, readonly string[]>>;
  /** Number of tests that the suite itself skips, by its reason. */
  readonly skipped: Readonly<Record<string, number>>;
}

/** A line of pytest-reportlog 1.0: https://github.com/pytest-dev/pytest-reportlog */
interface Line {
  readonly $report_type: string;
  readonly nodeid?: string;
  readonly when?: string;
  readonly outcome?: "passed" | "failed" | "skipped";
  readonly longrepr?: unknown;
}

interface Result {
  outcome: "passed" | "failed" | "skipped" | undefined;
  text: string;
}

/**
 * @param log - Log of one run.
 * @param refusal - Returns the server's code and sentence in a failure; undefined when the failure is not the server's.
 * @returns The outcome, and a sentence for each test that neither passed nor was refused: a wrong answer, a hang, a crash.
 */
export function judge(
  log: string,
  refusal: (failure: string) => string | undefined,
): { readonly outcome: Outcome; readonly wrong: readonly string[] } {
  const results = new Map<string, Result>();
  let isFinished = false;
  for (const text of log.split("\n").filter((line) => line.endsWith("}"))) {
    const line = JSON.parse(text) as Line;
    isFinished ||= line.$report_type === "SessionFinish";
    const { nodeid, outcome } = line;
    if (nodeid === undefined || (line.$report_type === "CollectReport" && outcome !== "failed")) continue;
    const result = results.get(nodeid) ?? { outcome: undefined, text: "" };
    results.set(nodeid, result);
    if (outcome === "failed" && result.outcome !== "failed") {
      result.outcome = outcome;
      result.text = failureText(line.longrepr);
    } else if (outcome === "skipped" && result.outcome !== "failed") {
      result.outcome = outcome;
      result.text = Array.isArray(line.longrepr) ? skipReason(String(line.longrepr[2])) : "expected to fail";
    } else if (line.when === "call") result.outcome ??= "passed";
  }
  const passed: string[] = [];
  const refused = new Map<string, string[]>();
  const skipped = new Map<string, number>();
  const wrong: string[] = [];
  for (const [test, { outcome, text }] of results) {
    if (outcome === undefined) wrong.push(`${test} ended pytest itself`);
    else if (outcome === "passed") passed.push(test);
    else if (outcome === "skipped") skipped.set(text, (skipped.get(text) ?? 0) + 1);
    else {
      const words = refusal(text);
      if (words === undefined) wrong.push(`${test} failed without a refusal: ${text.slice(0, 500)}`);
      else refused.set(words, [...(refused.get(words) ?? []), test]);
    }
  }
  if (!isFinished) wrong.push("pytest did not come to its end");
  return {
    outcome: { passed: passed.toSorted(), refused: sorted(refused), skipped: sorted(skipped) },
    wrong,
  };
}

/** A sentence for each test that differs from its expected outcome. */
export function differences(known: Outcome, { outcome, wrong }: ReturnType<typeof judge>): readonly string[] {
  const before = byTest(known);
  const now = byTest(outcome);
  const found: string[] = [...wrong];
  const isWrong = (test: string) => wrong.some((sentence) => sentence.startsWith(`${test} `));
  for (const test of new Set([...before.keys(), ...now.keys()])) {
    const [was, is] = [before.get(test) ?? "not run", now.get(test) ?? "not run"];
    if (was !== is && !isWrong(test)) found.push(`${test} was ${was}, and is ${is}`);
  }
  for (const reason of new Set([...Object.keys(known.skipped), ...Object.keys(outcome.skipped)])) {
    const [was, is] = [known.skipped[reason] ?? 0, outcome.skipped[reason] ?? 0];
    if (was !== is) found.push(`The suite skipped ${was} tests, and skips ${is}, with "${reason}"`);
  }
  return found;
}

export function count({ passed, refused, skipped }: Outcome): string {
  const refusedTests = Object.values(refused).flat().length;
  const skippedTests = Object.values(skipped).reduce((sum, one) => sum + one, 0);
  return `${passed.length} passed, ${refusedTests} refused, ${skippedTests} skipped by the suite itself`;
}

function byTest({ passed, refused }: Outcome): ReadonlyMap<string, string> {
  return new Map([
    ...passed.map((test) => [test, "passed"] as const),
    ...Object.entries(refused).flatMap(([words, tests]) =>
      tests.map((test) => [test, `refused with "${words}"`] as const),
    ),
  ]);
}

function sorted<T>(map: ReadonlyMap<string, T>): Readonly<Record<string, T>> {
  return Object.fromEntries([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Messages of a test's errors, in order. */
function failureText(longrepr: unknown): string {
  if (typeof longrepr === "string") return longrepr;
  const { chain, reprcrash } = longrepr as {
    readonly chain?: readonly (readonly [unknown, { readonly message: string } | null, unknown])[];
    readonly reprcrash?: { readonly message: string } | null;
  };
  const messages = chain?.flatMap(([, crash]) => crash?.message ?? []) ?? [];
  return messages.length > 0 ? messages.join("\n") : (reprcrash?.message ?? JSON.stringify(longrepr));
}

/** Reason of a skip, without the name of the class before some of pymongo's reasons. */
function skipReason(text: string): string {
  return text.replace(/^Skipped: /, "").replace(/^Test\w+ (?=runOnRequirements )/, "");
}
