/** What docs and README say of stacks on AWS, as the program has it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { costSection } from "../../../scripts/plan/cost-section.ts";
import { projectName, projectRoot } from "../../../scripts/program/stack-file.ts";
import { expectPart } from "../../harness/recorded-part.ts";
import { awsGraph, stackConfig } from "./aws-stacks.ts";
import { last } from "./program.ts";

const STACKS = ["dev", "prod", "ec2"] as const;
const DOCS = "docs/aws.md";

const TEST = "test/infra/platforms/aws-docs.test.ts";

const graphs = [await awsGraph("dev"), await awsGraph("prod"), await awsGraph("ec2")];

test("every type of resource is in docs, with how many of it a stack makes", () => {
  const types = new Set(graphs.flatMap(({ resources }) => resources.map(({ type }) => type)));
  const rows = [...types].sort().map((type) => {
    const made = graphs.map((graph) => graph.ofType(type));
    const owners = new Set(made.flat().map(({ parent }) => ownerOf(parent)));
    return `| ${type} | ${made.map(({ length }) => length).join(" | ")} | ${[...owners].sort().join(", ")} |`;
  });
  const sums = graphs.map(({ resources }) => resources.length).join(" | ");
  const heading = [`| Type | ${STACKS.join(" | ")} | In |`, "|---|---|---|---|---|"];
  expectPart(DOCS, "resources", [...heading, ...rows, `| all | ${sums} | |`], TEST);
});

/** Component that a resource is in; the stack itself for those at its top. */
function ownerOf(parent: string): string {
  const types = parent.split("::")[2]?.split("$") ?? [];
  return types.at(-1)?.replace(/^(engine-room|pulumi:pulumi):/, "") ?? last(parent);
}

test("every component on AWS has its reason and its price in docs", () => {
  const text = readFileSync(join(projectRoot, DOCS), "utf8");
  const components = new Set(
    graphs.flatMap(({ resources }) =>
      resources.flatMap(({ type }) => /^engine-room:aws:(\w+)$/.exec(type)?.[1] ?? []),
    ),
  );
  expect([...components].filter((one) => !text.includes(`| ${one} |`))).toEqual([]);
});

test.each([
  [DOCS, "dev"],
  [DOCS, "prod"],
  ["README.md", "dev"],
] as const)("%s has what `npm run plan` says of the cost of %s", (file, stack) => {
  const { plan } = checkedPlan(fromRuntimeConfig(stackConfig(stack).values, projectName()));
  if (plan.platform !== "aws") throw new Error(`${stack} is a stack of ${plan.platform}.`);
  const { title, lines } = costSection(plan);
  // By the hour; what comes after it is in the plan.
  const hourly = lines.slice(0, lines.indexOf(""));
  expectPart(file, `cost of ${stack}`, ["```", title, ...hourly.map((line) => `  ${line}`), "```"], TEST);
});
