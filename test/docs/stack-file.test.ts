/** docs/stack-file.md: its recipes are stack files, and its keys are those of the schemas. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { projectName, projectRoot, readStackFile, stackReference } from "../../scripts/program/stack-file.ts";
import { expectPart } from "../harness/recorded-part.ts";
import { stackFileReference } from "./stack-file/reference.ts";

const DOCS = "docs/stack-file.md";

const folder = mkdtempSync(join(tmpdir(), "engine-room-recipes-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Heading and text of each stack file in the document. */
const recipes = [
  ...readFileSync(join(projectRoot, DOCS), "utf8").matchAll(
    /^### (.+)\n(?:(?!^#).*\n)*?```yaml\n([\s\S]*?)^```$/gm,
  ),
].map(([, title = "", text = ""]) => [title, text] as const);

test("there are recipes", () => expect(recipes).toHaveLength(5));

test.each(recipes)("%s: a stack file that can be planned", (_title, text) => {
  const file = join(folder, "Pulumi.recipe.yaml");
  writeFileSync(file, text);
  const { values } = readStackFile(stackReference("recipe", file));
  expect(() => checkedPlan(fromRuntimeConfig(values, projectName()))).not.toThrow();
});

test("every key of every schema is in it, as the schema has it", () => {
  expectPart(DOCS, "keys", stackFileReference(), "test/docs/stack-file.test.ts");
});
