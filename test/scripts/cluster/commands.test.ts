import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { tritonEndpoints } from "../../../infra/plan/endpoints.ts";
import {
  type ServerReading,
  sleepChanges,
  sleepReport,
  wakeChanges,
} from "../../../scripts/cluster/sleep.ts";
import {
  describeWorkloads,
  isServing,
  type PodObject,
  type WorkloadObject,
} from "../../../scripts/cluster/workloads.ts";
import {
  forwards,
  kubectlForwards,
  localEndpoints,
  wantedEndpoints,
} from "../../../scripts/connect/forwards.ts";
import { clusterTarget } from "../../../scripts/program/targets.ts";
import { type FakeServers, GATEWAY_KEY, startFakeServers } from "../ask/fake-servers.ts";
import { type FakeKubectl, fakeKubectl, STACK, watch } from "./fake-kubectl.ts";

type Values = Readonly<Record<string, unknown>>;

function targetOf(values: Values = STACK) {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "kubernetes") throw new Error("not a stack in a cluster");
  return clusterTarget(plan, "fake");
}

const triton = (name: string) =>
  tritonEndpoints(`${name}.models.svc`, { http: 8000, grpc: 8001, metrics: 8002 });

const endpoints = {
  gateway: "http://gateway.models.svc:8080",
  mongo: "mongodb://mongo.models.svc:27017",
  vector: "https://vectors.example.net:6333",
  encoders: null,
  models: {
    llava: { ...triton("llava"), generate: "http://llava.models.svc:8000/v2/models/ensemble/generate" },
    gpt: { ...triton("gpt"), generate: "http://gpt.models.svc:8000/v2/models/ensemble/generate" },
  },
  gatewayReach: "cluster",
  gatewayDnsName: null,
  reach: "cluster",
} as const;

/** Claims ports: all are free except those that were claimed before. */
function claims() {
  const claimed = new Set<number>();
  return async (wanted: number) => {
    let port = wanted;
    while (claimed.has(port)) port += 10_000;
    claimed.add(port);
    return port;
  };
}

const IN_THE_CLUSTER = /\.svc:\d/;

test("`connect` forwards only the gateway unless more parts are named", async () => {
  const all = await forwards(wantedEndpoints(endpoints, [], IN_THE_CLUSTER), claims());
  expect(all.map(({ name, localAddress }) => [name, localAddress])).toEqual([
    ["gateway", "http://127.0.0.1:8080"],
  ]);
  expect(kubectlForwards(null, all).map(({ argv }) => argv.join(" "))).toEqual([
    "kubectl --namespace models port-forward --address 127.0.0.1 service/gateway 8080:8080",
  ]);
});

test("each Service has one kubectl with distinct ports, and parts outside the cluster need no kubectl", async () => {
  const grafana = { name: "grafana", address: "http://grafana.monitoring.svc:80" };
  const wanted = wantedEndpoints(endpoints, ["triton", "databases"], IN_THE_CLUSTER);
  const all = await forwards([...wanted, grafana], claims());
  expect(kubectlForwards("there", all)).toMatchObject(
    [
      ["models", "gateway", "8080:8080"],
      ["models", "llava", "8000:8000", "8001:8001", "8002:8002"],
      ["models", "gpt", "18000:8000", "18001:8001", "18002:8002"],
      ["models", "mongo", "27017:27017"],
      ["monitoring", "grafana", "80:80"],
    ].map(([namespace = "", service = "", ...pairs]) => ({
      service,
      ports: pairs.length,
      argv: [
        ...["kubectl", "--context", "there", "--namespace", namespace, "port-forward"],
        ...["--address", "127.0.0.1", `service/${service}`, ...pairs],
      ],
    })),
  );
  expect(localEndpoints(endpoints, all)).toEqual({
    ...endpoints,
    gateway: "http://127.0.0.1:8080",
    mongo: "mongodb://127.0.0.1:27017",
    models: {
      llava: {
        ...tritonEndpoints("127.0.0.1", { http: 8000, grpc: 8001, metrics: 8002 }),
        generate: "http://127.0.0.1:8000/v2/models/ensemble/generate",
      },
      gpt: {
        ...tritonEndpoints("127.0.0.1", { http: 18000, grpc: 18001, metrics: 18002 }),
        generate: "http://127.0.0.1:18000/v2/models/ensemble/generate",
      },
    },
  });
});

