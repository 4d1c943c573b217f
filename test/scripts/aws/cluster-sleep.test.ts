/** `sleep`, `wake` and `status` of a stack on EKS, and `up` and `down` of a stack that sleeps. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { POOL_LABEL } from "../../../infra/plan/aws/context.ts";
import type { EksPlan } from "../../../infra/plan/gpu-stack.ts";
import { awaitControllers, wakeBefore } from "../../../scripts/aws/pools.ts";
import { clusterProbe } from "../../../scripts/cluster/kubectl.ts";
import { awaitServers } from "../../../scripts/cluster/sleep.ts";
import { awsTarget, clusterTarget } from "../../../scripts/program/targets.ts";
import { EKS_STACK } from "../../harness/aws/stacks.ts";
import { writtenStackFile } from "../../harness/stack-files.ts";
import { type FakeKubectl, fakeKubectl } from "../cluster/fake-kubectl.ts";
import { account } from "./account.ts";
import { type FakeAws, startFakeAws, stubCredentials } from "./fake-aws.ts";

const VALUES = {
  ...EKS_STACK,
  encoders: false,
  pools: [
    { name: "gpu", instanceType: "g5.xlarge", nodes: { min: 0, max: 1 } },
    { name: "cpu", instanceType: "m7i.xlarge", zones: ["a"] },
  ],
};
const plan = checkedPlan(VALUES).plan as EksPlan;
const { context } = awsTarget(plan, "fake");
const [model = ""] = plan.models.map(({ name }) => name);

interface Size {
  readonly minSize: number;
  readonly maxSize: number;
  readonly desiredSize: number;
}

let aws: FakeAws;
let kubectl: FakeKubectl;
let sizes: Record<string, Size>;

const AWAKE = {
  system: { minSize: 2, maxSize: 4, desiredSize: 2 },
  gpu: { minSize: 0, maxSize: 1, desiredSize: 1 },
  cpu: { minSize: 1, maxSize: 1, desiredSize: 1 },
};
const ASLEEP = {
  system: { minSize: 0, maxSize: 4, desiredSize: 0 },
  gpu: { minSize: 0, maxSize: 1, desiredSize: 0 },
  cpu: { minSize: 0, maxSize: 1, desiredSize: 0 },
};

const deployment = (name: string, replicas: number, ready: number, pool?: string) => ({
  kind: "Deployment",
  metadata: { name },
  spec: {
    replicas,
    template: { spec: pool === undefined ? {} : { nodeSelector: { [POOL_LABEL]: pool } } },
  },
  status: { readyReplicas: ready },
});

/** Sets the content of the cluster. @param ready - Pods of each Deployment. */
function cluster(replicas: number, ready: number, controllersReady = ready): void {
  const own = { ...deployment(model, replicas, ready) };
  const gateway = deployment("gateway", 1, ready);
  const builds = clusterTarget(plan, "fake").stack.builds.map(({ name }) => ({
    kind: "Job",
    metadata: { name },
    spec: {},
    status: { conditions: [{ type: "Complete", status: "True" }] },
  }));
  kubectl.answers({
    "get deployments.apps --namespace kube-system --selector app.kubernetes.io/instance=cluster-autoscaler": {
      items: [deployment("cluster-autoscaler-aws-cluster-autoscaler", replicas, replicas)],
    },
    "get deployments.apps --all-namespaces": {
      items: [deployment("coredns", 1, controllersReady, "system"), deployment("others", 1, 0)],
    },
    "get deployments.apps,statefulsets.apps,jobs.batch": { items: [own, gateway, ...builds] },
    "get deployments.apps": { items: [own, gateway] },
    "get pods": { items: [] },
    scale: "scaled\n",
    "config current-context": "engine-room\n",
  });
}

beforeEach(async () => {
  stubCredentials();
  kubectl = fakeKubectl(false);
  vi.stubEnv("PATH", `${kubectl.folder}:${process.env.PATH}`);
  sizes = { ...AWAKE };
  const pool = (path: string) => /node-groups\/([a-z]+)-1/.exec(path)?.[1] ?? "";
  aws = await startFakeAws(
    account({
      "eks:DescribeCluster": () => ({
        json: {
          cluster: { name: context.name, endpoint: "https://eks", certificateAuthority: { data: "" } },
        },
      }),
      "eks:ListNodegroups": () => ({ json: { nodegroups: Object.keys(sizes).map((name) => `${name}-1`) } }),
      "eks:DescribeNodegroup": ({ path }) => ({
        json: {
          nodegroup: {
            status: "ACTIVE",
            labels: { [POOL_LABEL]: pool(path) },
            scalingConfig: sizes[pool(path)],
          },
        },
      }),
      "eks:UpdateNodegroupConfig": ({ path, body }) => {
        sizes = { ...sizes, [pool(path)]: { ...sizes[pool(path)], ...(body.scalingConfig as Size) } };
        return { json: { update: { id: "1", status: "InProgress" } } };
      },
    }),
  );
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
});
afterEach(async () => {
  await aws.close();
  await kubectl.remove();
});

