/** `npm run sleep` ends with what the stack costs from then on. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { asleepLine } from "../../../scripts/aws/asleep-line.ts";
import { EC2_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { runCommand } from "../plan/run-plan.ts";
import { account, running } from "./account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "./fake-aws.ts";

const folder = mkdtempSync(join(tmpdir(), "engine-room-asleep-"));
let aws: FakeAws | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  await aws?.close();
  rmSync(folder, { recursive: true });
});

test("a machine that stops leaves its disk, network and load balancer to pay for", async () => {
  aws = await startFakeAws(
    account({
      "ec2:DescribeInstances": () => running([{ type: "g5.xlarge" }]),
      "ec2:StopInstances": () => ({ xml: "<StopInstancesResponse/>" }),
    }),
  );
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  stubCredentials();
  const file = writtenStackFile(folder, EC2_STACK);
  const { exitCode, stdout, stderr } = await runCommand("sleep", "--stack", "dev", "--config-file", file);
  expect([exitCode, stderr]).toEqual([0, ""]);
  const { cost } = checkedPlan(EC2_STACK).plan as AwsPlan;
  expect(stdout.endsWith(asleepLine({ cost }, "dev"))).toBe(true);
  expect(stdout).toContain(`at least $${cost.asleepHourlyUsd?.toFixed(3)} an hour`);
});
