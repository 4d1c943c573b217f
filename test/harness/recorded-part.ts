/** Generated parts of documents, between two comments each, that tests compare with the program. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

/** With UPDATE_RECORDED=1 tests write the parts in place of comparing them; Git then shows the difference. */
const isUpdating = process.env.UPDATE_RECORDED === "1";

/**
 * @param file - Relative to the project. @param name - Name of the part, as in its comments.
 * @param test - Path of the test file that keeps it.
 */
export function expectPart(file: string, name: string, lines: readonly string[], test: string): void {
  const path = join(projectRoot, file);
  const known = readFileSync(path, "utf8");
  const [begin, end] = [`<!-- ${name}: kept by a test -->\n`, `<!-- end of ${name} -->`];
  const [from, to] = [known.indexOf(begin) + begin.length, known.indexOf(end)];
  if (from < begin.length || to < from) throw new Error(`${file} has no part ${name}.`);
  const text = `${known.slice(0, from)}${lines.join("\n")}\n${known.slice(to)}`;
  if (isUpdating) writeFileSync(path, text);
  else expect(known, `${file} changed; UPDATE_RECORDED=1 npx vitest run ${test} writes it again`).toBe(text);
}
