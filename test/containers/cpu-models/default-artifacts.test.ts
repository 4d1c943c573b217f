import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cpuModels, textEncoder, visionWeightSources } from "../../../infra/plan/catalogue/cpu-models.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

test("the image carries what stacks ask for by default, so that no container builds it at its start", () => {
  const file = join(projectRoot, "containers/cpu-models/default-artifacts.json");
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual([
    { artifact: "text-encoder", sources: textEncoder.sources },
    { artifact: "vision-encoder", sources: visionWeightSources("auto") },
    ...Object.values(cpuModels).map(({ source }) => ({ artifact: "file", sources: [source] })),
  ]);
});
