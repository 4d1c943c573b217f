import { describe, expect, test } from "vitest";
import { type KubernetesStack, kubernetesStack } from "../../../../infra/plan/kubernetes/kubernetes-stack.ts";
import { type NetworkEdge, networkEdges, type Peer } from "../../../../infra/plan/kubernetes/network.ts";
import { objectLabels, POD_ROLES, podSelector } from "../../../../infra/plan/kubernetes/objects.ts";
import type { PodPlan } from "../../../../infra/plan/kubernetes/pods.ts";
import { plannedCluster } from "../aws/eks-plans.ts";
import { isAllowed, type Party, type PolicySpec } from "./policy-walk.ts";
import { restrictedViolations } from "./restricted.ts";
import {
  clusterPlan,
  clusterStack,
  clusterValues,
  containerOf,
  cpuClusterValues,
  exampleValues,
  first,
  fullValues,
  lockedImages,
  podsOf,
  type Values,
} from "./stacks.ts";

const specOf = ({ template }: PodPlan) => template.spec ?? { containers: [] };

const stacks = [
  clusterStack(clusterValues),
  clusterStack({ ...clusterValues, databases: "container" }),
  clusterStack(fullValues),
  clusterStack(exampleValues("llama-2-7b-chat-kubernetes")),
];

const pods = stacks.flatMap(podsOf);

/** Names of volumes that StatefulSets create. */
const claimTemplates = new Map(
  stacks
    .flatMap(({ databases }) => databases)
    .map(({ pod, statefulSet }) => [
      pod,
      statefulSet.spec?.volumeClaimTemplates?.map(({ metadata }) => metadata?.name) ?? [],
    ]),
);

test("every pod meets the Pod Security standard restricted", () => {
  for (const pod of pods)
    expect([pod.role, restrictedViolations({ ...specOf(pod) })]).toEqual([pod.role, []]);
});

test("a pod without security context violates the Pod Security standard", () => {
  const { securityContext: _, ...bare } = specOf(first(pods));
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
    expect(specOf(pod)).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(containerOf(pod).securityContext).toMatchObject({ readOnlyRootFilesystem: true });
  }
});

test("every pod mounts each of its volumes once at its own path", () => {
  for (const pod of pods) {
    const own = claimTemplates.get(pod) ?? [];
    const mounts = containerOf(pod).volumeMounts ?? [];
    const volumes = specOf(pod).volumes?.map(({ name }) => name) ?? [];
    expect(mounts.map(({ name }) => name).sort()).toEqual([...volumes, ...own].sort());
    expect(new Set(mounts.map(({ name }) => name)).size).toBe(mounts.length);
    expect(new Set(mounts.map(({ mountPath }) => mountPath)).size).toBe(mounts.length);
  }
});

test("every pod has its image by digest", () => {
  for (const pod of pods) expect(containerOf(pod).image).toMatch(/@sha256:[0-9a-f]{64}$/);
});

test("every pod's labels match its selector", () => {
  for (const { template, selector } of pods) expect(template.metadata?.labels).toMatchObject(selector);
});

const { pod: triton } = first(clusterStack(clusterValues).models);

