import { expect, test } from "vitest";
import { checkedPlan } from "../../../../infra/checked-plan.ts";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { canonicalJson } from "../../../../infra/plan/canonical-json.ts";
import { type CheckName, checks, findProblems } from "../../../../infra/plan/checks/find-problems.ts";
import type { Finding, Key, Remark } from "../../../../infra/plan/checks/finding.ts";
import { restsOnAny } from "../../../../infra/plan/checks/rests-on.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import { resolveStack } from "../../../../infra/plan/resolve-stack.ts";
import { problemsThrownBy } from "../../problems-thrown.ts";
import { awsValues, clusterModel, clusterValues, dockerModel, dockerValues } from "./stacks.ts";
import { fixes, moreMistakes, type Values, vectors } from "./vectors.ts";

function remarksOf(name: CheckName, values: Values): readonly Remark[] {
  const config = parseConfig(values) as GpuStackConfig;
  const { spec } = resolveStack(config);
  return checks[name].remarks({ config, spec, fit: memoryFit(spec) });
}

test.each(Object.keys(vectors) as CheckName[])(
  "the check %s refuses one stack file and accepts the nearest",
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

/** No key of the schema takes it. */
const NONSENSE = -1.5;

/** Copies of the accepted stack file with nonsense at each place where the refused one differs. */
function withNonsense(passes: unknown, fails: unknown): readonly unknown[] {
  if (typeof passes !== "object" || passes === null) return passes === undefined ? [] : [NONSENSE];
  const other = (typeof fails === "object" && fails !== null ? fails : {}) as Values;
  return Object.entries(passes).flatMap(([key, value]) =>
    canonicalJson(value ?? null) === canonicalJson(other[key] ?? null)
      ? []
      : withNonsense(value, other[key]).map((inner) =>
          Array.isArray(passes) ? passes.with(Number(key), inner) : { ...passes, [key]: inner },
        ),
  );
}

test("a wrong kind of value at a key that decides a check is the only problem", () => {
  const wrong = Object.entries(vectors).flatMap(([name, { passes, fails }]) => {
    if (problemsThrownBy(() => checkedPlan(passes)).length > 0) return [];
    return withNonsense(passes, fails).flatMap((values) => {
      const problems = problemsThrownBy(() => checkedPlan(values as Values));
      const others = problems.filter(({ value }) => !/^(-1\.5|\[secret\])$/.test(value));
      return others.map(({ path, reason }) => `${name}: ${path}: ${reason}`);
    });
  });
  expect(wrong).toEqual([]);
});

test.each(moreMistakes)("the check %s reports a mistake at %s (%#)", (name, path, values, says) => {
  expect(remarksOf(name, values)).toContainEqual(
    expect.objectContaining({ path, reason: expect.stringMatching(says) }),
  );
});

test.each(fixes)("the check %s offers a fix that suits the stack (%#)", (name, values, fix) => {
  expect(remarksOf(name, values).map((remark) => remark.fix)).toEqual([fix]);
});

test("fixes for a Docker stack name no pools or pods", () => {
  const { problems } = problemsOf(
    dockerModel(
      { model: "llama-2-7b", tensorParallel: 2 },
      { host: { machine: { gpu: "T4", vcpus: 2, memoryGiB: 7 } }, encoders: { replicas: 2 } },
    ),
  );
  expect(problems.map(({ path }) => path)).toContain("host.machine");
  expect(JSON.stringify(problems)).not.toMatch(/pool|pods?\b/i);
});

test("a stack in GovCloud, which has no budgets, needs no budget", () => {
  const inGovCloud = { ...awsValues, region: "us-gov-west-1", guard: { emails: ["ops@example.org"] } };
  const paths = ({ problems, warnings }: ReturnType<typeof problemsOf>) =>
    [...problems, ...warnings].map(({ path }) => path).filter((path) => path.startsWith("guard."));
  expect(paths(problemsOf(inGovCloud))).toEqual(["guard.emails"]);
  expect(paths(problemsOf({ ...inGovCloud, guard: {} }))).toEqual([]);
});

test("problems of a stack are reported once each, and show no credential", () => {
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

test("an unknown release is not judged by the release that stands in for it", () => {
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

test("a machine with an unsupported GPU has no problem of its host memory", () => {
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

test.each(["24.04", "24.07", "24.10"])(
  "a visual model on %s, which has no recipe for it, is reported once",
  (release) => {
    const { problems } = problemsOf(clusterModel({ model: "vila1.5-3b" }, {}, { release }));
    const ofModel = problems.filter(({ path }) => path.startsWith("models[0]"));
    expect(ofModel.map(({ path, fix }) => [path, fix])).toEqual([
      ["models[0].model", "Take 24.11, the nearest release that can, or another model."],
    ]);
  },
);

test("the stack files that the vectors start from have no problems", () => {
  for (const values of [dockerValues, clusterValues, awsValues]) {
    expect(problemsOf(values).problems).toEqual([]);
  }
});

function problemsOf(values: Values) {
  const config = parseConfig(values) as GpuStackConfig;
  const { spec } = resolveStack(config);
  return findProblems(config, spec, memoryFit(spec));
}

function found(path: string, keys: readonly Key[], scope: Finding["scope"] = "model"): Finding {
  return {
    severity: "problem",
    scope,
    keys,
    problem: { path, value: "1", reason: "It is.", fix: "Change it." },
  };
}

test.each<[string, Finding, string, boolean]>([
  ["rests on its own key", found("models[0].tensorParallel", []), "models[0].tensorParallel", true],
  [
    "rests on a part of its own key",
    found("models[0].limits.maxInputTokens", []),
    "models[0].limits.maxOutputTokens",
    true,
  ],
  [
    "rests on another key of its model",
    found("models[0].tensorParallel", ["models.model"]),
    "models[0].model",
    true,
  ],
  [
    "does not rest on a key that it doesn't name",
    found("models[0].tensorParallel", ["models.model"]),
    "models[0].limits",
    false,
  ],
  [
    "does not rest on the same key of another model",
    found("models[0].tensorParallel", ["models.model"]),
    "models[1].model",
    false,
  ],
  [
    "rests on the same key, where it is about all models",
    found("models[0].memoryFit", ["models.model"], "stack"),
    "models[1].model",
    true,
  ],
  ["rests on its whole model", found("models[0].tensorParallel", ["models.model"]), "models[0]", true],
  [
    "rests on another model, where it is about all",
    found("pools[0].nodes.max", ["models.replicas"], "stack"),
    "models[1]",
    true,
  ],
  ["rests on all models", found("models[0].tensorParallel", []), "models", true],
  ["rests on a key of any pool", found("models[0].pool", ["pools.machine"]), "pools[2].machine.gpus", true],
  [
    "does not rest on another key of pools",
    found("models[0].pool", ["pools.machine"]),
    "pools[2].diskGiB",
    false,
  ],
  [
    "rests on the host, which is the pool of Docker",
    found("models[0].pool", ["pools.machine"]),
    "host.machine",
    true,
  ],
  ["rests on a key of the stack", found("models[0].model", ["release"]), "release", true],
  ["rests on a part of a section", found("gateway.tls", ["gateway"], "stack"), "gateway.hostname", true],
  ["does not rest on another section", found("gateway.tls", ["gateway"], "stack"), "hub.token", false],
])("a finding %s", (_title, finding, dropped, rests) => {
  expect(restsOnAny(finding, [dropped])).toBe(rests);
  expect(restsOnAny(finding, ["namespace", dropped])).toBe(rests);
});
