import { describe, expect, test } from "vitest";
import { machineTypes } from "../../infra/plan/catalogue/machines.ts";
import { replacementRow } from "../../scripts/diff/replacements/property-effects.ts";
import { argumentProblems } from "../harness/aws/arguments.ts";
import { operations } from "../harness/aws/operations/index.ts";
import { awsPython } from "../harness/aws/python.ts";
import { ServiceModels, type Shape, wholePattern } from "../harness/aws/service-models.ts";
import { awsProperties } from "../scripts/diff/aws-properties.ts";
import { badResources } from "./bad-resources.ts";
import { goodResources } from "./good-resources.ts";

const models = new ServiceModels(await awsPython());

describe("what AWS takes", () => {
  test.each(goodResources.map((resource) => [resource.type, resource] as const))("%s", (_type, resource) => {
    expect(argumentProblems(resource, models)).toEqual([]);
  });

  test("every row of the table has an example", () => {
    expect(new Set(goodResources.map(({ type }) => type))).toEqual(new Set(Object.keys(operations)));
  });

  test("what is of other providers is theirs to check", () => {
    const resource = { type: "kubernetes:core/v1:Secret", name: "keys", inputs: { nobody: "asks" } };
    expect(argumentProblems(resource, models)).toEqual([]);
  });
});

test("instance types of the catalogue exist", () => {
  const known = models.values("ec2", "InstanceType");
  const named = Object.keys(machineTypes);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
});

describe("what AWS refuses", () => {
  test.each(badResources)("$what", ({ resource, problem }) => {
    const problems = argumentProblems(resource, models);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(problem);
  });
});

describe("the table", () => {
  test.each(Object.entries(operations))("names parameters that there are: %s", (type, row) => {
    const unknown = "[unknown]";
    for (const property of Object.keys(row.properties ?? {})) {
      const [first = "", ...rest] = property.split(".");
      const value = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), unknown);
      const problems = argumentProblems({ type, name: "it", inputs: { [first]: value } }, models);
      expect(problems.filter((problem) => !problem.includes("is required"))).toEqual([]);
    }
  });

  test.each(Object.entries(operations))("names properties that there are: %s", (type, row) => {
    const properties = awsProperties(type);
    const named = Object.keys(row.properties ?? {}).map((path) => path.split(".")[0] ?? "");
    expect(named.filter((name) => !properties.includes(name))).toEqual([]);
  });

  test("has the types of which it is known what a change does", () => {
    expect(Object.keys(operations).filter((type) => replacementRow(type) === undefined)).toEqual([]);
  });

  test("has no shape whose pattern JavaScript can't read", () => {
    for (const { operation } of Object.values(operations)) {
      const [service = "", name = ""] = operation.split(":");
      const model = models.service(service);
      const seen = new Set<string>();
      const visit = (shape: Shape) => {
        const { pattern } = shape;
        if (pattern !== undefined) expect(() => wholePattern(pattern)).not.toThrow();
        const below = [...Object.values(shape.members ?? {}), shape.member, shape.key, shape.value];
        for (const reference of below)
          if (reference !== undefined && !seen.has(reference.shape)) {
            seen.add(reference.shape);
            visit(model.shape(reference.shape));
          }
      };
      visit(model.input(name));
    }
  });
});
