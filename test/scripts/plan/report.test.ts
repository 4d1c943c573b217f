import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { planReport, summaryLines } from "../../../scripts/plan/report.ts";
import { awsSection, coldStartSection, costSection } from "../../../scripts/plan/sections.ts";
import {
  duration,
  figure,
  PAGE_COLUMNS,
  pageColumns,
  paragraph,
  textTable,
  wrapText,
} from "../../../scripts/plan/text-table.ts";
import { asleepLine } from "../../../scripts/platforms/aws.ts";
import { ec2Values, eksValues } from "../../infra/plan/aws/stacks.ts";
import { clusterValues, dockerValues } from "../../infra/plan/checks/stacks.ts";

type Values = Readonly<Record<string, unknown>>;

const stack = { name: "dev", options: "--stack dev", file: "Pulumi.dev.yaml" };

const planOf = (values: Values) => checkedPlan(values).plan as AwsPlan;

const words = (lines: readonly string[]) => lines.join(" ").replaceAll(/\s+/g, " ").trim();

const summaryOf = (values: Values) => words(summaryLines(planOf(values)));

const localValues = { platform: "local", models: [{ name: "gpt", model: "smollm2-135m-instruct" }] };

const existingNetwork = {
  vpcId: "vpc-01234567",
  cidr: "10.80.0.0/16",
  privateSubnets: [
    { id: "subnet-00000000", zone: "a" },
    { id: "subnet-00000001", zone: "b" },
  ],
};

const abroad = { ...eksValues, region: "eu-central-1" };

test("the summary has machines, cost and the time of a first `up`", () => {
  const { cost } = planOf(eksValues);
  const text = summaryOf(eksValues);
  expect(text).toContain("Machines: 1 × g5.12xlarge + 1 × m7i.2xlarge + 2 × m7i.large; asleep none.");
  expect(text).toContain(
    `Cost: at least $${cost.hourlyUsd?.toFixed(3)} an hour (at least $4,747.41 a month), at least $${cost.asleepHourlyUsd?.toFixed(3)} asleep`,
  );
  expect(text).toMatch(/engines, built once: \$0\.\d\d\./);
  expect(text).toMatch(/First `up`: about \d+ min until/);
});

test("the time of a first `up` is the sum of its steps as they are shown", () => {
  for (const values of [eksValues, ec2Values, dockerValues, clusterValues]) {
    const [, sum, steps = ""] = /about (\d+) min .*\(estimate: (.*?)\)/.exec(summaryOf(values)) ?? [];
    const seconds = [...steps.matchAll(/(\d+) (min|s)/g)].map(
      ([, n, unit]) => Number(n) * (unit === "s" ? 1 : 60),
    );
    expect(seconds.length, steps).toBeGreaterThan(1);
    expect(Math.round(seconds.reduce((total, each) => total + each, 0) / 60), steps).toBe(Number(sum));
  }
});

test("the summary names pools whose machines have no instance type", () => {
  const machine = { gpu: "A10G", gpus: 1, vcpus: 16, memoryGiB: 64 };
  expect(
    summaryOf({ ...clusterValues, pools: [{ name: "gpu", machine }], engines: { whenFull: "stopServer" } }),
  ).toMatch(/^Machines: pool gpu: 1 machine \(your own\)\. /);
  expect(summaryOf({ ...dockerValues, host: { machine } })).toMatch(/^Machines: 1 machine \(your own\)\. /);
});

test("the time of a first `up` includes the network of a machine on EC2, and the control plane of a cluster", () => {
  const stepsOf = (values: Values) => planOf(values).firstUp.steps.map(({ what }) => what);
  expect(stepsOf(eksValues)).toEqual(["controlPlane", "machines", "builds", "coldStart"]);
  expect(stepsOf(ec2Values)).toEqual(["network", "builds", "coldStart"]);
  const network = { existing: existingNetwork };
  expect(stepsOf({ ...ec2Values, network })).toEqual(["builds", "coldStart"]);
  const { cost, firstUp, models } = planOf(eksValues);
  expect(firstUp.seconds).toBe(
    600 + 180 + Number(cost.builds[0]?.seconds) + Number(models[0]?.coldStart.seconds),
  );
});

