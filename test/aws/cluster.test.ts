/** Commands on an EKS cluster: sizes of its node groups, and a kubeconfig with the same token as of AWS's own CLI. */
import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { DescribeClusterCommand, DescribeNodegroupCommand } from "@aws-sdk/client-eks";
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../infra/checked-plan.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { openApi } from "../../scripts/aws/api-access.ts";
import { changePools, sleepsNow, useStackCluster } from "../../scripts/aws/pools.ts";
import { ask } from "../../scripts/aws/session.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { awsTarget } from "../../scripts/program/targets.ts";
import { MOTO_ACCOUNT } from "../harness/aws/moto.ts";
import { eksClient, makeCluster } from "../harness/aws/resources.ts";
import { EXISTING_CLUSTER_STACK } from "../harness/aws/stacks.ts";
import { checkOperations, useAwsCli, useMoto } from "../harness/aws/use-moto.ts";

vi.mock("../../scripts/aws/session.ts", { spy: true });

const REGION = "us-west-2";
const STACK = "dev";
const CLUSTER = "engine-room-dev";
const PROGRAM_TIMEOUT_MILLISECONDS = 60_000;
const moto = useMoto(REGION);
checkOperations(vi.mocked(ask), "cluster");
beforeAll(() => useAwsCli(moto));

describe("sleep and wake", () => {
  const planOf = (values: Readonly<Record<string, unknown>> = {}) =>
    checkedPlan({
      platform: "aws",
      account: MOTO_ACCOUNT,
      region: REGION,
      models: [{ name: "gpt2-medium", model: "gpt2-medium" }],
      access: { apiCidrs: ["203.0.113.7/32"] },
      pools: [
        { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 1, max: 3 } },
        { name: "cpu", instanceType: "m7i.xlarge", nodes: { min: 1, max: 2 } },
      ],
      engines: { whenFull: "stopServer" },
      ...values,
    }).plan as EksPlan;

  const groups = [
    { pool: "gpu", name: "gpu-0001", min: 1, max: 3, desired: 2 },
    { pool: "cpu", name: "cpu-0001", min: 1, max: 2, desired: 1 },
    { pool: "system", name: "system-0001", min: 2, max: 4, desired: 2 },
    { pool: null, name: "by-hand", min: 2, max: 2, desired: 2 },
  ];

  const change = (plan: EksPlan, direction: "sleep" | "wake") =>
    changePools(plan, awsTarget(plan, STACK).context, direction);

  /** Minimum, desired and maximum number of machines in EKS, by group. */
  async function sizes(): Promise<Readonly<Record<string, unknown>>> {
    const answers = groups.map(async ({ name }) => {
      const { nodegroup } = await eksClient(REGION).send(
        new DescribeNodegroupCommand({ clusterName: CLUSTER, nodegroupName: name }),
      );
      const { minSize, desiredSize, maxSize } = nodegroup?.scalingConfig ?? {};
      return [name, [minSize, desiredSize, maxSize]] as const;
    });
    return Object.fromEntries(await Promise.all(answers));
  }
  const others = { "by-hand": [2, 2, 2] };

  test("sleep ends all machines of the stack's node groups, wake starts those of the stack file, and other groups stay", async () => {
    const plan = planOf();
    await makeCluster(REGION, CLUSTER, groups);
    await change(plan, "sleep");
    const asleep = { "gpu-0001": [0, 0, 3], "cpu-0001": [0, 0, 2], "system-0001": [0, 0, 4] };
    expect(await sizes()).toEqual({ ...others, ...asleep });
    expect(await sleepsNow(plan, awsTarget(plan, STACK).context)).toBe(true);
    expect(await change(plan, "sleep")).toMatch(/^system +0 +no machine runs/m);
    await change(plan, "wake");
    const awake = { "gpu-0001": [1, 1, 3], "cpu-0001": [1, 1, 2], "system-0001": [2, 2, 4] };
    expect(await sizes()).toEqual({ ...others, ...awake });
    expect(await sleepsNow(plan, awsTarget(plan, STACK).context)).toBe(false);
  });

  test("sleep with an existing autoscaler sets the minimum of node groups to 0 and ends nothing by itself", async () => {
    await makeCluster(REGION, CLUSTER, groups);
    await change(planOf({ cluster: { charts: { "cluster-autoscaler": "existing" } } }), "sleep");
    expect(await sizes()).toEqual({
      ...others,
      "gpu-0001": [0, 2, 3],
      "cpu-0001": [0, 1, 2],
      "system-0001": [2, 2, 4],
    });
  });

  test("sleep in an existing cluster changes only the groups of the stack's own namespace", async () => {
    const { existing } = EXISTING_CLUSTER_STACK.network;
    const plan = planOf({
      namespace: "chat",
      network: { existing },
      access: undefined,
      cluster: { existing: { name: CLUSTER } },
    });
    const shared = groups.map((group, index) => ({ ...group, namespace: index === 0 ? "chat" : "others" }));
    await makeCluster(REGION, CLUSTER, shared);
    expect(await changePools(plan, awsTarget(plan, "another").context, "sleep")).toMatch(
      /^cpu +- +has no node group/m,
    );
    expect(await sizes()).toEqual({
      ...others,
      "gpu-0001": [0, 2, 3],
      "cpu-0001": [1, 1, 2],
      "system-0001": [2, 2, 4],
    });
  });

  test("sleep reads twelve node groups at once without a warning of Node", async () => {
    const warnings: string[] = [];
    const warned = ({ message }: Error) => warnings.push(message);
    process.on("warning", warned);
    const many = Array.from({ length: 12 }, (_, index) => ({
      pool: index === 11 ? "gpu" : null,
      name: `group-${index}`,
      ...{ min: 1, max: 1, desired: 1 },
    }));
    await makeCluster(REGION, CLUSTER, many);
    expect(await change(planOf(), "sleep")).toMatch(/^gpu +0 /m);
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });
});

