import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { PYTHON_MODELS, pythonModelFiles } from "../../../../infra/plan/repository/python-models.ts";
import { projectRoot } from "../../../../scripts/program/stack-file.ts";

/** Modules that a file imports from its own folder, at its head or where they are needed. */
function imported(source: string): string[] {
  const text = readFileSync(join(projectRoot, PYTHON_MODELS, source), "utf8");
  return [...text.matchAll(/^\s*from \.(\w+) import /gm)].map(([, module]) => `1/${module}.py`);
}

describe.each(["ensemble", "text_encoder", "vision_encoder"] as const)("%s", (name) => {
  const files = pythonModelFiles(name);

  it("has its Python where Triton looks for it, under the names that it is imported by", () => {
    expect(files).toHaveProperty(["1/model.py"]);
    const renamed = Object.entries(files).filter(([inner, source]) => basename(inner) !== basename(source));
    expect(renamed.map(([inner]) => inner).filter((inner) => inner !== "1/model.py")).toEqual([]);
  });

  it("has exactly what its modules import", () => {
    const wanted = new Set(Object.values(files).flatMap(imported));
    expect([...wanted, "1/model.py"].toSorted()).toEqual(Object.keys(files).toSorted());
  });
});
