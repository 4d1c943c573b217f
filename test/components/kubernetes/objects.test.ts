import { describe, expect, test } from "vitest";
import { Autoscaler } from "../../../components/kubernetes/autoscaler.ts";
import { Database } from "../../../components/kubernetes/database.ts";
import { networkPolicies } from "../../../components/kubernetes/network-policy-args.ts";
import { podTemplate } from "../../../components/kubernetes/pod-args.ts";
import { kubernetesStack } from "../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { objectLabels, podSelector } from "../../../infra/plan/kubernetes/labels.ts";
import type { AutoscalerPlan } from "../../../infra/plan/kubernetes/operations-types.ts";
import { POD_ROLES, type PodPlan } from "../../../infra/plan/kubernetes/pod-types.ts";
import type { KubernetesStack, Peer } from "../../../infra/plan/kubernetes/types.ts";
import type { Registration } from "../../../scripts/program/monitor.ts";
import { runProgram } from "../../../scripts/program/run-program.ts";
import { plannedCluster } from "../../infra/plan/aws/eks-plans.ts";
import {
  clusterPlan,
  clusterStack,
  clusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  podsOf,
} from "../../infra/plan/kubernetes/stacks.ts";
import { byName, registeredBy } from "../aws/registered.ts";
import { isAllowed, type Party, type PolicySpec } from "./policy-walk.ts";
import { restrictedViolations } from "./restricted.ts";

const placed = {
  images: lockedImages(clusterPlan({ ...clusterValues, databases: "container" })),
  imagePullSecrets: [],
  secretUids: {},
};

/** The inputs as the API gets them: nothing in them is an output here. */
interface Template {
  readonly metadata: { readonly labels: object; readonly annotations?: object };
  readonly spec: {
    readonly [key: string]: unknown;
    readonly volumes: readonly { readonly name: string; readonly [source: string]: unknown }[];
    readonly containers: readonly [
      {
        readonly [key: string]: unknown;
        readonly volumeMounts: readonly {
          readonly name: string;
          readonly mountPath: string;
          readonly readOnly?: boolean;
        }[];
      },
    ];
  };
}

const templateOf = (pod: PodPlan, options = {}) => podTemplate(pod, placed, options) as unknown as Template;

const stacks = [
  clusterStack(clusterValues),
  clusterStack({ ...clusterValues, databases: "container" }),
  clusterStack(fullValues),
  clusterStack(exampleValues("llama-2-7b-chat-kubernetes")),
];

const pods = stacks.flatMap(podsOf);

test("every pod meets the Pod Security standard restricted", () => {
  for (const pod of pods)
    expect([pod.role, restrictedViolations(templateOf(pod).spec)]).toEqual([pod.role, []]);
});

test("a pod without security context violates the Pod Security standard", () => {
  const { securityContext: _, ...bare } = templateOf(first(pods)).spec;
  expect(restrictedViolations(bare)).toEqual(["seccompProfile"]);
  expect(restrictedViolations({ ...bare, containers: [{}], hostNetwork: true })).toEqual([
    "hostNetwork",
    "allowPrivilegeEscalation",
    "runAsNonRoot",
    "seccompProfile",
    "capabilities.drop",
  ]);
  expect(restrictedViolations({ containers: [], volumes: [{ name: "a", hostPath: {} }] })).toEqual([
    "hostPath",
  ]);
});

