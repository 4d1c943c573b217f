import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ZodType, z } from "zod";
import { encoderBuildSpec, engineBuildSpec, serverSpec } from "../../../infra/plan/container-spec-schemas.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

const FOLDER = "containers/container-program/container_program/schemas";

/** With UPDATE_RECORDED=1 the files are written instead; the test then shows the difference in Git. */
const isUpdating = process.env.UPDATE_RECORDED === "1";

const SCHEMAS: readonly (readonly [string, ZodType])[] = [
  ["engine", engineBuildSpec],
  ["encoders", encoderBuildSpec],
  ["server", serverSpec],
];

test.each(SCHEMAS)("the programs have the JSON schema of %s.json", (name, schema) => {
  const path = join(projectRoot, FOLDER, `${name}.json`);
  const text = `${JSON.stringify(z.toJSONSchema(schema, { target: "draft-7" }), null, 2)}\n`;
  if (isUpdating) writeFileSync(path, text);
  expect(
    readFileSync(path, "utf8"),
    `${path} changed; UPDATE_RECORDED=1 npx vitest run test/infra/plan/container-spec-schemas.test.ts writes it anew`,
  ).toBe(text);
});

test("a field that nobody knows is refused, on every level", () => {
  const known = readFileSync(join(projectRoot, "test/recorded/engine-specs/llava-1.5.llava.json"), "utf8");
  const spec = JSON.parse(known);
  expect(engineBuildSpec.safeParse(spec).success).toBe(true);
  for (const level of [spec, spec.plan, spec.plan.places, spec.plan.steps[0], spec.weights.source]) {
    level.more = 1;
    expect(engineBuildSpec.safeParse(spec).success).toBe(false);
    delete level.more;
  }
});

test.each(["/store/../etc", "store", "/a b", "/.", ""])(
  "%o is no path that a program writes to",
  (directory) => {
    const known = readFileSync(join(projectRoot, "test/recorded/engine-specs/llava-1.5.llava.json"), "utf8");
    const spec = JSON.parse(known);
    spec.weights.directory = directory;
    expect(engineBuildSpec.safeParse(spec).success).toBe(false);
  },
);