const [LLAVA] = STACK.models;

function stackWith(model: Values, rest: Values = {}) {
  const models = [{ ...LLAVA, ...model }];
  return targetOf({ ...STACK, engines: { whenFull: "stopServer" }, ...rest, models }).stack;
}

/** State of the cluster: replicas of llava, and KEDA's annotation if it has a ScaledObject. */
const reading = (replicas: number | undefined, paused?: string | null): ServerReading => ({
  replicas: new Map(replicas === undefined ? [] : [["llava", replicas]]),
  paused: new Map(paused === undefined ? [] : [["llava", paused]]),
});

const SCALE = (to: number) => `scale deployments.apps llava --namespace engine-room --replicas ${to}`;

const PAUSE =
  "annotate scaledobjects.keda.sh llava autoscaling.keda.sh/paused-replicas=0 --overwrite --namespace engine-room";

const RESUME =
  "annotate scaledobjects.keda.sh llava autoscaling.keda.sh/paused-replicas- --namespace engine-room";

const UNOWNED = { replicas: 2 };

const FROM_ZERO = { replicas: 2, minReplicas: 0 };

const FROM_ONE = { replicas: 2, minReplicas: 1 };

const HPA = { autoscaling: { mechanism: "hpa" } };

describe("sleep", () => {
  test.each([
    ["without an autoscaler", UNOWNED, {}, reading(2), [SCALE(0)], /^$/],
    ["owned by a HorizontalPodAutoscaler", FROM_ONE, HPA, reading(2), [SCALE(0)], /^$/],
    ["owned by KEDA", FROM_ONE, {}, reading(2, null), [PAUSE, SCALE(0)], /^$/],
    // Without a pause, a request would wake it.
    ["at zero by its load", FROM_ZERO, {}, reading(0, null), [PAUSE], /^$/],
    ["that is kept at another number by hand", FROM_ONE, {}, reading(2, "2"), [PAUSE, SCALE(0)], /^$/],
    ["that is paused and not yet at zero", FROM_ONE, {}, reading(2, "0"), [SCALE(0)], /^$/],
    ["that sleeps", UNOWNED, {}, reading(0), [], /sleeps already/],
    ["that sleeps by KEDA", FROM_ZERO, {}, reading(0, "0"), [], /sleeps already/],
    ["whose ScaledObject is missing", FROM_ONE, {}, reading(1), [SCALE(0)], /^$/],
  ] as const)("`sleep` of a server %s gives the right commands", (_, model, rest, found, commands, note) => {
    const [change, ...others] = sleepChanges(stackWith(model, rest), found);
    expect(others).toEqual([]);
    expect(change).toMatchObject({ server: "llava", from: found.replicas.get("llava"), to: 0 });
    expect(change?.commands.map((words) => words.join(" "))).toEqual(commands);
    expect(change?.note).toMatch(note);
  });
});

