import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import type { ClusterImage } from "../../../infra/plan/images.ts";
import type { KubernetesStack } from "../../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ManifestAnswer } from "../../../scripts/images/registry.ts";
import { clusterPreflight } from "../../../scripts/preflight/cluster.ts";
import { amounts } from "../../../scripts/preflight/cluster-machines.ts";
import { checkTable, type Finding } from "../../../scripts/preflight/finding.ts";
import { clusterImageFindings } from "../../../scripts/preflight/images.ts";
import { clusterTarget } from "../../../scripts/program/targets.ts";
import { type FakeCluster, fakeClusterProbe, node } from "./fake-cluster.ts";

type Values = Readonly<Record<string, unknown>>;

const l40s = (gpus: string, labels = {}, more = {}) =>
  node("gpu-0", {
    allocatable: { "nvidia.com/gpu": gpus },
    labels: { "nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068", ...labels },
    taints: [{ key: "nvidia.com/gpu", effect: "NoSchedule" }],
    ...more,
  });

const CPU = node("cpu-0");

const NFS = { metadata: { name: "nfs-client" }, provisioner: "nfs.csi.k8s.io" };

const STANDARD = {
  metadata: {
    name: "standard",
    annotations: { "storageclass.kubernetes.io/is-default-class": "true" },
  },
  provisioner: "ebs.csi.aws.com",
};

const stack: Values = {
  platform: "kubernetes",
  engineStore: { storageClass: "nfs-client", sizeGiB: 200 },
  pools: [
    {
      name: "gpu",
      machine: { gpu: "L40S", gpus: 2, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 },
      nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-L40S" },
    },
  ],
  models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava" }],
};

const scaled: Values = {
  ...stack,
  engines: { whenFull: "stopServer" },
  models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava", replicas: 2, minReplicas: 1 }],
};

const METRICS = "external.metrics.k8s.io/v1beta1";

const KEDA = { "keda.sh/v1alpha1": ["ScaledObject"], [METRICS]: ["ExternalMetricValueList"] };

/** A GPU that is shared by two pods, one of which builds. */
const sharedIn = (mode: "timeSlicing" | "mps"): Values => ({
  ...stack,
  encoders: false,
  engines: { whenFull: "stopServer" },
  pools: [
    {
      name: "gpu",
      machine: { gpu: "L40S", gpus: 1, vcpus: 32, memoryGiB: 128, networkMbps: 10_000 },
      nodeSelector: { "nvidia.com/gpu.product": "NVIDIA-L40S" },
      sharing: { mode, replicas: 2 },
    },
  ],
});

const onCpus: Values = {
  platform: "kubernetes",
  tier: "cpu",
  models: [{ name: "smollm2", model: "smollm2-135m-instruct" }],
};

const named: Values = {
  ...stack,
  engineStore: { existingClaim: "store" },
  hub: { tokenSecret: { name: "hub", key: "token" } },
  images: { pullSecrets: ["pull"] },
};

const healthy: FakeCluster = {
  lists: { nodes: [l40s("2"), CPU], storageclasses: [NFS, STANDARD] },
};

const withNode = (...nodes: readonly Values[]): FakeCluster => ({
  lists: { ...healthy.lists, nodes: [...nodes, CPU] },
});

const pod = (namespace: string, requests: Values, labels: Values = {}) => ({
  metadata: { name: "p", namespace, labels },
  spec: { nodeName: "gpu-0", containers: [{ resources: { requests } }] },
});

const claimThere = ({ storage = "200Gi", ...spec }: Values = {}): FakeCluster => ({
  lists: {
    ...healthy.lists,
    persistentvolumeclaims: [
      {
        metadata: { name: "engine-store" },
        spec: {
          storageClassName: "nfs-client",
          accessModes: ["ReadWriteMany"],
          resources: { requests: { storage } },
          volumeName: "pvc-1",
          ...spec,
        },
        status: { phase: "Bound" },
      },
    ],
  },
});

const volume = (phase: string, storageClassName: string, claimRef?: Values) => ({
  spec: { storageClassName, ...(claimRef === undefined ? {} : { claimRef }) },
  status: { phase },
});

/** kubectl's error. */
const noKind = (kind: string, version: string) =>
  `resource mapping not found for name: "x" namespace: "engine-room" from "STDIN": no matches for kind "${kind}" in version "${version}"\nensure CRDs are installed first`;

