import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { type ServerReading, sleepChanges, wakeChanges } from "../../../scripts/cluster/sleep.ts";
import { sleepReport } from "../../../scripts/cluster/sleep-report.ts";
import { clusterTarget } from "../../../scripts/program/cluster-target.ts";
import { type FakeKubectl, fakeKubectl, STACK, watch } from "./fake-kubectl.ts";

type Values = Readonly<Record<string, unknown>>;

const [LLAVA] = STACK.models;

function stackWith(model: Values, rest: Values = {}) {
  const models = [{ ...LLAVA, ...model }];
  const { plan } = checkedPlan({ ...STACK, engines: { whenFull: "stopServer" }, ...rest, models });
  if (plan.platform !== "kubernetes") throw new Error("not a stack in a cluster");
  return clusterTarget(plan, "fake").stack;
}

/** What the cluster has: pods that llava is kept at, and KEDA's annotation where it has a ScaledObject. */
const reading = (replicas: number | undefined, paused?: string | null): ServerReading => ({
  replicas: new Map(replicas === undefined ? [] : [["llava", replicas]]),
  paused: new Map(paused === undefined ? [] : [["llava", paused]]),
});

const SCALE = (to: number) => `scale deployments.apps llava --namespace engine-room --replicas ${to}`;
const PAUSE =
  "annotate scaledobjects.keda.sh llava autoscaling.keda.sh/paused-replicas=0 --overwrite --namespace engine-room";
const RESUME =
  "annotate scaledobjects.keda.sh llava autoscaling.keda.sh/paused-replicas- --namespace engine-room";

const OWNED_BY_NOBODY = { replicas: 2 };
const FROM_ZERO = { replicas: 2, minReplicas: 0 };
const FROM_ONE = { replicas: 2, minReplicas: 1 };
const HPA = { autoscaling: { mechanism: "hpa" } };

describe("sleep", () => {
  test.each([
    ["owned by nobody", OWNED_BY_NOBODY, {}, reading(2), [SCALE(0)], /^$/],
    ["owned by a HorizontalPodAutoscaler", FROM_ONE, HPA, reading(2), [SCALE(0)], /^$/],
    ["owned by KEDA", FROM_ONE, {}, reading(2, null), [PAUSE, SCALE(0)], /^$/],
    // A request would wake it otherwise.
    ["at zero by its load", FROM_ZERO, {}, reading(0, null), [PAUSE], /^$/],
    ["kept at another number by hand", FROM_ONE, {}, reading(2, "2"), [PAUSE, SCALE(0)], /was kept at 2/],
    ["paused, and not yet at zero", FROM_ONE, {}, reading(2, "0"), [SCALE(0)], /^$/],
    ["asleep", OWNED_BY_NOBODY, {}, reading(0), [], /sleeps already/],
    ["asleep by KEDA", FROM_ZERO, {}, reading(0, "0"), [], /sleeps already/],
    ["whose ScaledObject is missing", FROM_ONE, {}, reading(1), [SCALE(0)], /no ScaledObject llava/],
  ] as const)("a server %s", (_, model, rest, found, commands, note) => {
    const [change, ...others] = sleepChanges(stackWith(model, rest), found);
    expect(others).toEqual([]);
    expect(change).toMatchObject({ server: "llava", from: found.replicas.get("llava"), to: 0 });
    expect(change?.commands.map((words) => words.join(" "))).toEqual(commands);
    expect(change?.note).toMatch(note);
  });
});

describe("wake", () => {
  test.each([
    ["owned by nobody", OWNED_BY_NOBODY, {}, reading(0), 2, [SCALE(2)], /starts in about 5 min/],
    ["owned by a HorizontalPodAutoscaler", FROM_ONE, HPA, reading(0), 1, [SCALE(1)], /starts in about 5 min/],
    // KEDA itself starts none: the series of a server that is away are an error to it.
    ["of which KEDA keeps one", FROM_ONE, {}, reading(0, "0"), 1, [RESUME, SCALE(1)], /starts in/],
    ["of which KEDA keeps none", FROM_ZERO, {}, reading(0, "0"), 0, [RESUME], /^starts when it is asked/],
    ["at zero by its load", FROM_ZERO, {}, reading(0, null), 0, [], /is awake already, and starts when/],
    ["kept at a number by hand", FROM_ONE, {}, reading(2, "2"), 2, [RESUME], /follows its load again/],
    // By its load, or by hand.
    ["that runs", OWNED_BY_NOBODY, {}, reading(1), 1, [], /is awake already/],
  ] as const)("a server %s", (_, model, rest, found, to, commands, note) => {
    const [change, ...others] = wakeChanges(stackWith(model, rest), found, () => "5 min");
    expect(others).toEqual([]);
    expect(change).toMatchObject({ server: "llava", from: found.replicas.get("llava"), to });
    expect(change?.commands.map((words) => words.join(" "))).toEqual(commands);
    expect(change?.note).toMatch(note);
  });

  test("says nothing of the time where there is no estimate", () => {
    const [change] = wakeChanges(stackWith(OWNED_BY_NOBODY), reading(0), () => null);
    expect(change?.note).toBe("starts");
  });
});