describe("wake", () => {
  test.each([
    ["without an autoscaler", UNOWNED, {}, reading(0), 2, [SCALE(2)], /starts in about 5 min/],
    ["owned by a HorizontalPodAutoscaler", FROM_ONE, HPA, reading(0), 1, [SCALE(1)], /starts in about 5 min/],
    // KEDA does not start it: without a server its metrics are missing, which is an error for KEDA.
    ["of which KEDA keeps one", FROM_ONE, {}, reading(0, "0"), 1, [RESUME, SCALE(1)], /starts in/],
    [
      "of which KEDA keeps none",
      FROM_ZERO,
      {},
      reading(0, "0"),
      0,
      [RESUME],
      /^starts at a request in about 5 min/,
    ],
    ["at zero by its load", FROM_ZERO, {}, reading(0, null), 0, [], /^starts at a request/],
    ["that is kept at a number by hand", FROM_ONE, {}, reading(2, "2"), 2, [RESUME], /is awake already/],
    // It was started by its load, or by a user.
    ["that runs", UNOWNED, {}, reading(1), 1, [], /is awake already/],
  ] as const)(
    "`wake` of a server %s gives the right commands",
    (_, model, rest, found, to, commands, note) => {
      const [change, ...others] = wakeChanges(stackWith(model, rest), found, new Map([["llava", 300]]));
      expect(others).toEqual([]);
      expect(change).toMatchObject({ server: "llava", from: found.replicas.get("llava"), to });
      expect(change?.commands.map((words) => words.join(" "))).toEqual(commands);
      expect(change?.note).toMatch(note);
    },
  );

  test('a woken server without a time estimate just "starts"', () => {
    const [change] = wakeChanges(stackWith(UNOWNED), reading(0), new Map());
    expect(change?.note).toBe("starts");
  });
});

test("`sleep` and `wake` change no server that the cluster lacks", () => {
  const stack = stackWith(UNOWNED);
  for (const changes of [
    sleepChanges(stack, reading(undefined)),
    wakeChanges(stack, reading(undefined), new Map()),
  ])
    expect(changes).toEqual([
      {
        server: "llava",
        from: null,
        to: null,
        note: expect.stringContaining("does not exist"),
        commands: [],
      },
    ]);
});

test("the report of `sleep` names encoders that keep a GPU", () => {
  const encoders = { device: "gpu" };
  const stack = stackWith({ replicas: 1 }, { encoders, databaseStorage: { storageClass: "disks" } });
  expect(sleepReport("fake", stack, [])).toMatch(/encoders keep 1 × nvidia\.com\/gpu/);
  expect(sleepReport("fake", stackWith({}), [])).not.toMatch(/encoders keep/);
});

const { stack } = targetOf();

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

