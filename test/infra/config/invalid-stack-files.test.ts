/** Stack files with common mistakes, and the printed problems of each: test/recorded/invalid-stack-files/. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { ConfigError } from "../../../infra/problems.ts";
import {
  projectRoot,
  readStackFile,
  stackReference,
  withStackLines,
} from "../../../scripts/program/stack-file.ts";

const FOLDER = "test/recorded/invalid-stack-files";
const names = readdirSync(join(projectRoot, FOLDER)).flatMap((file) => /^(.*)\.yaml$/.exec(file)?.[1] ?? []);

/** The error as a command prints it. */
function errorOf(name: string): ConfigError {
  const stack = stackReference("test", join(projectRoot, FOLDER, `${name}.yaml`));
  try {
    checkedPlan(fromRuntimeConfig(readStackFile(stack).values));
  } catch (error) {
    const located = withStackLines(error, stack);
    if (located instanceof ConfigError) return located;
    throw error;
  }
  throw new Error(`${name}.yaml has no problem.`);
}

test("31 broken stack files are recorded", () => {
  expect(names).toHaveLength(31);
});

describe.each(names)("the broken stack file %s", (name) => {
  test("a broken stack file is refused with the text that is recorded", () => {
    const path = join(projectRoot, FOLDER, `${name}.txt`);
    const { message } = errorOf(name);
    // With UPDATE_RECORDED=1 the test writes the file in place of comparing it; Git then shows the difference.
    if (process.env.UPDATE_RECORDED === "1") writeFileSync(path, `${message}\n`);
    expect(`${message}\n`).toBe(readFileSync(path, "utf8"));
  });

  test("a broken stack file is refused with path, line, value, reason and fix", () => {
    const { problems, message } = errorOf(name);
    const lines = readFileSync(join(projectRoot, FOLDER, `${name}.yaml`), "utf8").split("\n");
    expect(problems).not.toEqual([]);
    for (const { path, line, value, reason, fix } of problems) {
      expect([path, value]).not.toContain("");
      expect(reason.split("\n")[0]).toMatch(/^\S.*\.$/);
      expect(fix).toMatch(/^[A-Z].*[.?]$/);
      // The line is that of the path's last key, or of what would hold it.
      const [last = ""] = path.match(/[^.[\]:]+$/) ?? [];
      const text = lines[(line ?? 0) - 1] ?? expect.fail(`${path} has no line`);
      if (value !== "(absent)" && basename(path) !== `${name}.yaml`)
        expect(text).toContain(last.replace(/^\d+$/, ""));
      expect(message).toContain(`${name}.yaml:${line}`);
    }
  });
});