test("the time of a first `up` adds builds of one pool, and has the slowest start", () => {
  const models = [
    { name: "gpt", model: "gpt2-medium" },
    { name: "chat", model: "llama-2-7b-chat" },
  ];
  const stack = { ...eksValues, models, hub: { token: { secure: "v1:abc" } } };
  const { cost, firstUp, models: planned } = planOf(stack);
  const step = (what: string) => firstUp.steps.find((one) => one.what === what)?.seconds;
  expect(cost.builds).toHaveLength(2);
  expect(step("builds")).toBe(cost.builds.reduce((sum, { seconds }) => sum + seconds, 0));
  expect(step("coldStart")).toBe(Math.max(...planned.map(({ coldStart }) => coldStart.seconds)));
});

test("the summary of a region without prices begins with the cost in a region that has them", () => {
  const { cost } = planOf(eksValues);
  const hour = (amount: number | null) => `at least $${amount?.toFixed(3)}`;
  const text = summaryOf(abroad);
  expect(text).toContain(
    `Cost: no price table for eu-central-1; in us-east-1 it would be ${hour(cost.hourlyUsd)} an hour (at least $4,747.41 a month), ${hour(cost.asleepHourlyUsd)} asleep (\`npx engine-room sleep\`). Without a price: 11 of 12 parts.`,
  );
});

test("the summary says which parts have no price in a region with a price table", () => {
  const [gpu, cpu] = eksValues.pools;
  const text = summaryOf({ ...eksValues, pools: [{ ...gpu, capacity: "spot" }, cpu] });
  expect(text).toMatch(/Cost: at least \$\d\.\d{3} an hour .* Without a price: 1 of 12 parts\. First/);
});

test("the summary has no amount for machines without a price, which are the user's own", () => {
  expect(summaryOf(dockerValues)).toMatch(
    /^Machines: 1 × \S+ \(your own\)\. Cost: your own machines, not priced; `hourlyUsd` of a host or pool sets a price\. First/,
  );
  expect(summaryOf(dockerValues)).toContain(
    "First `up`: about 6 min until its models answer (estimate: engines 85 s + cold start 5 min).",
  );
  expect(summaryOf(clusterValues)).toMatch(/First `up`: .* after `npx engine-room images --push`\.$/);
  expect(summaryOf(localValues)).toBe("Cost: your own machine, not priced.");
});

test("the short report has a row for each model, and the full report has every section", () => {
  const reportOf = (isFull: boolean) => planReport(stack, planOf(eksValues), [], isFull);
  const titles = (text: string) => text.split("\n").filter((line) => /^[A-Z]/.test(line));
  expect(titles(reportOf(false)).map((line) => line.split(/[ :]/)[0])).toEqual([
    "Stack",
    "Models",
    "All",
    "Next",
  ]);
  expect(reportOf(false)).toMatch(
    /^ {2}gpt +1 +gpu +[0-9a-f]{12} +85 s +8 min +[\d.]+ of [\d.]+ GiB, fits$/m,
  );
  expect(titles(reportOf(true)).map((line) => line.split(/[ :]/)[0])).toEqual([
    ...["Stack", "Models", "Engines", "Memory", "Cost", "Cold", "Account"],
    ...["Vulnerabilities", "Next"],
  ]);
});