const OWN = { "app.kubernetes.io/instance": "room", "app.kubernetes.io/name": "engine-room" };

/** Findings, without those of the lock file and registries, which other tests have. */
async function findings(cluster: FakeCluster, values: Values = stack): Promise<readonly Finding[]> {
  const { plan } = checkedPlan(values);
  if (plan.platform !== "kubernetes") throw new Error("not a stack in a cluster");
  const target = { ...clusterTarget(plan, "room"), imageProblems: [] };
  const checks = await clusterPreflight(
    target,
    fakeClusterProbe(cluster, plan.cluster.context),
    async () => ({
      kind: "present",
    }),
  );
  return checks.flatMap((check) => check.findings);
}

test.each([
  ["machines and a storage class", healthy, stack],
  [
    "the claim and Secrets of the stack file",
    {
      lists: {
        ...healthy.lists,
        persistentvolumeclaims: [{ metadata: { name: "store" }, status: { phase: "Pending" } }],
      },
      secrets: { hub: ["token"], pull: [".dockerconfigjson"] },
    },
    named,
  ],
  ["a namespace still to be created", { ...healthy, namespaceLabels: null }, stack],
  ["the claim that an earlier stack left", claimThere(), stack],
  [
    "a volume that is free",
    { ...healthy, volumes: { disk: volume("Available", "") } },
    { ...stack, engineStore: { existingVolume: "disk" } },
  ],
  [
    "more GPUs than planned, each shared as planned",
    withNode(
      l40s("8", { "nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.sharing-strategy": "time-slicing" }),
    ),
    sharedIn("timeSlicing"),
  ],
  [
    "objects that `up` replaces",
    {
      ...healthy,
      refuses: {
        '"kind":"Job"':
          'Error from server (Invalid): Job.batch "b" is invalid: spec.template: field is immutable',
      },
    },
    stack,
  ],
  [
    "GPUs that its own pods have",
    {
      lists: {
        ...healthy.lists,
        pods: [pod("engine-room", { "nvidia.com/gpu": "2" }, OWN)],
      },
    },
    stack,
  ],
] as const)("preflight finds nothing wrong with a cluster that has %s", async (_, cluster, values) => {
  expect(await findings(cluster, values)).toEqual([]);
});

/** A wrong cluster, its finding (severity, check and required words), and another stack if needed. */
const wrong: Readonly<
  Record<string, readonly [FakeCluster, readonly [Finding["severity"], string, RegExp], Values?]>