test("neither changes what the cluster lacks", () => {
  const stack = stackWith(OWNED_BY_NOBODY);
  for (const changes of [
    sleepChanges(stack, reading(undefined)),
    wakeChanges(stack, reading(undefined), () => null),
  ])
    expect(changes).toEqual([
      {
        server: "llava",
        from: null,
        to: null,
        note: expect.stringContaining("is not there"),
        commands: [],
      },
    ]);
});

test("encoders that have a GPU are named as what stays", () => {
  const encoders = { device: "gpu" };
  const stack = stackWith({ replicas: 1 }, { encoders, databaseStorage: { storageClass: "disks" } });
  expect(sleepReport("fake", stack, [])).toMatch(/encoders stay, with 1 × nvidia\.com\/gpu/);
  expect(sleepReport("fake", stackWith({}), [])).not.toMatch(/encoders stay/);
});

describe("with a kubectl", () => {
  let kubectl: FakeKubectl;
  beforeEach(() => {
    kubectl = fakeKubectl();
  });
  afterEach(() => kubectl.remove());

  const deployments = (replicas: number) => ({
    items: [
      { metadata: { name: "llava" }, spec: { replicas } },
      { metadata: { name: "gateway" }, spec: { replicas: 1 } },
    ],
  });
  const changes = () =>
    kubectl
      .calls()
      .map((words) => words.filter((word) => !/^(--context|fake|--request-timeout.*)$/.test(word)).join(" "))
      .filter((words) => !words.startsWith("get "));

  test("sleep, sleep again, wake", async () => {
    const answers = { scale: "deployment.apps/llava scaled\n" };
    kubectl.answers({ ...answers, "get deployments.apps --namespace engine-room": deployments(1) });
    const first = watch(kubectl.run("sleep"));
    expect(await first.code, first.text()).toBe(0);
    expect(first.text()).toMatch(/SERVER +FROM +TO\nllava +1 +0\n/);
    expect(first.text()).toMatch(/GPUs are free for other pods/);
    expect(changes()).toEqual([SCALE(0)]);

    kubectl.answers({ ...answers, "get deployments.apps --namespace engine-room": deployments(0) });
    const second = watch(kubectl.run("sleep"));
    expect(await second.code).toBe(0);
    expect(second.text()).toMatch(/llava +0 +0 +sleeps already/);
    expect(changes()).toEqual([SCALE(0)]);

    const third = watch(kubectl.run("wake"));
    expect(await third.code).toBe(0);
    expect(third.text()).toMatch(/llava +0 +1 +starts in about \d+ (s|min)/);
    expect(third.text()).toContain("npm run status -- --stack fake");
    expect(changes()).toEqual([SCALE(0), SCALE(1)]);
  });

  test("a server that is not there", async () => {
    kubectl.answers({ "get deployments.apps": { items: [] } });
    const sleep = watch(kubectl.run("sleep"));
    expect(await sleep.code).toBe(0);
    expect(sleep.text()).toMatch(/llava +- +- +is not there/);
    const wake = watch(kubectl.run("wake"));
    expect(await wake.code).toBe(1);
    expect(changes()).toEqual([]);
  });

  test("what the cluster refuses is said in its words", async () => {
    kubectl.answers({ "get deployments.apps": deployments(1) });
    const output = watch(kubectl.run("sleep"));
    expect(await output.code).toBe(1);
    expect(output.text()).toMatch(/`kubectl scale` failed at the cluster of the context fake/);
  });

  test.each([
    ["sleep", "`npm run down -- --stack fake` ends it and keeps its documents."],
    ["wake", "`npm start -- --stack fake` brings it up."],
  ])("%s is not for a stack on this machine", async (command, instead) => {
    const output = watch(kubectl.runFor("Pulumi.local.yaml", command));
    expect(await output.code).toBe(2);
    expect(output.text()).toContain(
      `${command} is for stacks in a Kubernetes cluster or on AWS, and the stack fake has \`platform: local\`; ${instead}`,
    );
    expect(kubectl.calls()).toEqual([]);
  });
});
