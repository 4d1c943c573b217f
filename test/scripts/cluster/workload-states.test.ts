import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import {
  describeWorkloads,
  isServing,
  type PodObject,
  type WorkloadObject,
} from "../../../scripts/cluster/workload-states.ts";
import { clusterTarget } from "../../../scripts/program/cluster-target.ts";
import { type FakeKubectl, fakeKubectl, STACK, watch } from "./fake-kubectl.ts";

function stackOf(values: Readonly<Record<string, unknown>> = STACK) {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "kubernetes") throw new Error("not a stack in a cluster");
  return clusterTarget(plan, "fake").stack;
}
const stack = stackOf();
const build = stack.builds[0]?.name ?? "";

const workload = (
  kind: WorkloadObject["kind"],
  name: string,
  status: WorkloadObject["status"] = {},
  replicas?: number,
): WorkloadObject => ({
  kind,
  metadata: { name },
  spec: replicas === undefined ? {} : { replicas },
  status,
});
const ended = (type: string, message = "") =>
  workload("Job", build, { conditions: [{ type, status: "True", message }] });
const llava = (readyReplicas: number, replicas = 1) =>
  workload("Deployment", "llava", { readyReplicas }, replicas);
const gateway = workload("Deployment", "gateway", { readyReplicas: 1 }, 1);
const podOf = (status: NonNullable<PodObject["status"]>): PodObject => ({
  metadata: { labels: { ...stack.models[0]?.pod.selector } },
  status,
});

describe("states from what the cluster has", () => {
  test.each([
    ["all of it", [ended("Complete"), llava(1), gateway], [], ["DONE", "RUNNING", "RUNNING"], true],
    ["nothing", [], [], ["MISSING", "MISSING", "MISSING"], false],
    [
      "a model that was put to sleep",
      [ended("Complete"), llava(0, 0), gateway],
      [],
      ["DONE", "SLEEPING", "RUNNING"],
      true,
    ],
    [
      "a gateway that somebody scaled to zero",
      [ended("Complete"), llava(1), workload("Deployment", "gateway", {}, 0)],
      [],
      ["DONE", "RUNNING", "STOPPED"],
      false,
    ],
    [
      "a model that loads",
      [ended("Complete"), llava(0), gateway],
      [],
      ["DONE", "STARTING", "RUNNING"],
      false,
    ],
    [
      "a container that is being made",
      [ended("Complete"), llava(0), gateway],
      [
        podOf({
          containerStatuses: [{ restartCount: 0, state: { waiting: { reason: "ContainerCreating" } } }],
        }),
      ],
      ["DONE", "STARTING", "RUNNING"],
      false,
    ],
    [
      "another engine's build",
      [ended("Complete"), llava(1), gateway, workload("Job", "llava-old")],
      [],
      ["DONE", "RUNNING", "RUNNING", "UNPLANNED"],
      true,
    ],
  ] as const)("%s", (_, workloads, pods, states, serves) => {
    const found = describeWorkloads(stack, { workloads, pods, paused: new Map() });
    expect(found.map(({ state }) => state)).toEqual(states);
    expect(isServing(found)).toBe(serves);
  });

  test.each([
    [0, "0", "SLEEPING"],
    [0, null, "IDLE"],
    // Nothing but a hand does it.
    [1, null, "SLEEPING"],
  ] as const)("at zero, with minReplicas %s and KEDA's annotation %s", (minReplicas, annotation, state) => {
    const { models, ...rest } = STACK;
    const scaled = stackOf({
      ...rest,
      engines: { whenFull: "stopServer" },
      models: models.map((model) => ({ ...model, replicas: 2, minReplicas })),
    });
    const found = describeWorkloads(scaled, {
      workloads: [ended("Complete"), llava(0, 0), gateway],
      pods: [],
      paused: new Map([["llava", annotation]]),
    });
    expect(found.find(({ name }) => name === "llava")).toMatchObject({ state });
    expect(isServing(found)).toBe(true);
  });

  test("a failed build has the Job's own words", () => {
    expect(
      describeWorkloads(stack, {
        workloads: [ended("Failed", "Job was active longer than specified deadline")],
        pods: [],
        paused: new Map(),
      })[0],
    ).toEqual({
      name: build,
      kind: "Job",
      state: "FAILED",
      pods: null,
      restarts: 0,
      why: "Job was active longer than specified deadline",
    });
  });

  test.each([
    [
      {
        conditions: [
          { type: "PodScheduled", status: "False", message: "0/3 nodes: Insufficient nvidia.com/gpu" },
        ],
      },
      "0/3 nodes: Insufficient nvidia.com/gpu",
      0,
    ],
    [
      {
        containerStatuses: [
          { restartCount: 4, state: { waiting: { reason: "CrashLoopBackOff", message: "back-off" } } },
        ],
      },
      "CrashLoopBackOff: back-off",
      4,
    ],
  ])("a pod that does not start says why: %j", (status, why, restarts) => {
    const found = describeWorkloads(stack, {
      workloads: [llava(0)],
      pods: [podOf(status)],
      paused: new Map(),
    });
    expect(found.find(({ name }) => name === "llava")).toEqual({
      name: "llava",
      kind: "Deployment",
      state: "WAITING",
      pods: { ready: 0, wanted: 1 },
      restarts,
      why,
    });
  });
});

describe("with a kubectl", () => {
  let kubectl: FakeKubectl;
  beforeEach(() => {
    kubectl = fakeKubectl();
  });
  afterEach(() => kubectl.remove());
  const SELECTOR = "--selector app.kubernetes.io/instance=fake,app.kubernetes.io/name=engine-room";

  test("status", async () => {
    kubectl.answers({
      [`get deployments.apps,statefulsets.apps,jobs.batch --namespace engine-room ${SELECTOR} --output json`]:
        {
          items: [ended("Complete"), llava(0), gateway],
        },
      [`get pods --namespace engine-room ${SELECTOR} --output json`]: { items: [] },
    });
    const output = watch(kubectl.run("status"));
    expect(await output.code).toBe(1);
    expect(output.text()).toMatch(new RegExp(`${build} +DONE +Job\\n`));
    expect(output.text()).toMatch(/llava +STARTING +Deployment +0 of 1 ready/);
  });

  test("status of a stack that sleeps names what wakes it, and is no failure", async () => {
    kubectl.answers({
      "get deployments.apps,statefulsets.apps,jobs.batch": {
        items: [ended("Complete"), llava(0, 0), gateway],
      },
      "get pods": { items: [] },
    });
    const output = watch(kubectl.run("status"));
    expect(await output.code).toBe(0);
    expect(output.text()).toMatch(/llava +SLEEPING +Deployment +0 of 0 ready/);
    expect(output.text()).toContain("1 server sleeps; `npm run wake -- --stack fake` brings it back.");
  });

  test("logs of a server's pods, and of a build", async () => {
    kubectl.answers({
      "logs --namespace engine-room --tail 5 --prefix --selector app.kubernetes.io/component=triton,":
        "[pod] ready\n",
      [`logs --namespace engine-room --tail 100 --follow job/${build}`]: "built\n",
    });
    const server = watch(kubectl.run("logs", "llava", "--lines", "5"));
    expect(await server.code).toBe(0);
    expect(server.text()).toContain("[pod] ready");
    const job = watch(kubectl.run("logs", build, "--follow"));
    expect(await job.code).toBe(0);
    expect(job.text()).toContain("built");
  });
});
