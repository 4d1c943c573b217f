import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LANGUAGE_MODELS } from "../../../infra/plan/catalogue/language-models.ts";
import { RELEASE_TAGS } from "../../../infra/plan/catalogue/releases.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { committedProofs, SUPPORT_MATRIX_FILE, supportMatrix } from "./matrix.ts";

const matrix = supportMatrix(committedProofs());

/** Cells of the first row of a section whose first cell is this. */
function row(section: string, first: string): string[] {
  const [, text = ""] = matrix.split(`## ${section}\n`);
  const line = text.split("\n").find((each) => each.startsWith(`| ${first} |`)) ?? "";
  return line.split("|").map((cell) => cell.trim());
}

test(`${SUPPORT_MATRIX_FILE} is the support matrix of catalogue and records`, () => {
  const path = join(projectRoot, SUPPORT_MATRIX_FILE);
  if (process.env.UPDATE_RECORDED === "1") writeFileSync(path, matrix);
  expect(readFileSync(path, "utf8"), "UPDATE_RECORDED=1 renews it").toBe(matrix);
});

test("every model and every release has a row in the support matrix", () => {
  for (const model of LANGUAGE_MODELS) expect(row("Models and GPUs", model).length).toBeGreaterThan(3);
  for (const tag of RELEASE_TAGS) expect(row("Releases", tag).length).toBeGreaterThan(3);
});

test("a small model fits every GPU, and a large model needs several small GPUs", () => {
  const [, , ...small] = row("Models and GPUs", "gpt2-medium");
  expect(new Set(small.slice(0, -1))).toEqual(new Set(["fits"]));
  const headings = row("Models and GPUs", "Model");
  const large = row("Models and GPUs", "llama-3.2-11b-vision");
  const on = (gpu: string) => large[headings.findIndex((title) => title.startsWith(`${gpu} `))];
  expect(on("A10G")).toMatch(/^no; TP 2$/);
  expect(on("H100")).toBe("fits");
});

test("a model without an engine has the verdict of its own runtime", () => {
  const [, , ...cells] = row("Models and GPUs", "qwen2.5-vl-3b");
  expect(new Set(cells.slice(0, -1))).toEqual(new Set(["fits"]));
});