test.each([
  [
    "a stack with all its workloads serves",
    [ended("Complete"), llava(1), gateway],
    [],
    ["DONE", "RUNNING", "RUNNING"],
    true,
  ],
  ["workloads that the cluster lacks are missing", [], [], ["MISSING", "MISSING", "MISSING"], false],
  [
    "a model at zero replicas sleeps, and its stack serves",
    [ended("Complete"), llava(0, 0), gateway],
    [],
    ["DONE", "SLEEPING", "RUNNING"],
    true,
  ],
  [
    "a gateway at zero replicas is stopped, and its stack does not serve",
    [ended("Complete"), llava(1), workload("Deployment", "gateway", {}, 0)],
    [],
    ["DONE", "RUNNING", "STOPPED"],
    false,
  ],
  [
    "a model without ready pods starts",
    [ended("Complete"), llava(0), gateway],
    [],
    ["DONE", "STARTING", "RUNNING"],
    false,
  ],
  [
    "a model whose container is being created starts",
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
    "the build of another engine is unplanned",
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
  // Only a user scales it so.
  [1, null, "SLEEPING"],
] as const)(
  "a server at zero replicas with minReplicas %s and KEDA's annotation %s is %s",
  (minReplicas, annotation, state) => {
    const { models, ...rest } = STACK;
    const { stack: scaled } = targetOf({
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
  },
);

test("a failed build is reported with the Job's own message", () => {
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
])("a pod's status %j gives the reason %s after %s restarts", (status, why, restarts) => {
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

describe("with a kubectl", () => {
  let kubectl: FakeKubectl;
  beforeEach(() => {
    kubectl = fakeKubectl();
  });
  afterEach(() => kubectl.remove());

  describe("and a gateway behind it", () => {
    let servers: FakeServers;
    beforeEach(async () => {
      servers = await startFakeServers();
      kubectl.targets({ "engine-room/gateway:8080": Number(new URL(servers.url).port) });
    });
    afterEach(() => servers.close());

    const isAlive = (pid: number) => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    };

    test("`connect` forwards the gateway, forwards it again after a lost pod, and ends its kubectl on Ctrl-C", async () => {
      const child = kubectl.start("connect");
      const output = watch(child);
      await output.saw(/Ctrl-C ends it/);
      const url =
        /gateway +(http:\/\/127\.0\.0\.1:\d+)/.exec(output.text())?.[1] ?? expect.fail(output.text());
      const answer = () =>
        fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          body: "{}",
          headers: { authorization: `Bearer ${GATEWAY_KEY}`, connection: "close" },
        }).then(({ status }) => status);
      expect(await answer()).toBe(200);

      process.kill(kubectl.pids("gateway")[0] ?? expect.fail("no forward was started"), "SIGKILL");
      await output.saw(/gateway: forwarded again/);
      expect(await answer()).toBe(200);

      child.kill("SIGINT");
      expect(await output.code).toBe(0);
      expect(kubectl.pids("gateway")).toHaveLength(2);
      expect(kubectl.pids("gateway").filter(isAlive)).toEqual([]);
    });

    test("`ask` forwards the gateway and ends the forward afterwards", async () => {
      await kubectl.run("ask", "--text", "What is the capital of France?");
      expect(servers.asked.map(({ path }) => path)).toEqual(["/v1/chat/completions"]);
      expect(kubectl.pids("gateway")).toHaveLength(1);
      expect(kubectl.pids("gateway").filter(isAlive)).toEqual([]);
    });

    test("`connect` reports a missing Service with kubectl's error", async () => {
      kubectl.targets({});
      const output = await kubectl.run("connect");
      expect(output.code).toBe(1);
      expect(output.text).toMatch(/^The Service gateway can't be forwarded: .*NotFound.*"gateway"/);
    });

    test.each([["connect"], ["smoke"], ["ask", "What is the capital of France?"], ["status"]])(
      "`%s` says that kubectl has no access to the cluster",
      async (...words) => {
        kubectl.says(
          "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        );
        const output = await kubectl.run(...words);
        expect(output.code).toBe(1);
        expect(output.text).toMatch(
          /^kubectl has no access to the cluster of the context fake\. .*refused.*\nTry `kubectl version`; .*\n$/,
        );
      },
    );

    test("`connect --dry-run --json` prints addresses and commands as an object, and forwards nothing", async () => {
      const output = await kubectl.run("connect", "--dry-run", "--json");
      expect(output.code).toBe(0);
      expect(JSON.parse(output.text)).toMatchObject({
        addresses: [{ name: "gateway", localAddress: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) }],
        commands: [expect.arrayContaining(["port-forward"])],
      });
      expect(kubectl.pids("gateway")).toEqual([]);
    });

    test("`connect` lists its parts when asked for an unknown part", async () => {
      const output = await kubectl.run("connect", "everything");
      expect(output.code).toBe(2);
      expect(output.text).toContain("triton, databases, grafana");
    });
  });

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

  test("`sleep` scales a server to zero, a second `sleep` changes nothing, and `wake` scales it back", async () => {
    const answers = { scale: "deployment.apps/llava scaled\n" };
    kubectl.answers({ ...answers, "get deployments.apps --namespace engine-room": deployments(1) });
    const first = await kubectl.run("sleep");
    expect(first.code, first.text).toBe(0);
    expect(first.text).toMatch(/SERVER +FROM +TO\nllava +1 +0\n/);
    expect(first.text).toMatch(/GPUs, cores and memory are free for other pods/);
    expect(changes()).toEqual([SCALE(0)]);

    kubectl.answers({ ...answers, "get deployments.apps --namespace engine-room": deployments(0) });
    const second = await kubectl.run("sleep");
    expect(second.code).toBe(0);
    expect(second.text).toMatch(/llava +0 +0 +sleeps already/);
    expect(changes()).toEqual([SCALE(0)]);

    const third = await kubectl.run("wake");
    expect(third.code).toBe(0);
    expect(third.text).toMatch(/llava +0 +1 +starts in about \d+ (s|min)/);
    expect(third.text).toContain("npx engine-room status --stack fake");
    expect(changes()).toEqual([SCALE(0), SCALE(1)]);
  });

  test("`sleep` of a missing server succeeds, and `wake` of it fails", async () => {
    kubectl.answers({ "get deployments.apps": { items: [] } });
    const sleep = await kubectl.run("sleep");
    expect(sleep.code).toBe(0);
    expect(sleep.text).toMatch(/llava +- +- +does not exist/);
    const wake = await kubectl.run("wake", "--json");
    expect(wake.code).toBe(1);
    expect(wake.text).toContain('"isComplete": false');
    expect(changes()).toEqual([]);
  });

  test("a refused `kubectl scale` is reported", async () => {
    kubectl.answers({ "get deployments.apps": deployments(1) });
    const output = await kubectl.run("sleep");
    expect(output.code).toBe(1);
    expect(output.text).toMatch(/`kubectl scale` failed at the cluster of the context fake/);
  });

  test.each([
    ["sleep", "`npx engine-room down --stack fake` ends it and keeps its documents."],
    ["wake", "`npx engine-room start --stack fake` brings it up."],
  ])("`%s` is refused for a stack on this machine", async (command, instead) => {
    const output = await kubectl.runFor("Pulumi.local.yaml", command);
    expect(output.code).toBe(2);
    expect(output.text).toContain(
      `${command} is for stacks in a Kubernetes cluster or on AWS, and the stack fake has \`platform: local\`; ${instead}`,
    );
    expect(kubectl.calls()).toEqual([]);
  });

  const SELECTOR = "--selector app.kubernetes.io/instance=fake,app.kubernetes.io/name=engine-room";

  test("`status` lists workloads with their states, and fails while a model starts", async () => {
    kubectl.answers({
      [`get deployments.apps,statefulsets.apps,jobs.batch --namespace engine-room ${SELECTOR} --output json`]:
        {
          items: [ended("Complete"), llava(0), gateway],
        },
      [`get pods --namespace engine-room ${SELECTOR} --output json`]: { items: [] },
    });
    const output = await kubectl.run("status");
    expect(output.code).toBe(1);
    expect(output.text).toMatch(new RegExp(`${build} +DONE +Job\\n`));
    expect(output.text).toMatch(/llava +STARTING +Deployment +0 of 1 ready/);
  });

  test("`status` of a sleeping stack names `wake` and succeeds", async () => {
    kubectl.answers({
      "get deployments.apps,statefulsets.apps,jobs.batch": {
        items: [ended("Complete"), llava(0, 0), gateway],
      },
      "get pods": { items: [] },
    });
    const output = await kubectl.run("status");
    expect(output.code).toBe(0);
    expect(output.text).toMatch(/llava +SLEEPING +Deployment +0 of 0 ready/);
    expect(output.text).toContain("1 server sleeps; `npx engine-room wake --stack fake` brings it back.");
  });

  test("`logs` prints the log of a server's pods", async () => {
    kubectl.answers({
      "logs --namespace engine-room --tail 5 --prefix --selector app.kubernetes.io/component=triton,":
        "[pod] ready\n",
    });
    const server = watch(kubectl.start("logs", "llava", "--lines", "5"));
    expect(await server.code).toBe(0);
    expect(server.text()).toContain("[pod] ready");
  });

  test("`logs --follow` of a build asks for its Job", async () => {
    // It prints nothing: kubectl writes to this process's own output.
    kubectl.answers({ [`logs --namespace engine-room --tail 100 --follow job/${build}`]: "" });
    expect(await kubectl.run("logs", build, "--follow")).toEqual({ code: 0, text: "" });
  });
});