const run = (...words: readonly string[]) =>
  kubectl.runFor(writtenStackFile(kubectl.folder, VALUES), ...words);
const scaled = () =>
  kubectl
    .calls()
    .filter((words) => words.includes("scale"))
    .map((words) => [words[3], words.at(-1)].join(" "));
const scaledServer = (replicas: number) => `${model} ${replicas}`;
const scaledAutoscaler = (replicas: number) =>
  `cluster-autoscaler-aws-cluster-autoscaler --replicas=${replicas}`;

test("`sleep` stops servers, then the autoscaler, then every machine, and shows the remaining costs", async () => {
  cluster(1, 1);
  const { code, text } = await run("sleep");
  expect(code, text).toBe(0);
  expect(scaled()).toEqual([scaledServer(0), scaledAutoscaler(0)]);
  expect(sizes).toEqual(ASLEEP);
  expect(text).toMatch(/^system +0 +2 machines end within 15 minutes$/m);
  expect(text).toContain("documents stay on their disks");
  expect(text.replaceAll(/\s+/g, " ")).toMatch(/Asleep the stack costs at least \$0\.1\d\d an hour/);
});

test("`status` of a cluster without machines says that it sleeps, and fails", async () => {
  sizes = { ...ASLEEP };
  cluster(0, 0);
  const { code, text } = await run("status");
  expect(code).toBe(1);
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "The stack sleeps, and its cluster has no machine; `npx engine-room wake --stack fake` brings it back.",
  );
});

test("`wake` starts machines, the autoscaler and servers, and ends when all run", async () => {
  sizes = { ...ASLEEP };
  cluster(0, 1);
  const { code, text } = await run("wake");
  expect(code, text).toBe(0);
  // Machines with GPUs start when pods need them.
  expect(sizes).toEqual({ ...AWAKE, gpu: ASLEEP.gpu });
  expect(scaled()).toEqual([scaledAutoscaler(1), scaledServer(1)]);
});

const probe = async () => clusterProbe(null);

test("`up` wakes a cluster that sleeps, and changes nothing in a cluster that is awake", async () => {
  cluster(0, 1);
  expect(await wakeBefore(plan, context, probe)).toEqual([]);
  expect(kubectl.calls()).toEqual([]);
  sizes = { ...ASLEEP };
  expect(await wakeBefore(plan, context, probe)).toEqual([
    "the pool system was asleep, and starts",
    "the pool cpu was asleep, and starts",
  ]);
  expect(scaled()).toEqual([scaledAutoscaler(1)]);
});

test("`down` of a stack that sleeps starts only the controllers' machines", async () => {
  sizes = { ...ASLEEP };
  cluster(0, 1);
  expect(await wakeBefore(plan, context, probe, ["system"])).toEqual([
    "the pool system was asleep, and starts",
  ]);
  expect(sizes).toEqual({ ...ASLEEP, system: AWAKE.system });
  expect(scaled()).toEqual([]);
});

test("the first `up` of a stack finds no cluster, and nothing that sleeps", async () => {
  const noCluster = () => ({ error: "ResourceNotFoundException", status: 404 });
  await aws.close();
  aws = await startFakeAws(account({ "eks:ListNodegroups": noCluster }));
  vi.stubEnv("AWS_ENDPOINT_URL", aws.url);
  expect(await wakeBefore(plan, context, probe)).toEqual([]);
});

test("the wait for controllers that don't start ends with their names", async () => {
  cluster(1, 1, 0);
  vi.spyOn(Date, "now").mockReturnValueOnce(0).mockReturnValue(1e9);
  await expect(awaitControllers(await probe(), "fake", 0)).rejects.toThrow(
    /After 20 minutes controllers of the cluster still don't run: coredns\./,
  );
});

test("the wait for servers that don't start ends with the state of each", async () => {
  cluster(1, 0);
  vi.spyOn(Date, "now").mockReturnValueOnce(0).mockReturnValue(1e9);
  await expect(awaitServers(clusterTarget(plan, "fake"), await probe(), 0)).rejects.toThrow(
    new RegExp(`Not all of fake runs: .*${model} \\(STARTING\\)`),
  );
});