test("a Triton has its GPU as request and limit, and no memory limit", () => {
  expect(containerOf(triton).resources).toEqual({
    requests: { cpu: "2500m", memory: "8960Mi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "1" },
    limits: { "nvidia.com/gpu": "1" },
  });
});

test("a Triton has 10 s before its stop signal and 330 s until it is killed", () => {
  expect(containerOf(triton).lifecycle).toEqual({ preStop: { exec: { command: ["sleep", "10"] } } });
  expect(specOf(triton).terminationGracePeriodSeconds).toBe(330);
});

test("a Triton mounts the store read-only and shared memory from memory", () => {
  expect(containerOf(triton).volumeMounts).toContainEqual({
    name: "store",
    mountPath: "/store",
    readOnly: true,
  });
  expect(specOf(triton).volumes).toContainEqual({
    name: "shared-memory",
    emptyDir: { medium: "Memory", sizeLimit: "2048Mi" },
  });
});

test("a build runs once with its token in a file for its group", () => {
  const { pod } = first(clusterStack(fullValues).builds);
  const spec = specOf(pod);
  expect(spec.restartPolicy).toBe("Never");
  expect(spec.volumes).toContainEqual({
    name: "secret-hub-token",
    secret: { secretName: "hub-token", defaultMode: 0o440, items: [{ key: "value", path: "value" }] },
  });
  expect(containerOf(pod).volumeMounts).toContainEqual({
    name: "secret-hub-token",
    mountPath: "/run/secrets/hub-token",
    readOnly: true,
  });
});

test("a pod without a given image is an error", () => {
  const plan = clusterPlan(clusterValues);
  expect(() => kubernetesStack(plan, { stack: "demo", images: [] })).toThrow(/image trtllm/);
});

const encoders = { device: "cpu", pool: "cpu" };

function onEks(retain: readonly string[]): KubernetesStack {
  const { plan } = plannedCluster({ encoders, retain });
  return kubernetesStack(plan, { stack: "demo", images: lockedImages(plan) });
}

const claimPoliciesOf = ({ databases }: KubernetesStack) =>
  databases.map(({ statefulSet }) => statefulSet.spec?.persistentVolumeClaimRetentionPolicy);

test("disks of databases on EKS are deleted with a stack that is not retained", () => {
  const deleted = { whenDeleted: "Delete", whenScaled: "Retain" };
  expect(claimPoliciesOf(onEks(["another"]))).toEqual([deleted, deleted]);
});

test("disks of databases are kept for a retained stack and in an existing cluster", () => {
  const own = clusterStack({ ...clusterValues, encoders });
  for (const stack of [onEks(["demo"]), own]) expect(claimPoliciesOf(stack)).toEqual([undefined, undefined]);
});

/** A model that an autoscaler scales from 0 to 2 replicas. */
const scaledValues = {
  ...cpuClusterValues,
  models: [{ ...cpuClusterValues.models[0], replicas: 2, minReplicas: 0 }],
};

const autoscalerOf = (values: Values) => first(clusterStack({ ...scaledValues, ...values }).autoscalers);

test("a ScaledObject of KEDA has numbers as text and treats an absent series as an error", () => {
  expect(autoscalerOf({}).object).toMatchObject({
    apiVersion: "keda.sh/v1alpha1",
    kind: "ScaledObject",
    spec: {
      scaleTargetRef: { name: "smollm2" },
      minReplicaCount: 0,
      maxReplicaCount: 2,
      triggers: [
        {
          type: "prometheus",
          metadata: {
            threshold: expect.stringMatching(/^\d+$/),
            activationThreshold: "0",
            ignoreNullValues: "false",
          },
        },
      ],
    },
  });
});

test("a schedule is a second trigger of a ScaledObject", () => {
  const schedule = { start: "0 8 * * 1-5", end: "0 20 * * 1-5", timeZone: "Europe/Berlin", replicas: 2 };
  expect(autoscalerOf({ schedule }).object.spec).toMatchObject({
    triggers: [
      { type: "prometheus" },
      {
        type: "cron",
        metadata: {
          timezone: "Europe/Berlin",
          start: "0 8 * * 1-5",
          end: "0 20 * * 1-5",
          desiredReplicas: "2",
        },
      },
    ],
  });
});

test("a HorizontalPodAutoscaler has the metrics as external metrics", () => {
  const { mechanism, metrics, object } = autoscalerOf({
    models: [{ ...cpuClusterValues.models[0], replicas: 4, minReplicas: 1 }],
    autoscaling: { mechanism: "hpa" },
  });
  const { series, target } = first(metrics);
  expect(mechanism).toBe("hpa");
  expect(object.spec).toMatchObject({
    scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "smollm2" },
    minReplicas: 1,
    maxReplicas: 4,
    metrics: [
      {
        external: {
          metric: { name: series.name, selector: { matchLabels: series.labels } },
          target: { type: "AverageValue", averageValue: String(target) },
        },
      },
    ],
  });
});