describe("the API of the cluster", () => {
  const place = { region: REGION, name: CLUSTER };
  const print = vi.fn();
  beforeEach(() => print.mockReset());

  /** Networks that may reach the API, from EKS. */
  async function openTo(): Promise<unknown> {
    const { cluster } = await eksClient(REGION).send(new DescribeClusterCommand({ name: CLUSTER }));
    return cluster?.resourcesVpcConfig?.publicAccessCidrs;
  }

  test("a network that is new in the stack file is admitted before Pulumi calls the API, and reported", async () => {
    await makeCluster(REGION, CLUSTER);
    await openApi(place, { endpoint: "public", apiCidrs: ["198.51.100.9/32", "198.51.100.7/32"] }, print);
    expect(await openTo()).toEqual(["198.51.100.7/32", "198.51.100.9/32"]);
    expect(print.mock.calls.flat()).toEqual([
      expect.stringContaining(`Opening the API of ${CLUSTER} to 198.51.100.7/32, 198.51.100.9/32`),
    ]);
    await openApi(place, { endpoint: "public", apiCidrs: ["198.51.100.7/32", "198.51.100.9/32"] }, print);
    expect(print).toHaveBeenCalledTimes(1);
  });

  test("an API that will become private is left to Pulumi, and a missing cluster to `up`", async () => {
    await makeCluster(REGION, CLUSTER);
    const before = await openTo();
    await openApi(place, { endpoint: "private", apiCidrs: [] }, print);
    expect(await openTo()).toEqual(before);
    await openApi({ ...place, name: "another" }, { endpoint: "public", apiCidrs: ["1.2.3.4/32"] }, print);
    expect(print).not.toHaveBeenCalled();
  });
});

describe("the kubeconfig", () => {
  const context = { region: REGION, cluster: CLUSTER, stack: "dev" };

  beforeEach(() => {
    vi.stubEnv("KUBECONFIG", "/home/me/.kube/config");
  });

  interface Kubeconfig {
    readonly clusters: readonly [{ readonly cluster: Readonly<Record<string, string>> }];
    readonly users: readonly [
      { readonly user: { readonly exec: { readonly command: string; readonly args: readonly string[] } } },
    ];
  }

  async function usedKubeconfig(): Promise<Kubeconfig> {
    await useStackCluster(context as Parameters<typeof useStackCluster>[0]);
    return JSON.parse(readFileSync(process.env.KUBECONFIG ?? "", "utf8")) as Kubeconfig;
  }

  test("the kubeconfig has the cluster's address and certificate, in its own file that others can't read", async () => {
    await makeCluster(REGION, CLUSTER);
    const { cluster } = await eksClient(REGION).send(new DescribeClusterCommand({ name: CLUSTER }));
    const { clusters } = await usedKubeconfig();
    expect(clusters[0].cluster).toEqual({
      server: cluster?.endpoint,
      "certificate-authority-data": cluster?.certificateAuthority?.data,
    });
    expect(clusters[0].cluster.server).toMatch(/^https:\/\//);
    expect(process.env.KUBECONFIG).not.toBe("/home/me/.kube/config");
    expect(statSync(process.env.KUBECONFIG ?? "").mode & 0o777).toBe(0o600);
  });

  test("the token of AWS's CLI from the kubeconfig identifies the caller and the cluster to STS", async () => {
    await makeCluster(REGION, CLUSTER);
    const [{ user }] = (await usedKubeconfig()).users;
    const { stdout } = await promisify(execFile)(user.exec.command, [...user.exec.args], {
      timeout: PROGRAM_TIMEOUT_MILLISECONDS,
    });
    const { status } = JSON.parse(stdout) as { readonly status: { readonly token: string } };
    // As EKS reads it: https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
    const presigned = new URL(
      Buffer.from(status.token.slice("k8s-aws-v1.".length), "base64url").toString("utf8"),
    );
    expect(presigned.searchParams.get("X-Amz-SignedHeaders")).toContain("x-k8s-aws-id");
    // moto finds the service by this header only, and checks no signature.
    const authorization = `AWS4-HMAC-SHA256 Credential=${presigned.searchParams.get("X-Amz-Credential")}`;
    const answer = await fetch(presigned, { headers: { "x-k8s-aws-id": CLUSTER, authorization } });
    expect(await answer.text()).toContain(`<Account>${MOTO_ACCOUNT}</Account>`);
  });

  test("the kubeconfig is deleted when its command ends", async () => {
    await makeCluster(REGION, CLUSTER);
    const module = pathToFileURL(join(projectRoot, "scripts/aws/pools.ts")).href;
    const program = `
    import { useStackCluster } from ${JSON.stringify(module)};
    await useStackCluster(${JSON.stringify(context)});
    process.stdout.write(process.env.KUBECONFIG);`;
    const argv = ["--import", "tsx", "--input-type=module", "--eval", program];
    const { stdout: file } = await promisify(execFile)(process.execPath, argv, {
      cwd: projectRoot,
      timeout: PROGRAM_TIMEOUT_MILLISECONDS,
    });
    expect(file).toMatch(/engine-room-kubeconfig-/);
    expect(existsSync(file)).toBe(false);
  });

  test("a missing cluster is reported with the command that creates it, and the user's own kubeconfig stays in use", async () => {
    await makeCluster(REGION, "another");
    await expect(usedKubeconfig()).rejects.toThrow(
      "There is no cluster engine-room-dev in us-west-2; `npx engine-room up --stack dev` creates it, unless `cluster.existing` names one.",
    );
    expect(process.env.KUBECONFIG).toBe("/home/me/.kube/config");
  });
});