test("every pod has a read-only root and no token of the API server", () => {
  for (const pod of pods) {
    const { spec } = templateOf(pod);
    expect(spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(spec.containers[0].securityContext).toMatchObject({ readOnlyRootFilesystem: true });
  }
});

test("every pod mounts each of its volumes once at its own path", () => {
  for (const pod of pods) {
    const { spec } = templateOf(pod);
    const own = pod.volumes.flatMap(({ name, source }) => (source.kind === "ownClaim" ? [name] : []));
    const mounts = spec.containers[0].volumeMounts;
    expect(mounts.map(({ name }) => name).sort()).toEqual(
      [...spec.volumes.map(({ name }) => name), ...own].sort(),
    );
    expect(new Set(mounts.map(({ name }) => name)).size).toBe(mounts.length);
    expect(new Set(mounts.map(({ mountPath }) => mountPath)).size).toBe(mounts.length);
  }
});

test("every pod has its image by digest", () => {
  for (const pod of pods) expect(templateOf(pod).spec.containers[0].image).toMatch(/@sha256:[0-9a-f]{64}$/);
});

test("every pod's labels match its selector", () => {
  for (const pod of pods) expect(templateOf(pod).metadata.labels).toMatchObject(pod.selector);
});

const { spec: triton } = templateOf(first(clusterStack(clusterValues).models).pod);

test("a Triton has its GPU as request and limit, and no memory limit", () => {
  expect(triton.containers[0].resources).toEqual({
    requests: { cpu: "2500m", memory: "8960Mi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "1" },
    limits: { "nvidia.com/gpu": "1" },
  });
});

test("a Triton has 10 s before its stop signal and 330 s until it is killed", () => {
  expect(triton.containers[0].lifecycle).toEqual({ preStop: { exec: { command: ["sleep", "10"] } } });
  expect(triton.terminationGracePeriodSeconds).toBe(330);
});

test("a Triton mounts the store read-only and shared memory from memory", () => {
  expect(triton.containers[0].volumeMounts).toContainEqual({
    name: "store",
    mountPath: "/store",
    readOnly: true,
  });
  expect(triton.volumes).toContainEqual({
    name: "shared-memory",
    emptyDir: { medium: "Memory", sizeLimit: "2048Mi" },
  });
});

test("a build runs once with its token in a file for its group", () => {
  const { spec } = templateOf(first(clusterStack(fullValues).builds).pod, { isTask: true });
  expect(spec.restartPolicy).toBe("Never");
  expect(spec.volumes).toContainEqual({
    name: "secret-hub-token",
    secret: { secretName: "hub-token", defaultMode: 0o440, items: [{ key: "value", path: "value" }] },
  });
  expect(spec.containers[0].volumeMounts).toContainEqual({
    name: "secret-hub-token",
    mountPath: "/run/secrets/hub-token",
    readOnly: true,
  });
});

test("a build on a time-sliced GPU has an anti-affinity to servers and other builds", () => {
  const { pod } = first(clusterStack(exampleValues("llama-2-7b-chat-kubernetes")).builds);
  expect(templateOf(pod).spec.affinity).toEqual({
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: {
            matchLabels: { "app.kubernetes.io/instance": "demo" },
            matchExpressions: [
              { key: "app.kubernetes.io/component", operator: "In", values: ["triton", "engineBuild"] },
            ],
          },
          topologyKey: "kubernetes.io/hostname",
        },
      ],
    },
  });
});

test("a pod without a given image is an error", () => {
  const { pod } = first(clusterStack(clusterValues).models);
  expect(() => podTemplate(pod, { ...placed, images: [] })).toThrow(/trtllm/);
});

const encoders = { device: "cpu", pool: "cpu" };

