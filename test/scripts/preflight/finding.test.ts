import { expect, test } from "vitest";
import { findingsReport, problem, warning } from "../../../scripts/preflight/finding.ts";
import { pulumiFindings } from "../../../scripts/preflight/pulumi-check.ts";

const WIDTH = 40;
const ARN = "arn:aws:iam::111122223333:role/a-role-with-a-long-name";
const findings = [
  warning(
    "quotas",
    "The quota lacks 2 vCPUs.",
    "It has 10, and the stack takes 12 of them.",
    "Ask for more.",
  ),
  problem("credentials", "Who you are is not known.", `You may be ${ARN}, or another one.`, "Log in anew."),
];

test("findings keep to the width, at spaces, below their number", () => {
  expect(findingsReport("The account", findings, WIDTH).split("\n")).toEqual([
    "The account: 1 problem, 1 to know.",
    "Nothing was changed.",
    "  1. Who you are is not known.",
    "     You may be",
    `     ${ARN},`,
    "     or another one.",
    "     Fix: Log in anew.",
    "  2. Warning: The quota lacks 2 vCPUs.",
    "     It has 10, and the stack takes 12",
    "     of them.",
    "     Fix: Ask for more.",
    "",
  ]);
});

test("the Pulumi CLI is told for what it is needed", () => {
  const words = pulumiFindings(undefined, "AWS").map(({ why }) => why);
  expect(words).toEqual([expect.stringMatching(/^`npm run up` deploys to AWS with it;/)]);
  expect(words.join()).not.toMatch(/Docker|cluster/);
});
