/** What a plan says first and last, and what its table of costs has where prices are missing. */
import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { asleepLine } from "../../../scripts/aws/asleep-line.ts";
import { costSection } from "../../../scripts/plan/cost-section.ts";
import { planReport } from "../../../scripts/plan/report.ts";
import { summaryLines } from "../../../scripts/plan/summary.ts";
import { ec2Values, eksValues } from "../../infra/plan/aws/stacks.ts";
import { clusterValues, dockerValues } from "../../infra/plan/checks/stacks.ts";

type Values = Readonly<Record<string, unknown>>;

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

describe("the summary", () => {
  test("has machines, money and the time of a first `up`", () => {
    const { cost, firstUp } = planOf(eksValues);
    const text = summaryOf(eksValues);
    expect(text).toContain(
      "Machines: 1 × g5.12xlarge + 1 × m7i.2xlarge + 2 × m7i.large; asleep 1 × m7i.2xlarge + 2 × m7i.large.",
    );
    expect(text).toContain(
      `Cost: at least $${cost.hourlyUsd?.toFixed(3)} an hour (at least $4,816.91 a month), at least $${cost.asleepHourlyUsd?.toFixed(3)} asleep`,
    );
    expect(text).toMatch(/engines, built once: \$0\.\d\d\./);
    expect(text).toContain(`First \`up\`: about ${Math.round(firstUp.seconds / 60)} min until`);
  });

  test("adds up the steps of a first `up`: a machine of EC2 waits for its network, a cluster for its control plane", () => {
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

  test("waits for builds of one pool one after the other, and for the slowest start", () => {
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

  test("leads with what it would be where prices are known, and has what is known here after it", () => {
    const { cost } = planOf(eksValues);
    const hour = (amount: number | null) => `at least $${amount?.toFixed(3)}`;
    const text = summaryOf(abroad);
    expect(text).toContain(
      `Cost: no price table for eu-central-1; in us-east-1 it would be ${hour(cost.hourlyUsd)} an hour (at least $4,816.91 a month), ${hour(cost.asleepHourlyUsd)} asleep. 11 of its 12 parts have no price in eu-central-1; the others: at least $0.100 an hour (at least $73.00 a month), at least $0.100 asleep (\`npm run sleep\`)`,
    );
  });

  test("has no sum of nothing: one machine has no part with a price abroad", () => {
    const { lines } = planOf(ec2Values).cost;
    expect(summaryOf({ ...ec2Values, region: "eu-central-1" })).toContain(
      ` asleep. ${lines.length} of its ${lines.length} parts have no price in eu-central-1. First`,
    );
  });

  test("says how much of the sum is missing where the region has a price table", () => {
    const [gpu, cpu] = eksValues.pools;
    const text = summaryOf({ ...eksValues, pools: [{ ...gpu, capacity: "spot" }, cpu] });
    expect(text).toMatch(/Cost: at least \$\d\.\d{3} an hour .* 1 of its 12 parts has no price\. First/);
  });

  test("of machines that cost nothing has the time alone", () => {
    const { seconds } = planOf(dockerValues).firstUp;
    expect(summaryOf(dockerValues)).toBe(
      `First \`up\`: about ${Math.round(seconds / 60)} min until its models answer (estimate: engines 85 s + cold start 5 min).`,
    );
    expect(summaryOf(clusterValues)).toMatch(/^First `up`: .* once images are in their registry\.$/);
    expect(summaryOf(localValues)).toBe("");
  });

  test("is followed by all the rest, and by what to do next, where that is anything", () => {
    const lastOf = (values: Values) =>
      planReport({ name: "dev", options: "--stack dev" }, planOf(values), []).trimEnd().split("\n").slice(-2);
    for (const values of [eksValues, ec2Values, dockerValues, clusterValues])
      expect(lastOf(values)).toEqual(["", "Next: npm run preflight -- --stack dev"]);
    expect(lastOf(localValues).join()).not.toContain("Next:");
  });
});

describe("the table of costs", () => {
  test("says in its heading where prices are from, or that machines cost nothing", () => {
    const host = { instanceType: "g5.4xlarge" };
    const titleOf = (values: Values) => costSection(planOf(values)).title;
    expect(titleOf(eksValues)).toBe("Cost (US dollars, prices of 2026-07-06)");
    expect(titleOf({ ...dockerValues, host })).toBe("Cost (US dollars, machines taken as owned)");
    expect(titleOf({ ...dockerValues, host: { ...host, hourlyUsd: 2 } })).toBe(
      "Cost (US dollars, no price of the table used)",
    );
  });

  test("names what has no price once where the region has none, and has rows for the rest", () => {
    const { lines } = costSection(planOf(abroad));
    expect(lines.filter((line) => line.includes("pool gpu"))).toHaveLength(1);
    expect(lines.join("\n")).not.toMatch(/pool gpu +no price/);
    expect(words(lines)).toContain(
      "No price is known in eu-central-1 of pool gpu, pool cpu, pool system, NAT gateway, interface endpoints,",
    );
    expect(words(lines)).toMatch(/sum at least \$0\.100 at least \$0\.100 a month/);
  });

  test("keeps the row of a single pool without price among others that have one", () => {
    const [gpu, cpu] = eksValues.pools;
    const text = words(
      costSection(planOf({ ...eksValues, pools: [{ ...gpu, capacity: "spot" }, cpu] })).lines,
    );
    expect(text).toContain("pool gpu no price $0.000 1 × g5.12xlarge, spot without hourlyUsd");
    expect(text).toMatch(/sum at least \$\d\.\d{3} \$\d\.\d{3} a month/);
  });
});

describe("the last line of `sleep`", () => {
  test("is the plan's price of what stays", () => {
    const plan = planOf(eksValues);
    expect(asleepLine(plan, "dev")).toBe(
      `Asleep the stack costs at least $${plan.cost.asleepHourlyUsd?.toFixed(3)} an hour; \`npm run down -- --stack dev\` ends that.\n`,
    );
  });

  test("says that nothing of it has a price", () => {
    const plan = planOf(eksValues);
    const cost = { ...plan.cost, asleepHourlyUsd: null, withoutPrice: ["NAT gateway"] };
    expect(asleepLine({ cost }, "dev")).toMatch(/nothing of it has a price: NAT gateway; `npm run down/);
  });
});
