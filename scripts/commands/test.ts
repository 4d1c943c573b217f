import { UsageError } from "../errors.ts";
import {
  DEFAULT_SUITES,
  prepareSuites,
  runSuite,
  STAGES,
  SUITES,
  type SuiteName,
  type SuiteResult,
} from "../testing/suites.ts";
import { type Command, EXIT } from "./command.ts";

const names = Object.keys(SUITES) as SuiteName[];

export const command: Command = {
  summary: "Sets up what tests need and runs them; the last line counts passed, failed and skipped.",
  usage: "[SUITE …] [--yes]",
  details: [
    ...names.map((name) => `${name}  ${SUITES[name].summary}`),
    `Without a name: ${DEFAULT_SUITES.join(", ")}.`,
    "--yes                install missing Debian packages (as root); CI=true means the same",
  ],
  options: { yes: { type: "boolean", short: "y" } },
  maxPositionals: names.length,
  takesNoStack: true,
  async run({ positionals, values }) {
    const unknown = positionals.find((name) => !(names as string[]).includes(name));
    if (unknown !== undefined)
      throw new UsageError(`There is no suite ${unknown}; there are ${names.join(", ")}.`);
    const chosen = positionals.length > 0 ? (positionals as SuiteName[]) : DEFAULT_SUITES;
    const install = values.yes === true || process.env.CI === "true";
    const python = await prepareSuites(chosen, install);
    const results: SuiteResult[] = [];
    for (const stage of STAGES) {
      const now = stage.filter((name) => chosen.includes(name));
      results.push(...(await Promise.all(now.map((name) => runSuite(name, python, now.length === 1)))));
    }
    return summarise(results);
  },
};

function summarise(results: readonly SuiteResult[]): number {
  const width = Math.max(...results.map((result) => result.name.length));
  process.stdout.write("\n");
  for (const { name, passed, failed, skipped, failures, seconds } of results) {
    const counts = `${passed} passed, ${failed} failed, ${skipped} skipped`;
    process.stdout.write(
      `${failed > 0 ? "FAILED" : "ok    "} ${name.padEnd(width)}  ${counts} in ${seconds.toFixed(1)} s\n`,
    );
    for (const failure of failures) process.stdout.write(`         ${failure}\n`);
  }
  const total = (key: "passed" | "failed" | "skipped") =>
    results.reduce((sum, result) => sum + result[key], 0);
  process.stdout.write(
    `\n${total("passed")} passed, ${total("failed")} failed, ${total("skipped")} skipped\n`,
  );
  return total("failed") === 0 ? EXIT.ok : EXIT.failed;
}
