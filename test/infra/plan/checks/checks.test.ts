import { expect, test } from "vitest";
import { type GpuStackConfig, parseConfig } from "../../../../infra/config/config.ts";
import { type CheckedStack, type Finding, flatFindings } from "../../../../infra/plan/checks/check.ts";
import { commonChecks, findProblems } from "../../../../infra/plan/checks/find-problems.ts";
import { fixedIn } from "../../../../infra/plan/checks/release.ts";
import { memoryFit } from "../../../../infra/plan/fit/memory-fit.ts";
import { platformOf } from "../../../../infra/plan/plan-stack.ts";
import { resolveStack } from "../../../../infra/plan/resolve-stack.ts";
import { awsValues, clusterModel, clusterValues, dockerModel, dockerValues } from "./stacks.ts";
import { encodersOnFront, fixes, largeEncoders, moreMistakes, type Values, vectors } from "./vectors.ts";

const TEMPLATES = new Map([
  ["templates/own", { "tensorrt_llm/1/model.py": "# own" }],
  ["templates/strange", { "tensorrt/1/model.py": "# own" }],
  ["templates/packages", { "requirements.txt": `einops==0.8.1 --hash=sha256:${"1".repeat(64)}` }],
  ["templates/newer", { "requirements.txt": `einops==0.8.2 --hash=sha256:${"2".repeat(64)}` }],
  ["templates/openai", { "requirements.txt": `OpenAI==2.0.0 --hash=sha256:${"3".repeat(64)}` }],
  [
    "templates/long",
    {
      "requirements.txt": `long==1 ${[...Array(2000).keys()].map((n) => `--hash=sha256:${String(n).padStart(64, "0")}`).join(" ")}`,
    },
  ],
]);

function checkedStack(values: Values): CheckedStack {
  const config = parseConfig(values) as GpuStackConfig;
  const { spec } = resolveStack(config, platformOf(config), TEMPLATES);
  return { config, written: values, spec, fit: memoryFit(spec) };
}

/** Findings of a check; empty if the stack file's platform does not have the check. */
function findingsOf(name: string, values: Values): readonly Finding[] {
  const stack = checkedStack(values);
  const check = { ...platformOf(stack.config).checks, ...commonChecks }[name];
  return check === undefined ? [] : flatFindings(check(stack));
}

test("every check of every platform has a stack file that it refuses", () => {
  const platforms = [
    { platform: "docker" },
    { platform: "kubernetes" },
    { platform: "aws", compute: "eks" },
    { platform: "aws", compute: "ec2" },
  ] as GpuStackConfig[];
  const ofPlatforms = platforms.map((config) => platformOf(config).checks);
  expect(Object.keys(vectors).toSorted()).toEqual(
    Object.keys(Object.assign({}, commonChecks, ...ofPlatforms)).toSorted(),
  );
});

test.each(Object.entries(vectors))(
  "the check %s refuses one stack file and accepts the nearest",
  (name, { path, fails, passes, says = /./, severity, hasOthers = false }) => {
    const found = findingsOf(name, fails);
    expect(found.map((finding) => [finding.path, finding.severity])).toContainEqual([path, severity]);
    const finding = found.find((one) => one.path === path);
    expect(finding?.reason).toMatch(says);
    expect(finding?.reason).toMatch(/(\.|https:\S+)$/);
    expect(finding?.fix).toMatch(/[.?]$/);
    const left = findingsOf(name, passes).filter(({ reason }) => !hasOthers || says.test(reason));
    expect(left).toEqual([]);
  },
);

test.each(moreMistakes)("the check %s reports a mistake at %s (%#)", (name, path, values, says) => {
  expect(findingsOf(name, values)).toContainEqual(
    expect.objectContaining({ path, reason: expect.stringMatching(says) }),
  );
});

test.each(fixes)("the check %s offers a fix that suits the stack (%#)", (name, values, fix) => {
  expect(findingsOf(name, values).map((finding) => finding.fix)).toEqual([fix]);
});

test("the fix of advisories names the newest release, and the version with the fixes that it lacks", () => {
  const advisory = (id: string, component: "triton" | "tensorRtLlm", fixed: string) =>
    ({ id, severity: "high", component, fixedIn: fixed, summary: "", source: "" }) as const;
  expect(fixedIn("26.07", [])).toBe("26.07 has all fixes.");
  expect(
    fixedIn("26.07", [
      advisory("CVE-1", "tensorRtLlm", "1.3.0rc9"),
      { ...advisory("CVE-2", "tensorRtLlm", "1.3.0rc17"), severity: "critical" },
      advisory("CVE-3", "triton", "26.08"),
    ]),
  ).toBe(
    "No release has all fixes: 26.07 still has 3 (1 critical (CVE-2), 2 high), whose fixes are in Triton 26.08 and TensorRT-LLM 1.3.0rc17.",
  );
});

test("stopServer is offered only if gateway and databases leave room for the build", () => {
  const full = { ...largeEncoders, encoders: { ...largeEncoders.encoders, replicas: 3 } };
  const found = (name: string, most: number, rest: Values) =>
    findingsOf(name, encodersOnFront("m7i.xlarge", most, rest)).map(({ fix }) => /stopServer/.test(fix));
  expect([1, 2].map((most) => found("machineHoldsOtherBuild", most, largeEncoders))).toEqual([[false], []]);
  expect([1, 2].map((most) => found("gpuIsFreeToBuild", most, largeEncoders))).toEqual([[], []]);
  expect(found("machineHoldsOtherBuild", 2, full)).toEqual([]);
  expect(found("gpuIsFreeToBuild", 2, full)).toEqual([true]);
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
  expect(problems).toContainEqual(expect.objectContaining({ path: "hub.tokenFile", value: '"/run/token"' }));
});

test("an unknown release is not checked as its placeholder release", () => {
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
      ["models[0].model", "Use 24.11, the nearest release with a recipe, or another model."],
    ]);
  },
);

test("the stack files that the vectors start from have no problems", () => {
  for (const values of [dockerValues, clusterValues, awsValues]) {
    expect(problemsOf(values).problems).toEqual([]);
  }
});

function problemsOf(values: Values) {
  const stack = checkedStack(values);
  return findProblems(stack, platformOf(stack.config).checks, []);
}
