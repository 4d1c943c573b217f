import { hasFailures, Progress, summaryText } from "../testing/progress.ts";
import {
  DEFAULT_SUITES,
  prepareSuites,
  runSuites,
  SUITE_NAMES,
  SUITES,
  type SuiteName,
  type SuiteResult,
} from "../testing/suites.ts";
import { defineCommand } from "./command.ts";

const summaries = SUITE_NAMES.map((name) => [name, SUITES[name].summary]);

export const command = defineCommand({
  argument: {
    name: "[suite...]",
    text: `the suites to run (default: ${DEFAULT_SUITES.join(", ")})`,
    choices: Object.fromEntries(summaries) as Record<SuiteName, string>,
  },
  options: { "-y, --yes": "install missing Debian packages (as root); CI=true means the same" },
  notes: ["The last line counts passed, failed and skipped tests."],
  takesNoStack: true,
  async run({ positionals, values }) {
    const chosen = positionals.length > 0 ? positionals : DEFAULT_SUITES;
    const python = await prepareSuites(chosen, values.yes === true || process.env.CI === "true");
    const results: SuiteResult[] = [];
    const progress = new Progress(process.stdout);
    await runSuites(chosen, {
      python,
      onEvent: (suite, event) => progress.event(suite, event),
      onEnd: (result) => {
        results.push(result);
        progress.suiteEnded(result);
      },
    }).finally(() => progress.close());
    return { text: summaryText(results), isOk: !hasFailures(results) };
  },
});