test("warnings about vulnerabilities come before notes", () => {
  const { warnings } = checkedPlan(eksValues);
  expect(warnings[0]?.reason).toMatch(/^51 known vulnerabilities: 3 critical \(/);
  expect(warnings.findIndex(({ reason }) => reason.includes("no further fixes"))).toBe(warnings.length - 1);
});

test.each([false, true])(
  "the warning about vulnerabilities names `--full` unless the report is full: %s",
  (isFull) => {
    const { plan, warnings } = checkedPlan(eksValues);
    const text = words([planReport(stack, plan, warnings, isFull)]);
    expect(text).toMatch(
      isFull
        ? /17 medium\. No release has all fixes/
        : /17 medium\. `npx engine-room plan --full` lists each\. No release has all fixes/,
    );
  },
);

test("the summary comes first, and the next step last", () => {
  const lastOf = (values: Values) =>
    planReport(stack, planOf(values), [], false).trimEnd().split("\n").slice(-1);
  for (const values of [eksValues, ec2Values, dockerValues, clusterValues])
    expect(lastOf(values)).toEqual(["Next: npx engine-room preflight --stack dev"]);
  expect(lastOf(localValues)).toEqual(["Next: npx engine-room start --stack dev"]);
});

test("the table of costs has no amounts for machines without a price, and no sum", () => {
  const { title, lines } = costSection(planOf({ ...dockerValues, host: { instanceType: "g5.4xlarge" } }));
  expect(title).toBe("Cost (US dollars)");
  expect(words(lines)).toMatch(/pool host not priced 1 × g5\.4xlarge, your own built once: [^$]*$/);
  expect(costSection(planOf(eksValues)).title).toBe("Cost (US dollars, prices of 2026-07-06)");
});

test("costs asleep are those of stacks that can sleep, so not of a Docker host", () => {
  const priced = { ...dockerValues, host: { instanceType: "g5.4xlarge", diskGiB: 250, hourlyUsd: 1.5 } };
  expect(summaryOf(priced)).toContain("Cost: $1.500 an hour ($1,095.00 a month); engines, built once");
  expect(words(costSection(planOf(priced)).lines)).toMatch(
    /^WHAT AN HOUR HOW pool host \$1\.500 1 × .* sum \$1\.500 a month of 730 hours: \$1,095\.00 built once/,
  );
  for (const values of [clusterValues, ec2Values, eksValues])
    expect(words(costSection(planOf(values)).lines)).toMatch(/^WHAT AN HOUR ASLEEP HOW /);
});

test("the table of costs keeps the row of a pool without a price among others with one", () => {
  const [gpu, cpu] = eksValues.pools;
  const text = words(costSection(planOf({ ...eksValues, pools: [{ ...gpu, capacity: "spot" }, cpu] })).lines);
  expect(text).toContain("pool gpu no price $0.000 1 × g5.12xlarge, spot without hourlyUsd");
  expect(text).toMatch(/sum at least \$\d\.\d{3} at least \$\d\.\d{3} a month/);
});

test("the last line of `sleep` has the plan's price while asleep", () => {
  const plan = planOf(eksValues);
  expect(asleepLine(plan, "dev")).toBe(
    `Asleep the stack costs at least $${plan.cost.asleepHourlyUsd?.toFixed(3)} an hour; \`npx engine-room down --stack dev\` ends that.\n`,
  );
});

test("the last line of `sleep` says that no part has a price", () => {
  const plan = planOf(eksValues);
  const cost = { ...plan.cost, asleepHourlyUsd: null, withoutPrice: ["NAT gateway"] };
  expect(asleepLine({ cost }, "dev")).toMatch(
    /nothing of it has a price: NAT gateway; `npx engine-room down/,
  );
});

describe("cold starts of rented machines", () => {
  const [gpu, cpu] = eksValues.pools;

  const planOf = (changes: object = {}) =>
    checkedPlan({ ...eksValues, pools: [{ ...gpu, ...changes }, cpu] }).plan as AwsPlan;

  /** Rows of the sums. */
  function sums(plan: AwsPlan): readonly string[] {
    return coldStartSection(plan).lines.flatMap((line) => {
      const [, row] = /^ *sum +(.+)$/.exec(line) ?? [];
      return row === undefined ? [] : [row.replaceAll(/ +/g, " ")];
    });
  }

  test("a cold start has one sum without waits for a machine or an image", () => {
    expect(sums(planOf())).toEqual(["492"]);
  });

  test("a cold start has a second sum for a new machine if one stays warm", () => {
    expect(sums(planOf({ warm: 1 }))).toEqual([
      "492 on a new machine",
      "312 on a machine that runs",
      "7 on a machine that runs and has the image",
    ]);
  });

  test("a cold start on a running machine has no pull of images that are kept there", () => {
    expect(sums(planOf({ prePullImages: true }))).toEqual([
      "492 on a new machine",
      "7 on a machine that runs and has the image",
    ]);
  });

  test("sums of cold starts do not change the time of a first `up`", () => {
    const { firstUp } = planOf();
    for (const changes of [{ prePullImages: true }, { warm: 1 }])
      expect(planOf(changes).firstUp.steps.at(-1)).toEqual(firstUp.steps.at(-1));
  });
});

function textOf(values: Values): string {
  const { title, lines } = awsSection(checkedPlan(values).plan);
  return words([title, ...lines]);
}

test("the plan of a cluster on AWS says until when its version has standard support", () => {
  expect(textOf({ ...eksValues, cluster: { version: "1.34" } })).toBe(
    "Account 111122223333 Kubernetes 1.34: AWS's standard support ends on 2026-12-02; AWS then updates the cluster to the next version by itself, so write that one before.",
  );
});

test("the plan says what is missing for each chart set to `none`", () => {
  const charts = { "dcgm-exporter": "none", keda: "none", "cluster-autoscaler": "existing" };
  expect(textOf({ ...eksValues, cluster: { charts } })).toMatch(
    / Not installed: dcgm-exporter \(no metrics of GPUs, .*\); keda \(no server scales with its load\)\.$/,
  );
  expect(textOf(eksValues)).not.toContain("Not installed");
});

test("the plan says when a stack with a ttl ends, and by which command", () => {
  expect(textOf({ ...ec2Values, guard: { ttlHours: 8 } })).toMatch(
    /Expiry: `npx engine-room expire --down` destroys the stack 8 h after its last `up` \(guard\.ttlHours\)\.$/,
  );
});

test("plans for other platforms have no section of AWS", () => {
  const docker = { platform: "docker", host: { instanceType: "g5.4xlarge" }, models: eksValues.models };
  expect(textOf({ ...docker, engines: { whenFull: "stopServer" } })).toBe("");
});

const columns = ["NAME", ">GiB", "HOW"];

test("a table has columns as wide as their cells, and no spaces at line ends", () => {
  expect(
    textTable(columns, [
      ["weights", "12.55", "two bytes each"],
      ["pool", "0.3", ""],
    ]),
  ).toEqual(["  NAME       GiB  HOW", "  weights  12.55  two bytes each", "  pool       0.3"]);
});

test("a table wraps its last column below itself", () => {
  expect(textTable(columns, [["pool", "0.3", "one two three four five six"]], { width: 38 })).toEqual([
    "  NAME  GiB  HOW",
    "  pool  0.3  one two three four five",
    "             six",
  ]);
});

test("missing cells of a table are empty", () => {
  expect(textTable(columns, [["sum"]])).toEqual(["  NAME  GiB  HOW", "  sum"]);
});

test("text breaks only at spaces, and does not break a longer word", () => {
  expect(wrapText("a bc def a-very-long-word x", 6)).toEqual(["a bc", "def", "a-very-long-word", "x"]);
  expect(wrapText("", 6)).toEqual([""]);
});

test.each([
  ["`COLUMNS`", "72", 240, 72],
  ["the terminal", undefined, 90, 90],
  ["a table needs at least", "20", undefined, 60],
  ["one can read at most", "400", undefined, 120],
  ["80 columns without a terminal", undefined, undefined, 80],
])("the page is as wide as %s", (_what, said, terminal, columns) => {
  expect(pageColumns(said, terminal)).toBe(columns);
});

test("a paragraph keeps to the page with its margin", () => {
  const lines = paragraph("word ".repeat(60).trimEnd(), 4);
  const longest = Math.max(...lines.map((line) => line.length));
  expect(longest).toBeLessThanOrEqual(PAGE_COLUMNS);
  expect(longest).toBeGreaterThan(PAGE_COLUMNS - 6);
  expect(lines.every((line) => line.startsWith("    word"))).toBe(true);
});

test("figures are grouped by thousands in every locale", () => {
  expect([figure(1234567.891, 2), figure(999, 0), figure(0.5, 3), figure(-1234.5, 1)]).toEqual([
    "1,234,567.89",
    "999",
    "0.500",
    "-1,234.5",
  ]);
});

test("durations are rounded more as they grow", () => {
  expect([0, 45, 89.6, 90, 1500, 5400, 7200, 7500].map(duration)).toEqual([
    "0 s",
    "45 s",
    "90 s",
    "2 min",
    "25 min",
    "1 h 30 min",
    "2 h",
    "2 h 5 min",
  ]);
});
