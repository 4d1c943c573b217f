/** Vitest's results as they come, for `npm test`: the lines of events.ts, into the file that ENGINE_ROOM_TEST_EVENTS names. */
import { appendFileSync } from "node:fs";
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { Reporter, TestCase, TestModule } from "vitest/node";
import { firstLine, type TestEvent, type TestResult } from "./events.ts";

const { ENGINE_ROOM_TEST_EVENTS: path = "" } = process.env;

const write = (event: TestEvent) => appendFileSync(path, `${JSON.stringify(event)}\n`);

export default class EventReporter implements Reporter {
  #root = "";

  onInit({ config }: Parameters<NonNullable<Reporter["onInit"]>>[0]): void {
    this.#root = config.root;
  }

  onTestRunStart(specifications: readonly unknown[]): void {
    write({ files: specifications.length });
  }

  onTestModuleEnd(module: TestModule): void {
    const { setupDuration, collectDuration, duration } = module.diagnostic();
    const tests = [...module.children.allTests()].map(resultOf);
    // When a hook fails, Vitest skips the tests after it.
    const hooks = [...module.children.allSuites()].flatMap((suite) =>
      suite.errors().map((error) => ({ ...failureOf(error), title: suite.fullName })),
    );
    write({
      file: relative(this.#root, module.moduleId),
      seconds: (setupDuration + collectDuration + duration) / 1000,
      tests: [...module.errors().map(failureOf), ...hooks, ...tests],
    });
  }

  onTestRunEnd(_modules: readonly TestModule[], errors: readonly { readonly message: string }[]): void {
    if (errors.length > 0) write({ file: "outside of tests", seconds: 0, tests: errors.map(failureOf) });
  }
}

function resultOf(test: TestCase): TestResult {
  const result = test.result();
  const title = test.fullName;
  if (result.state === "failed") return { ...failureOf(result.errors[0] ?? { message: "" }), title };
  const note = result.state === "skipped" ? result.note : undefined;
  return result.state === "passed"
    ? { title, state: "passed", reason: "" }
    : { title, state: "skipped", reason: note ?? test.meta().skipped ?? "" };
}

function failureOf({ message }: { readonly message: string }): TestResult {
  return { title: "", state: "failed", reason: firstLine(stripVTControlCharacters(message)) };
}