function onEks(retain: readonly string[]): KubernetesStack {
  const { plan } = plannedCluster({ encoders, retain });
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

/** Of the StatefulSets, by name. */
async function specs({ databases, images, imagePullSecrets }: KubernetesStack) {
  const placed = { images, imagePullSecrets, secretUids: {}, namespace: "models", after: [] };
  const made = await registeredBy(() => {
    for (const plan of databases) new Database(plan.name, { ...placed, plan });
  });
  return ["mongo-set", "vector-set"].map((name) => byName(made, name).inputs.spec as Record<string, unknown>);
}

test("disks of databases on EKS are deleted with a stack that is not retained", async () => {
  for (const spec of await specs(onEks(["another"])))
    expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({
      whenDeleted: "Delete",
      whenScaled: "Retain",
    });
});

test("disks of databases are kept for a retained stack and in an existing cluster", async () => {
  const own = clusterStack({ ...clusterValues, encoders });
  for (const stack of [onEks(["demo"]), own])
    for (const spec of await specs(stack))
      expect(Object.keys(spec)).not.toContain("persistentVolumeClaimRetentionPolicy");
});

const plan: AutoscalerPlan = {
  name: "gpt",
  labels: { "app.kubernetes.io/instance": "demo" },
  deployment: "gpt",
  mechanism: "keda",
  replicas: { min: 0, max: 4 },
  metrics: [
    {
      name: "waiting-requests",
      series: { name: "waiting", labels: { namespace: "models", service: "gpt" } },
      query: 'sum(waiting{namespace="models",service="gpt"})',
      target: 16,
      activation: 0,
    },
  ],
  prometheusUrl: "http://prometheus.monitoring.svc:9090",
  scaleDownSeconds: 300,
  schedule: null,
};

/** What one autoscaler registers, without itself. */
async function objectsOf(changes: Partial<AutoscalerPlan>): Promise<readonly Registration[]> {
  const made: Registration[] = [];
  await runProgram({
    stack: "demo",
    config: { values: {}, secretKeys: [] },
    preview: false,
    owner: {
      register: async (registration) => {
        made.push(registration);
        return { id: registration.name, outputs: registration.inputs };
      },
      registerOutputs: () => undefined,
      fail: (error) => {
        throw error;
      },
    },
    program: async () => {
      new Autoscaler("gpt-autoscaler", { plan: { ...plan, ...changes }, namespace: "models", after: [] });
      return {};
    },
  });
  return made.filter(({ type }) => type.startsWith("kubernetes:"));
}

test("a ScaledObject of KEDA has numbers as text and treats an absent series as an error", async () => {
  const [object] = await objectsOf({});
  expect(object?.type).toBe("kubernetes:keda.sh/v1alpha1:ScaledObject");
  expect(object?.inputs.spec).toMatchObject({
    minReplicaCount: 0,
    triggers: [
      {
        type: "prometheus",
        metadata: { threshold: "16", activationThreshold: "0", ignoreNullValues: "false" },
      },
    ],
  });
});

test("a schedule is a second trigger of a ScaledObject", async () => {
  const schedule = { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin", replicas: 2 };
  const [object] = await objectsOf({ schedule });
  expect(object?.inputs.spec).toMatchObject({
    triggers: [{ type: "prometheus" }, { type: "cron", metadata: { desiredReplicas: "2" } }],
  });
});

test("a HorizontalPodAutoscaler has the metrics as external ones", async () => {
  const [object] = await objectsOf({
    mechanism: "hpa",
    replicas: { min: 1, max: 4 },
    prometheusUrl: null,
  });
  expect(object?.type).toBe("kubernetes:autoscaling/v2:HorizontalPodAutoscaler");
  expect(object?.inputs.spec).toMatchObject({
    metrics: [
      {
        external: {
          metric: { name: "waiting", selector: { matchLabels: { namespace: "models", service: "gpt" } } },
          target: { type: "AverageValue", averageValue: "16" },
        },
      },
    ],
  });
});

/** All that a stack's pods could talk to, by the peers of the table that stand for it. */
function parties(
  namespace: string,
): readonly { readonly name: string; readonly party: Party; readonly peers: readonly string[] }[] {
  return [
    ...POD_ROLES.map((role) => ({
      name: role,
      party: { kind: "pod" as const, namespace, labels: objectLabels("demo", { role, model: "gpt" }) },
      peers: [role, "anyone"],
    })),
    {
      name: "a pod of another stack here",
      party: { kind: "pod", namespace, labels: objectLabels("other", { role: "gateway" }) },
      peers: ["anyone"],
    },
    { name: "a pod elsewhere", party: { kind: "pod", namespace: "default", labels: {} }, peers: ["anyone"] },
    {
      name: "a gateway elsewhere",
      party: { kind: "pod", namespace: "default", labels: objectLabels("demo", { role: "gateway" }) },
      peers: ["anyone"],
    },
    {
      name: "the resolver",
      party: { kind: "pod", namespace: "kube-system", labels: {} },
      peers: ["dns", "anyone"],
    },
    {
      name: "Prometheus",
      party: { kind: "pod", namespace: "monitoring", labels: {} },
      peers: ["monitoring", "anyone"],
    },
    {
      name: "a notebook",
      party: { kind: "pod", namespace: "notebooks", labels: {} },
      peers: ["notebooks", "anyone"],
    },
    {
      name: "the machine's cache of names",
      party: { kind: "address", address: "169.254.20.10" },
      peers: ["dns", "anyone"],
    },
    {
      name: "a server of the internet",
      party: { kind: "address", address: "203.0.113.7" },
      peers: ["internet", "anyone"],
    },
    {
      name: "a server of the internet, IPv6",
      party: { kind: "address", address: "2606:4700::1" },
      peers: ["internet", "anyone"],
    },
    {
      name: "the machine's metadata",
      party: { kind: "address", address: "169.254.169.254" },
      peers: ["anyone"],
    },
    { name: "a server of the company", party: { kind: "address", address: "10.1.2.3" }, peers: ["anyone"] },
    {
      name: "a server of the company, IPv6",
      party: { kind: "address", address: "fd00::7" },
      peers: ["anyone"],
    },
  ];
}

/** Ports of the stack, and some of nobody. */
const PORTS = [53, 80, 443, 6333, 6334, 8000, 8001, 8002, 8080, 8443, 9216, 22, 27_017];

const PROTOCOLS = ["TCP", "UDP"] as const;

function peerName(peer: Peer): string {
  if (peer.kind === "role") return peer.role;
  return peer.kind === "namespace" ? peer.namespace : peer.kind;
}

const isOurs = (name: string) => (POD_ROLES as readonly string[]).includes(name);

function policiesOf({
  edges,
}: KubernetesStack): readonly { readonly name: string; readonly spec: PolicySpec }[] {
  // Without outputs in it, what the API gets is what the types say.
  return networkPolicies(edges, podSelector("demo")) as unknown as readonly {
    name: string;
    spec: PolicySpec;
  }[];
}

describe.each([
  ["mock databases", clusterStack(clusterValues)],
  ["databases elsewhere, and images by their address", clusterStack(fullValues)],
  ["clients of Triton itself", clusterStack({ ...clusterValues, tritonClients: ["notebooks"] })],
])("a stack with %s", (_, stack) => {
  const namespace = stack.namespace.name;
  const specs = policiesOf(stack).map(({ spec }) => spec);

  test("network policies allow exactly the connections of the plan", () => {
    const wrong: string[] = [];
    let allowed = 0;
    for (const from of parties(namespace))
      for (const to of parties(namespace))
        for (const protocol of PROTOCOLS)
          for (const port of PORTS) {
            // What neither end of the stack takes part in is no business of its policies.
            if (!isOurs(from.name) && !isOurs(to.name)) continue;
            const rows = stack.edges.filter((edge) => edge.port === port && edge.protocol === protocol);
            const leaves = rows.some(
              (row) => peerName(row.from) === from.name && to.peers.includes(peerName(row.to)),
            );
            const enters = rows.some(
              (row) => peerName(row.to) === to.name && from.peers.includes(peerName(row.from)),
            );
            // Both ends have a say: a row for the gateway's clients opens no way out of another pod of the stack.
            const planned = (leaves || !isOurs(from.name)) && (enters || !isOurs(to.name));
            const found = isAllowed(specs, namespace, from.party, to.party, { port, protocol });
            if (found) allowed += 1;
            if (found !== planned)
              wrong.push(`${from.name} -> ${to.name} ${protocol} ${port}: ${found ? "open" : "refused"}`);
          }
    expect(wrong).toEqual([]);
    expect(allowed).toBeGreaterThan(stack.edges.length);
  });

  test("network policies isolate a pod without any planned connection", () => {
    const stray: Party = { kind: "pod", namespace, labels: podSelector("demo") };
    for (const { party } of parties(namespace))
      for (const port of PORTS) {
        expect(isAllowed(specs, namespace, stray, party, { port, protocol: "TCP" })).toBe(false);
        expect(isAllowed(specs, namespace, party, stray, { port, protocol: "TCP" })).toBe(false);
      }
  });
});

const reach = (stack: KubernetesStack, from: string, to: string) =>
  stack.edges
    .filter((edge) => peerName(edge.from) === from && peerName(edge.to) === to)
    .map(({ port }) => port);

test("Triton accepts the gateway, the tools and Prometheus", () => {
  const stack = clusterStack(clusterValues);
  const intoTriton = stack.edges.filter(({ to }) => peerName(to) === "triton");
  expect(intoTriton.map(({ from, port }) => `${peerName(from)} ${port}`)).toEqual([
    "gateway 8000",
    "bench 8000",
    "bench 8001",
    "smoke 8000",
    "smoke 8001",
    "monitoring 8002",
  ]);
});

test("only builds may reach the internet, and the gateway where images have hosts", () => {
  const out = (stack: KubernetesStack) =>
    stack.edges
      .filter(({ to }) => to.kind === "internet")
      .map(({ from, port }) => `${peerName(from)} ${port}`);
  expect(out(clusterStack(clusterValues))).toEqual(["engineBuild 443", "encoderBuild 443"]);
  expect(out(clusterStack(fullValues))).toEqual([
    "engineBuild 443",
    "encoderBuild 443",
    "gateway 443",
    "gateway 8443",
  ]);
});

test("the gateway may reach external databases at their ports", () => {
  expect(reach(clusterStack(fullValues), "gateway", "anyone")).toEqual([27_017, 6334]);
  expect(reach(clusterStack(clusterValues), "gateway", "mongo")).toEqual([27_017]);
});

test("a stack without encoders has no connections of encoders and databases", () => {
  const small = clusterStack({ ...clusterValues, encoders: false });
  const names = new Set(small.edges.flatMap(({ from, to }) => [peerName(from), peerName(to)]));
  for (const absent of ["encoders", "encoderBuild", "mongo", "vector"]) expect(names).not.toContain(absent);
});
