import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseStackText, withLines } from "../../../infra/config/stack-text.ts";
import { ConfigError } from "../../../infra/problems.ts";

const TEXT = `# A comment
config:
  engine-room:platform: docker
  engine-room:host: &host { instanceType: g5.xlarge }
  engine-room:catalogue:
    models:
      vicuna-7b-v1.5:
        title: Vicuna
  engine-room:models:
    - name: a
      model: b
      limits:
        maxBatchSize: 4
    - { name: c, model: d }
  aws:region: us-east-1
`;

const { lineOf } = parseStackText("Pulumi.prod.yaml", TEXT);

test.each([
  ["platform", 3],
  ["engine-room:platform", 3],
  ["host.instanceType", 4],
  ["catalogue.models.vicuna-7b-v1.5.title", 8],
  ["models", 9],
  ["models[0].model", 11],
  ["models[0].limits.maxBatchSize", 13],
  ["models[1].model", 14],
  ["aws:region", 15],
])("the value at %s is on line %i", (path, line) => {
  expect(lineOf(path)).toBe(line);
});

test.each([
  ["models[0].limits.maxBeamWidth", 12],
  ["models[0].triton.streaming", 10],
  ["models[7].name", 9],
  ["gateway.port", 2],
])("the absent key %s is reported on line %i, of what would hold it", (path, line) => {
  expect(lineOf(path)).toBe(line);
});

test("an option of a command has no line", () => {
  expect(lineOf("--stack")).toBeUndefined();
});

test("a line with a mistake is shown without its credential", () => {
  for (const line of ["token: plain: text", "url: http://me:plain@host: 1", "- hf_plainplain: x: y"]) {
    const [problem] = parseStackText("Pulumi.prod.yaml", `config:\n  ${line}\n`).problems;
    expect(problem?.reason).toContain("[secret]");
    expect(JSON.stringify(problem)).not.toContain("plain");
  }
});

describe("lines of an error without a file", () => {
  let folder: string;
  let file: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-lines-"));
    file = join(folder, "Pulumi.prod.yaml");
    writeFileSync(file, TEXT);
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  const problem = { path: "models[0].model", value: '"b"', reason: "It is wrong.", fix: "Correct it." };
  const error = new ConfigError([problem]);
  const models = '[{"model":"b","name":"a","limits":{"maxBatchSize":4}},{"model":"d","name":"c"}]';

  test("values that the file has get its lines", () => {
    const found = withLines(error, file, "Pulumi.prod.yaml", { "engine-room:models": models }) as ConfigError;
    expect(found.problems).toEqual([{ ...problem, line: 11 }]);
    expect(found.message).toContain('1. Pulumi.prod.yaml:11  models[0].model = "b"\n');
  });

  test("values of another file get no lines", () => {
    const other = models.replace('"b"', '"c"');
    expect(withLines(error, file, "Pulumi.prod.yaml", { "engine-room:models": other })).toBe(error);
  });

  test("an error stays as it is without the file, and another error too", () => {
    expect(withLines(error, join(folder, "absent.yaml"), "absent.yaml")).toBe(error);
    const other = new Error("x");
    expect(withLines(other, file, "Pulumi.prod.yaml")).toBe(other);
  });
});
