import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { eksKubeconfig } from "../../../infra/plan/aws/kubeconfig.ts";
import type { AwsPlan } from "../../../infra/plan/gpu-stack.ts";
import { useStackCluster } from "../../../scripts/aws/kubeconfig.ts";
import { awsTarget } from "../../../scripts/program/aws-target.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { type Answers, account, EKS_STACK, REGION } from "./account.ts";
import { type FakeAws, startFakeAws } from "./fake-aws.ts";

const PROGRAM_TIMEOUT_MILLISECONDS = 60_000;

const CLUSTER = { endpoint: "https://0123.gr7.us-east-1.eks.amazonaws.com", certificateAuthority: "Q0E=" };
const { context } = awsTarget(checkedPlan(EKS_STACK).plan as AwsPlan, "dev");

describe("commands that ask the cluster", () => {
  let aws: FakeAws | undefined;
  beforeEach(() => {
    vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "example");
    vi.stubEnv("KUBECONFIG", "/home/me/.kube/config");
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await aws?.close();
  });
  async function use(answers: Answers): Promise<void> {
    aws = await startFakeAws(account(answers));
    vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  }
  const found: Answers = {
    "eks:DescribeCluster": () => ({
      json: {
        cluster: {
          status: "ACTIVE",
          endpoint: CLUSTER.endpoint,
          certificateAuthority: { data: CLUSTER.certificateAuthority },
        },
      },
    }),
  };

  test("have a file of their own, which others can't read", async () => {
    await use(found);
    await useStackCluster(context);
    const file = process.env.KUBECONFIG ?? "";
    expect(file).not.toBe("/home/me/.kube/config");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, "utf8")).toBe(
      eksKubeconfig({ region: REGION, name: "engine-room-dev", ...CLUSTER }),
    );
  });

  test("leave no file", async () => {
    await use(found);
    const module = (path: string) => JSON.stringify(pathToFileURL(`${projectRoot}/${path}`).href);
    const program = `
      import { useStackCluster } from ${module("scripts/aws/kubeconfig.ts")};
      await useStackCluster(${JSON.stringify(context)});
      process.stdout.write(process.env.KUBECONFIG);`;
    const argv = ["--import", "tsx", "--input-type=module", "--eval", program];
    const options = { cwd: projectRoot, timeout: PROGRAM_TIMEOUT_MILLISECONDS };
    const { stdout: file } = await promisify(execFile)(process.execPath, argv, options);
    expect(file).toMatch(/engine-room-kubeconfig-/);
    expect(existsSync(file)).toBe(false);
  });

  test("say how a cluster is made that is not there, and keep the user's own kubeconfig", async () => {
    await use({ "eks:DescribeCluster": () => ({ error: "ResourceNotFoundException", status: 404 }) });
    await expect(useStackCluster(context)).rejects.toThrow(
      "There is no cluster engine-room-dev in us-east-1; `npm run up -- --stack dev` makes it.",
    );
    expect(process.env.KUBECONFIG).toBe("/home/me/.kube/config");
  });

  test("say AWS's words where it does not tell", async () => {
    await use({ "eks:DescribeCluster": () => ({ error: "AccessDeniedException", status: 403 }) });
    await expect(useStackCluster(context)).rejects.toThrow(/may not ask eks:DescribeCluster/);
  });
});