/** All possible ends of connections of a stack's pods, with their peers in the table. */
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

/** Ports of the stack, and others. */
const PORTS = [53, 80, 443, 6333, 6334, 8000, 8001, 8002, 8080, 8443, 9216, 22, 27_017];

const PROTOCOLS = ["TCP", "UDP"] as const;

function peerName(peer: Peer): string {
  return typeof peer === "string" ? peer : peer.namespace;
}

const isOurs = (name: string) => (POD_ROLES as readonly string[]).includes(name);

describe.each([
  ["mock databases", clusterValues],
  ["databases elsewhere, and images by their address", fullValues],
  ["clients of Triton itself", { ...clusterValues, tritonClients: ["notebooks"] }],
])("a stack with %s", (_, values) => {
  const edges = edgesOf(values);
  const { namespace: planned, policies } = clusterStack(values);
  const namespace = planned.name;
  const specs = policies.map(({ policy }) => policy.spec as PolicySpec);

  test("network policies allow exactly the connections of the plan", () => {
    const wrong: string[] = [];
    let allowed = 0;
    for (const from of parties(namespace))
      for (const to of parties(namespace))
        for (const protocol of PROTOCOLS)
          for (const port of PORTS) {
            // The stack's policies do not apply if neither end is of the stack.
            if (!isOurs(from.name) && !isOurs(to.name)) continue;
            const rows = edges.filter((edge) => edge.port === port && edge.protocol === protocol);
            const leaves = rows.some(
              (row) => peerName(row.from) === from.name && to.peers.includes(peerName(row.to)),
            );
            const enters = rows.some(
              (row) => peerName(row.to) === to.name && from.peers.includes(peerName(row.from)),
            );
            // Both ends must allow it: a row for the gateway's clients lets no other pod of the stack send.
            const planned = (leaves || !isOurs(from.name)) && (enters || !isOurs(to.name));
            const found = isAllowed(specs, namespace, from.party, to.party, { port, protocol });
            if (found) allowed += 1;
            if (found !== planned)
              wrong.push(`${from.name} -> ${to.name} ${protocol} ${port}: ${found ? "open" : "refused"}`);
          }
    expect(wrong).toEqual([]);
    expect(allowed).toBeGreaterThan(edges.length);
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

function edgesOf(values: Values): readonly NetworkEdge[] {
  return networkEdges(clusterPlan(values));
}

test("Triton accepts the gateway, the tools and Prometheus", () => {
  const intoTriton = edgesOf(clusterValues).filter(({ to }) => to === "triton");
  expect(intoTriton.map(({ from, port }) => `${peerName(from)} ${port}`)).toEqual([
    "gateway 8000",
    "bench 8000",
    "bench 8001",
    "smoke 8000",
    "smoke 8001",
    "monitoring 8002",
  ]);
});

test("only builds may reach the internet, and the gateway if images have hosts", () => {
  const out = (values: Values) =>
    edgesOf(values)
      .filter(({ to }) => to === "internet")
      .map(({ from, port }) => `${peerName(from)} ${port}`);
  expect(out(clusterValues)).toEqual(["engineBuild 443", "encoderBuild 443"]);
  expect(out(fullValues)).toEqual(["engineBuild 443", "encoderBuild 443", "gateway 443", "gateway 8443"]);
});

test("the gateway may reach external databases at their ports", () => {
  const portsTo = (values: Values, peer: Peer) =>
    edgesOf(values)
      .filter(({ from, to }) => from === "gateway" && to === peer)
      .map(({ port }) => port);
  expect(portsTo(fullValues, "anyone")).toEqual([27_017, 6334]);
  expect(portsTo(clusterValues, "mongo")).toEqual([27_017]);
});

test("a stack without encoders has no connections of encoders and databases", () => {
  const small = edgesOf({ ...clusterValues, encoders: false });
  const names = new Set(small.flatMap(({ from, to }) => [from, to]));
  for (const absent of ["encoders", "encoderBuild", "mongo", "vector"] as const)
    expect(names).not.toContain(absent);
});
