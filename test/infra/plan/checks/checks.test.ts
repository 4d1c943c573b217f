import { describe, expect, test } from "vitest";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { type CheckName, checks, findProblems } from "../../../../infra/plan/checks/find-problems.ts";
import type { Remark } from "../../../../infra/plan/checks/finding.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import { resolveStack } from "../../../../infra/plan/resolve-stack.ts";
import { awsValues, clusterModel, clusterValues, dockerModel, dockerValues } from "./stacks.ts";
import { fixes, moreMistakes, type Values, vectors } from "./vectors.ts";

function remarksOf(name: CheckName, values: Values): readonly Remark[] {
  const config = parseConfig(values) as GpuStackConfig;
  const { spec } = resolveStack(config);
  return checks[name].remarks({ config, spec, fit: memoryFit(spec) });
}

describe("every check", () => {
  test.each(Object.keys(vectors) as CheckName[])(
    "%s refuses one stack file, and accepts the nearest",
    (name) => {
      const { path, fails, passes, says = /./, severity, hasOthers = false } = vectors[name];
      const found = remarksOf(name, fails);
      expect(found.map((remark) => [remark.path, remark.severity])).toContainEqual([path, severity]);
      const remark = found.find((one) => one.path === path);
      expect(remark?.reason).toMatch(says);
      expect(remark?.reason).toMatch(/(\.|https:\S+)$/);
      expect(remark?.fix).toMatch(/[.?]$/);
      const left = remarksOf(name, passes).filter(({ reason }) => !hasOthers || says.test(reason));
      expect(left).toEqual([]);
    },
  );
});

describe("other mistakes", () => {
  test.each(moreMistakes)("%s at %s (%#)", (name, path, values, says) => {
    expect(remarksOf(name, values)).toContainEqual(
      expect.objectContaining({ path, reason: expect.stringMatching(says) }),
    );
  });
});

describe("ways out", () => {
  test.each(fixes)("of %s fit the stack (%#)", (name, values, fix) => {
    expect(remarksOf(name, values).map((remark) => remark.fix)).toEqual([fix]);
  });

  test("name no key that a Docker stack lacks", () => {
    const { problems } = problemsOf(
      dockerModel(
        { model: "llama-2-7b", tensorParallel: 2 },
        { host: { machine: { gpu: "T4", vcpus: 2, memoryGiB: 7 } }, encoders: { replicas: 2 } },
      ),
    );
    expect(problems.map(({ path }) => path)).toContain("host.machine");
    expect(JSON.stringify(problems)).not.toMatch(/pool|pods?\b/i);
  });
});

test("where AWS has no budgets, none is missed", () => {
  const inGovCloud = { ...awsValues, region: "us-gov-west-1", guard: { emails: ["ops@example.org"] } };
  const paths = ({ problems, warnings }: ReturnType<typeof problemsOf>) =>
    [...problems, ...warnings].map(({ path }) => path).filter((path) => path.startsWith("guard."));
  expect(paths(problemsOf(inGovCloud))).toEqual(["guard.emails"]);
  expect(paths(problemsOf({ ...inGovCloud, guard: {} }))).toEqual([]);
});

describe("all checks together", () => {
  test("say each thing once, and show no credential", () => {
    const token = "hf_ClearTokenOfTheUser";
    const two = [
      { name: "a", model: "llama-2-7b" },
      { name: "b", model: "llama-2-7b" },
    ];
    const { problems, warnings } = problemsOf({
      ...dockerValues,
      models: two,
      host: { instanceType: "g5.xlarge", diskGiB: 20 },
      hub: { token, tokenFile: "/run/token" },
    });
    const texts = [...problems, ...warnings].map((problem) => JSON.stringify(problem));
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.join()).not.toContain(token);
    expect(problems).toContainEqual(expect.objectContaining({ path: "hub.tokenFile", value: "[secret]" }));
  });

  test("don't judge by the release that stands in for one that does not exist", () => {
    const values = dockerModel({
      tensorParallel: 3,
      limits: { maxBatchSize: 1 },
      triton: { maxBatchSize: 2 },
    });
    const paths = problemsOf({ ...values, release: "25.13" }).problems.map(({ path }) => path);
    expect(paths).toContain("models[0].tensorParallel");
    expect(paths).toContain("models[0].triton.maxBatchSize");
    expect(problemsOf({ ...dockerValues, release: "25.13" }).warnings.map(({ path }) => path)).toEqual([
      "host.hourlyUsd",
    ]);
  });

  test("say nothing of a machine's memory where its GPU is of no use", () => {
    const pathsOf = (values: Values) => problemsOf(values).problems.map(({ path, reason }) => [path, reason]);
    const [first, ...others] = pathsOf(
      clusterModel({ model: "llava-1.5-7b" }, { instanceType: "g4dn.xlarge" }),
    );
    expect(first).toEqual(["models[0].pool", expect.stringContaining("support matrix does not list T4")]);
    expect(others).toEqual([["models[0].memoryFit", expect.stringContaining("too little")]]);
    expect(pathsOf(clusterModel({ model: "llava-1.5-7b" }, { instanceType: "g5.xlarge" }))).toEqual([
      ["models[0].pool", expect.stringContaining("host memory")],
    ]);
  });

  test.each(["24.04", "24.07", "24.10"])("say once that %s has no recipe for a visual engine", (release) => {
    const { problems } = problemsOf(clusterModel({ model: "vila1.5-3b" }, {}, { release }));
    const ofModel = problems.filter(({ path }) => path.startsWith("models[0]"));
    expect(ofModel.map(({ path, fix }) => [path, fix])).toEqual([
      ["models[0].model", "Take 24.11, the nearest release that can, or another model."],
    ]);
  });

  test("accept the stack files that the vectors start from", () => {
    for (const values of [dockerValues, clusterValues, awsValues]) {
      expect(problemsOf(values).problems).toEqual([]);
    }
  });
});

function problemsOf(values: Values) {
  const config = parseConfig(values) as GpuStackConfig;
  const { spec } = resolveStack(config);
  return findProblems(config, spec, memoryFit(spec));
}
