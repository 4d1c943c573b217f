import { UsageError } from "../errors.ts";
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
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Sets up what tests need and runs them; the last line counts passed, failed and skipped.",
  usage: "[SUITE …] [--yes]",
  details: [
    ...SUITE_NAMES.map((name) => `${name}  ${SUITES[name].summary}`),
    `Without a name: ${DEFAULT_SUITES.join(", ")}.`,
    "--yes                install missing Debian packages (as root); CI=true means the same",
  ],
  options: { yes: { type: "boolean", short: "y" } },
  maxPositionals: SUITE_NAMES.length,
  takesNoStack: true,
  async run({ positionals, values }) {
    const unknown = positionals.find((name) => !(SUITE_NAMES as readonly string[]).includes(name));
    if (unknown !== undefined)
      throw new UsageError(`There is no suite ${unknown}; there are ${SUITE_NAMES.join(", ")}.`);
    const chosen = positionals.length > 0 ? (positionals as SuiteName[]) : DEFAULT_SUITES;
    const install = values.yes === true || process.env.CI === "true";
    const python = await prepareSuites(chosen, install);
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
    process.stdout.write(summaryText(results));
    return hasFailures(results) ? EXIT.failed : EXIT.ok;
  },
};