> = {
  "no kubectl": [
    { fails: { exitCode: null, stderr: "spawn kubectl ENOENT" } },
    ["problem", "kubectl", /no `kubectl` command/],
  ],
  "a missing context": [
    { fails: { stderr: 'error: context "gone" does not exist' } },
    ["problem", "server", /no access to the cluster of the context gone\..*"gone" does not exist/],
    { ...stack, context: "gone" },
  ],
  "a program that can't log in": [
    {
      fails: {
        stderr: "Unable to connect to the server: getting credentials: exec: executable aws not found",
      },
    },
    ["problem", "server", /no access to .*aws not found/],
  ],
  "a login that has run out": [
    { fails: { stderr: "error: You must be logged in to the server (Unauthorized)" } },
    ["problem", "server", /no access to .*must be logged in/],
  ],
  "an unknown certificate": [
    { fails: { stderr: "Unable to connect to the server: x509: certificate signed by unknown authority" } },
    ["problem", "server", /no access to .*unknown authority/],
  ],
  "an unreachable API server": [
    {
      fails: {
        stderr: "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host?",
      },
    },
    ["problem", "server", /no access to .*10\.0\.0\.1/],
  ],
  "no cert-manager": [
    {
      lists: {
        ...healthy.lists,
        ingressclasses: [{ metadata: { name: "nginx" }, spec: { controller: "k8s.io/ingress-nginx" } }],
      },
    },
    ["problem", "kinds", /cert-manager\.io\/v1.*certificate of the host name/],
    { ...stack, gateway: { hostname: "models.example.net", ingressClass: "nginx", tls: { issuer: "ours" } } },
  ],
  "no default class of Ingresses": [
    healthy,
    ["problem", "ingress", /no default class for gateway\.ingressClass/],
    { ...stack, gateway: { hostname: "models.example.net" } },
  ],
  "missing rights for a kind": [
    {
      ...healthy,
      refuses: {
        '"kind":"Job"':
          'Error from server (Forbidden): jobs.batch "b" is forbidden: User "me" cannot patch resource "jobs" in API group "batch" in the namespace "engine-room"',
      },
    },
    ["problem", "rights", /may not patch jobs\.batch\. .*User "me" .* in the namespace "engine-room"/],
  ],
  "missing rights to delete": [
    { ...healthy, denied: ["delete deployments"] },
    ["warning", "rights", /delete deployments\.apps in the namespace engine-room.*`down` deletes/],
  ],
  "missing rights for tools alone": [
    { ...healthy, denied: ["create pods/portforward"] },
    ["warning", "rights", /create pods\/portforward.*connect/],
  ],
  "no KEDA": [
    { ...healthy, kinds: KEDA, refuses: { ScaledObject: noKind("ScaledObject", "keda.sh/v1alpha1") } },
    ["problem", "kinds", /does not know ScaledObject of keda\.sh\/v1alpha1\. .*Prometheus through KEDA/],
    scaled,
  ],
  "no metrics server of KEDA": [
    { ...healthy, kinds: { "keda.sh/v1alpha1": ["ScaledObject"] } },
    ["problem", "kinds", /does not know external\.metrics\.k8s\.io\/v1beta1\. HorizontalPodAutoscalers/],
    scaled,
  ],
  "an unreachable metrics server": [
    { ...healthy, kinds: { [METRICS]: null } },
    [
      "problem",
      "kinds",
      /Nothing answers for external\.metrics\.k8s\.io\/v1beta1\..*`autoscaling\.mechanism: hpa`/,
    ],
    { ...scaled, autoscaling: { mechanism: "hpa" } },
  ],
  "no metrics for `mechanism: hpa`": [
    healthy,
    ["problem", "kinds", /does not know external\.metrics.*`autoscaling\.mechanism: hpa`/],
    { ...scaled, autoscaling: { mechanism: "hpa" } },
  ],
  "no rules of the Prometheus operator": [
    { ...healthy, refuses: { PrometheusRule: noKind("PrometheusRule", "monitoring.coreos.com/v1") } },
    ["problem", "kinds", /does not know PrometheusRule of monitoring\.coreos\.com\/v1/],
    { ...stack, monitoring: "prometheus-operator" },
  ],
  "no Gateway API": [
    { ...healthy, refuses: { HTTPRoute: noKind("HTTPRoute", "gateway.networking.k8s.io/v1") } },
    ["problem", "kinds", /does not know HTTPRoute of gateway\.networking\.k8s\.io\/v1/],
    { ...stack, gateway: { hostname: "models.example.net", route: { gateway: "shared" } } },
  ],
  "no namespace": [
    {
      ...healthy,
      namespaceLabels: null,
      refuses: { Deployment: 'Error from server (NotFound): namespaces "engine-room" not found' },
    },
    ["problem", "namespace", /no namespace engine-room/],
    named,
  ],
  "a namespace of unknown origin": [
    { ...healthy, namespaceLabels: {} },
    ["problem", "namespace", /engine-room already exists.*Its owner is not known/],
  ],
  "another stack's namespace": [
    { ...healthy, namespaceLabels: { "app.kubernetes.io/instance": "kitchen" } },
    ["problem", "namespace", /The stack kitchen has made it/],
  ],
  "a claim with another class": [
    {
      ...claimThere({ storageClassName: "slow" }),
      refuses: {
        PersistentVolumeClaim:
          'Error from server (Invalid): PersistentVolumeClaim "engine-store" is invalid: spec: Forbidden: spec is immutable after creation',
      },
    },
    ["problem", "claim", /claim engine-store already exists.*spec is immutable after creation/],
  ],
  "a field that the server does not know": [
    {
      ...healthy,
      refuses: {
        NetworkPolicy:
          'Error from server (BadRequest): NetworkPolicy in version "v1" cannot be handled: strict decoding error: unknown field "spec.foo"',
      },
    },
    ["problem", "objects", /unknown field "spec\.foo"/],
  ],
  "Pod Security that refuses a pod": [
    {
      ...healthy,
      refuses: {
        '"kind":"Pod"':
          'Error from server (Forbidden): pods "gateway" is forbidden: violates PodSecurity "restricted:latest": seccompProfile',
      },
    },
    ["problem", "admission", /violates PodSecurity/],
  ],
  "no volume of the name, of a stack whose namespace is still to be created": [
    { ...healthy, namespaceLabels: null },
    ["problem", "volume", /no volume disk/],
    { ...stack, engineStore: { existingVolume: "disk" } },
  ],
  "a volume that another claim has": [
    { ...healthy, volumes: { disk: volume("Bound", "", { namespace: "a", name: "b" }) } },
    ["problem", "volume", /disk can't be bound.* is Bound of the claim a\/b/],
    { ...stack, engineStore: { existingVolume: "disk" } },
  ],
  "a volume of another class": [
    { ...healthy, volumes: { disk: volume("Available", "nfs") } },
    ["problem", "volume", /of the class nfs.*needs one .*of the class \(none\)/],
    { ...stack, engineStore: { existingVolume: "disk" } },
  ],
  "no volume of the name, to a user who may not list claims": [
    { lists: { ...healthy.lists, persistentvolumeclaims: null } },
    ["problem", "volume", /no volume disk/],
    { ...stack, engineStore: { existingVolume: "disk" } },
  ],
  "no Secret": [
    {
      lists: { ...healthy.lists, persistentvolumeclaims: [{ metadata: { name: "store" } }] },
      secrets: { pull: [".dockerconfigjson"] },
    },
    ["problem", "secrets", /no Secret hub in the namespace engine-room/],
    named,
  ],
  "a Secret without the key": [
    {
      lists: { ...healthy.lists, persistentvolumeclaims: [{ metadata: { name: "store" } }] },
      secrets: { hub: ["password"], pull: [".dockerconfigjson"] },
    },
    ["problem", "secrets", /Secret hub has no key token; it has password/],
    named,
  ],
  "no claim": [
    {
      lists: { ...healthy.lists, persistentvolumeclaims: [{ metadata: { name: "other" } }] },
      secrets: { hub: ["token"], pull: [".dockerconfigjson"] },
    },
    ["problem", "claim", /no claim store\..*has other/],
    named,
  ],
  "no class": [
    { lists: { ...healthy.lists, storageclasses: [STANDARD] } },
    ["problem", "storageClass", /no class nfs-client\..*cluster has standard/],
  ],
  "a class of disks for a shared store": [
    healthy,
    ["problem", "storageClass", /class standard are mounted by one machine.*ebs\.csi\.aws\.com/],
    { ...stack, engineStore: { storageClass: "standard", sizeGiB: 200 } },
  ],
  "no machine of the pool": [
    withNode(l40s("2", { "nvidia.com/gpu.product": "NVIDIA-L4" })),
    [
      "problem",
      "machines",
      /No machine .*pool gpu\. 0 of 2 machines have the labels nvidia\.com\/gpu\.product=NVIDIA-L40S\./,
    ],
  ],
  "a machine that is cordoned": [
    withNode(l40s("2", {}, { unschedulable: true })),
    ["problem", "machines", /1 of 2 machines have .*cordoned/],
  ],
  "a taint that the pool does not tolerate": [
    withNode(l40s("2", {}, { taints: [{ key: "team", value: "vision", effect: "NoSchedule" }] })),
    ["problem", "machines", /team=vision:NoSchedule/],
  ],
  "no device plugin": [
    withNode(l40s("0")),
    ["problem", "devicePlugin", /offers nvidia\.com\/gpu\..* 0 × nvidia\.com\/gpu/],
  ],
  "partitions in the place of GPUs": [
    withNode(l40s("0", {}, { allocatable: { "nvidia.com/mig-3g.20gb": "2" } })),
    ["problem", "devicePlugin", /2 × nvidia\.com\/mig-3g\.20gb/],
  ],
  "fewer GPUs than planned": [
    withNode(l40s("1"), {
      ...l40s("1"),
      metadata: { name: "gpu-1", labels: { "nvidia.com/gpu.product": "NVIDIA-L40S" } },
    }),
    ["problem", "sharing", /gives out 1 × nvidia\.com\/gpu\. .*planned with 2/],
  ],
  "more shares of a GPU than planned": [
    withNode(l40s("4")),
    ["problem", "sharing", /gpu-0 of the pool gpu gives out 4 × .*planned with 2 .*timeSlicing, 2 replicas/],
    sharedIn("timeSlicing"),
  ],
  "fewer shares than planned": [
    withNode(l40s("1")),
    ["problem", "sharing", /gives out 1 × nvidia\.com\/gpu\. .*planned with 2/],
    sharedIn("timeSlicing"),
  ],
  "shares that the machine's labels count otherwise": [
    withNode(l40s("4", { "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1" })),
    ["problem", "sharing", /planned with 2 .*label nvidia\.com\/gpu\.replicas is 4/],
    sharedIn("timeSlicing"),
  ],
  "less memory than its name says": [
    withNode(l40s("2", { "nvidia.com/gpu.memory": "23000" })),
    ["problem", "gpus", /has 23000 MiB/],
  ],
  "an old driver": [
    withNode(l40s("2", { "nvidia.com/cuda.driver.major": "460", "nvidia.com/cuda.driver.minor": "42" })),
    ["problem", "driver", /gpu-0 is 460\.42\. Release/],
  ],
  "GPUs that others have": [
    { lists: { ...healthy.lists, pods: [pod("other", { "nvidia.com/gpu": "2" })] } },
    [
      "problem",
      "room",
      /^problem room: Pods of the pool gpu find no machine now: llava, .*free are gpu-0: 0 × nvidia\.com\/gpu/,
    ],
  ],
  "cores that others have, of a stack without GPUs": [
    {
      lists: {
        nodes: [CPU],
        storageclasses: [STANDARD],
        pods: [
          {
            ...pod("other", { cpu: "31" }),
            spec: { nodeName: "cpu-0", containers: [{ resources: { requests: { cpu: "31" } } }] },
          },
        ],
      },
    },
    [
      "warning",
      "room",
      /Pods of the stack that need no GPU find no machine now: .*free are cpu-0: 0\.5 cores, 128\.0 GiB/,
    ],
    onCpus,
  ],
  "machines that are too small for a server of a CPU": [
    {
      lists: { nodes: [node("small-0", { allocatable: { memory: "2500Mi" } })], storageclasses: [STANDARD] },
    },
    ["problem", "room", /no machine has that when it is empty/],
    onCpus,
  ],
  "no machine for a stack without GPUs": [
    { lists: { nodes: [node("cpu-0", { unschedulable: true })], storageclasses: [STANDARD] } },
    ["problem", "machines", /takes pods of the stack that need no GPU/],
    onCpus,
  ],
  "no cores for gateway and databases beside the pools' pods": [
    {
      lists: {
        ...healthy.lists,
        nodes: [l40s("2", {}, { allocatable: { "nvidia.com/gpu": "2", cpu: "3600m" } })],
      },
    },
    [
      "warning",
      "room",
      /^warning room: Pods of the stack that need no GPU find no machine now: mongo, vector, gateway \(3; it keeps 3\)/,
    ],
    { ...stack, models: [{ name: "llava", model: "llava-1.5-7b", flavour: "llava", rollout: "inPlace" }] },
  ],
  "nodes that the user may not see": [
    { lists: { ...healthy.lists, nodes: null } },
    ["warning", "machines", /may not list nodes/],
  ],
  "a quota that is too small": [
    {
      ...healthy,
      refuses: {
        '"kind":"Pod"':
          'Error from server (Forbidden): pods "llava" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4',
      },
    },
    ["problem", "quota", /quota team refuses pods.*limited: requests\.nvidia\.com\/gpu=4/],
  ],
  "a quota that holds each pod and not all": [
    {
      lists: {
        ...healthy.lists,
        resourcequotas: [
          {
            metadata: { name: "team" },
            status: { hard: { "requests.cpu": "2" }, used: { "requests.cpu": "500m" } },
          },
        ],
      },
    },
    ["problem", "quota", /quota team does not hold all pods.*ask for \d.* requests\.cpu; 0\.5 of 2 are used/],
  ],
  "a quota that wants limits": [
    {
      ...healthy,
      refuses: {
        '"kind":"Pod"':
          'Error from server (Forbidden): pods "llava" is forbidden: failed quota: team: must specify limits.memory for: triton',
      },
    },
    ["problem", "quota", /must specify limits\.memory/],
  ],
  "a registry of the documentation": [
    healthy,
    ["problem", "images", /registry\.example\.org/],
    { ...stack, images: { registry: "registry.example.org/room" } },
  ],
};

test.each(Object.keys(wrong))("preflight reports only %s", async (name) => {
  const [cluster, [severity, check, words], values] = wrong[name] ?? expect.fail();
  const all = await findings(cluster, values);
  if (check === "sharing" && values !== undefined)
    expect(all[0]?.fix).toContain("`npx engine-room plan --device-plugin-config`");
  const sentences = all.map((one) => `${one.severity} ${one.check}: ${one.what} ${one.why} ${one.fix}`);
  expect(sentences).toHaveLength(1);
  expect(sentences[0]).toMatch(words);
  expect(all[0]).toMatchObject({ severity, check, fix: expect.stringMatching(/\w.+/) });
});

test.each([
  ["31500m", 31.5],
  ["4", 4],
  ["16Gi", 16 * 2 ** 30],
  ["15842316Ki", 15_842_316 * 1024],
  ["1e3", 1000],
  ["2E", 2e18],
  ["1.5G", 1.5e9],
])("the quantity %s is %d", (text, value) => {
  expect(amounts({ cpu: text }).cpu).toBeCloseTo(value, 6);
});

test("the table of checks has a line for each check", () => {
  const found = (severity: Finding["severity"]): Finding => ({
    ...{ severity, check: "kinds", what: "w", why: "y", fix: "f" },
  });
  expect(
    checkTable([
      { looksAt: "your rights", findings: [] },
      { looksAt: "engine store", findings: [found("problem"), found("warning"), found("warning")] },
    ]),
  ).toBe("CHECK         RESULT\nyour rights   ok\nengine store  1 problem, 2 warnings\n");
});

describe("images of the cluster", () => {
  const DIGEST = `@sha256:${"a".repeat(64)}`;

  const IMAGES: readonly ClusterImage[] = [
    { name: "trtllm", reference: `registry.local:5000/room/trtllm:25.07${DIGEST}` },
    { name: "services", reference: `registry.local:5000/room/services:1${DIGEST}` },
    { name: "mongo", reference: `docker.io/library/mongo${DIGEST}` },
  ];

  const PRESENT: ManifestAnswer = { kind: "present" };

  async function findings(
    answer: ManifestAnswer,
    {
      pullSecrets = [],
      images = IMAGES,
    }: { pullSecrets?: readonly string[]; images?: readonly ClusterImage[] } = {},
  ) {
    // Docker Hub has all of its images.
    const ask = async (reference: string) => (reference.startsWith("docker.io") ? PRESENT : answer);
    const stack = { images, imagePullSecrets: pullSecrets } as unknown as KubernetesStack;
    return (await clusterImageFindings({ stack, imageProblems: [] }, ask)).map(
      ({ severity, what, why, fix }) => `${severity} ${what} ${why} ${fix}`,
    );
  }

  test("preflight finds nothing wrong with registries that have all images", async () => {
    expect(await findings(PRESENT)).toEqual([]);
  });

  test.each([
    [
      "that lacks the images for an anonymous request",
      { kind: "missing", isAnonymous: true },
      [],
      /^problem .* does not have trtllm, services\..*images --push/,
    ],
    [
      "that may hide the images from an anonymous request",
      { kind: "missing", isAnonymous: true },
      ["pull"],
      /^warning .*or hides it.*docker login registry\.local:5000/,
    ],
    [
      "that lacks the images for the user",
      { kind: "missing", isAnonymous: false },
      ["pull"],
      /^problem .* does not have/,
    ],
    [
      "that refuses an anonymous request",
      { kind: "refused", isAnonymous: true },
      [],
      /^warning .*does not show trtllm, services to you\. .*without credentials.*machines may have others \(images\.pullSecrets: none\)/,
    ],
    [
      "that refuses the user",
      { kind: "refused", isAnonymous: false },
      ["pull"],
      /^warning .*with the credentials of Docker's configuration.*images\.pullSecrets: pull/,
    ],
    [
      "that does not answer",
      { kind: "silent", words: "fetch failed: ECONNREFUSED" },
      [],
      /^warning .*can't be asked for trtllm, services from here\. fetch failed: ECONNREFUSED\. /,
    ],
  ] as const)("preflight gives one finding for a registry %s", async (_, answer, pullSecrets, words) => {
    const found = await findings(answer, { pullSecrets });
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(words);
  });

  test("images that were never pushed, and registries of examples, are not requested", async () => {
    const images: readonly ClusterImage[] = [
      { name: "trtllm", reference: "registry.local:5000/room/trtllm:25.07" },
      { name: "services", reference: `registry.example.org/room/services${DIGEST}` },
    ];
    expect(await findings({ kind: "missing", isAnonymous: true }, { images })).toEqual([
      expect.stringMatching(/^problem No registry answers at registry\.example\.org\./),
    ]);
  });
});
