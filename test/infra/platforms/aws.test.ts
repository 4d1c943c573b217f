import { describe, expect, test } from "vitest";
import type { Endpoints } from "../../../infra/plan/endpoints.ts";
import { awsProperties } from "../../scripts/diff/aws-properties.ts";
import { awsGraph, madeResources, type RenderedResource, withoutKeys } from "./aws-stacks.ts";

const graphs = { dev: await awsGraph("dev"), prod: await awsGraph("prod"), ec2: await awsGraph("ec2") };
const { dev, prod, ec2 } = graphs;

describe.each(Object.entries(graphs))("%s", (name, graph) => {
  test("has the same resources whatever AWS answers: none is made inside `apply`", async () => {
    const made = await madeResources(name as keyof typeof graphs);
    expect(made.map(({ urn }) => urn).sort()).toEqual(graph.resources.map(({ urn }) => urn));
    expect(JSON.stringify(made), "an answer of AWS that the test lacks").not.toContain(
      "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    );
  });

  test("knows zones and addresses of its subnets at preview", () => {
    const subnets = graph.ofType("aws:ec2/subnet:Subnet").map(({ inputs }) => inputs);
    expect(subnets.map(({ availabilityZone, cidrBlock }) => [availabilityZone, cidrBlock])).toEqual([
      ["us-east-1a", "10.64.0.0/19"],
      ["us-east-1b", "10.64.32.0/19"],
      ["us-east-1a", "10.64.192.0/22"],
      ["us-east-1b", "10.64.196.0/22"],
    ]);
  });

  test("has the stack's tags on all that takes tags", () => {
    const tagged = graph.resources.filter(
      ({ type }) => type.startsWith("aws:") && awsProperties(type).includes("tags"),
    );
    expect(tagged.length).toBeGreaterThan(30);
    for (const { name: resource, inputs } of tagged)
      expect(inputs.tags, resource).toMatchObject({ "engine-room:stack": name, Name: expect.any(String) });
  });

  test("touches the one account", () => {
    const providers = graph.ofType("pulumi:providers:aws");
    expect(providers.map(({ inputs }) => [inputs.allowedAccountIds, inputs.region])).toEqual([
      ['["111122223333"]', "us-east-1"],
    ]);
    const aws = graph.resources.filter(({ type, custom }) => custom && type.startsWith("aws:"));
    expect(new Set(aws.map(({ provider }) => provider))).toEqual(new Set([providers[0]?.urn]));
  });
});

describe("outputs", () => {
  const outputs = ({ outputs: { endpoints, notes } }: typeof dev) => ({
    ...(endpoints as Partial<Endpoints>),
    notes: notes as readonly string[],
  });

  test("say who reaches the gateway, and who all the others", () => {
    const reach = (graph: typeof dev) => {
      const { gatewayReach, reach: others } = outputs(graph);
      return [gatewayReach, others];
    };
    expect(reach(dev)).toEqual(["vpc", "cluster"]);
    expect(reach(prod)).toEqual(["public", "cluster"]);
    expect(reach(ec2)).toEqual(["vpc", "host"]);
  });

  test("know in a preview what AWS does not name", () => {
    expect(outputs(dev)).toMatchObject({ gateway: "[unknown]", gatewayDnsName: "[unknown]" });
    expect(outputs(prod)).toMatchObject({
      gateway: "https://models.example.org",
      gatewayDnsName: "[unknown]",
      encoders: { grpc: "encoders.engine-room.svc:8001" },
    });
  });

  test("have a note where a record is somebody else's to make, with the load balancer's name", () => {
    expect(outputs(prod).notes[0]).toBe("[unknown]");
    expect(outputs(dev).notes).not.toContain("[unknown]");
  });

  // `down` deletes all of these volumes and namespaces.
  test("promise nothing of other platforms", () => {
    for (const graph of [dev, prod, ec2]) {
      const notes = outputs(graph).notes.join("\n");
      expect(notes).not.toMatch(/leaves what took long|docker volume|kubectl delete|0\.0\.0\.0/);
      expect(notes).toContain("`npm run down`");
    }
  });
});

/** Whatever only AWS can name: things that it makes, and what is written with their names. */
test("what a first preview can't know", () => {
  const unknown = new Set(
    [dev, prod, ec2].flatMap(({ resources }) =>
      resources.flatMap(({ type, inputs }) =>
        unknownPaths(inputs).map((path) => `${type.split(":").at(-1)} ${path}`),
      ),
    ),
  );
  const named = [...unknown].filter((one) => !/(Id|Ids\.\*|ID|Arn|ARN)$/.test(one));
  expect(named.sort()).toEqual(
    [
      "Association targets.*.values.*",
      "FileSystemPolicy policy",
      "FlowLog logDestination",
      "Instance userData",
      "LoadBalancer securityGroups.*",
      "LoadBalancer subnets.*",
      "MountTarget securityGroups.*",
      "NodeGroup launchTemplate.id",
      "NodeGroup launchTemplate.version",
      "PersistentVolume spec.csi.volumeHandle",
      "RolePolicy policy",
      "Tag autoscalingGroupName",
      "Instance launchTemplate.id",
      "kubernetes kubeconfig",
    ].sort(),
  );
});

function unknownPaths(value: unknown, path: readonly string[] = []): readonly string[] {
  if (value === "[unknown]") return [path.join(".")];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    unknownPaths(inner, [...path, Array.isArray(value) ? "*" : key]),
  );
}

/** The first is made after the others, and goes before them. */
const order: readonly (readonly [string, ...string[]])[] = [
  ["cluster-cluster", "cluster-role-AmazonEKSClusterPolicy", "cluster-logs", "cluster-secrets-key"],
  [
    "a100-machines-group",
    "network-private-a-default",
    "network-private-b-association",
    "network-endpoints-sts",
    "network-endpoints-s3",
    "machine-role-AmazonEKSWorkerNodePolicy",
    "machine-role-AmazonEC2ContainerRegistryPullOnly",
    "add-ons-before-machines-vpc-cni",
    "add-ons-before-machines-vpc-cni-role-AmazonEKS_CNI_Policy",
    "add-ons-before-machines-kube-proxy",
    "add-ons-before-machines-eks-pod-identity-agent",
  ],
  ["system-machines-group", "add-ons-before-machines-vpc-cni", "network-nat-a"],
  ["add-ons-coredns", "system-machines-group"],
  ["add-ons-aws-efs-csi-driver", "add-ons-aws-efs-csi-driver-role-policy"],
  ["charts-device-plugin", "add-ons-coredns"],
  [
    "charts-cluster-autoscaler",
    "charts-cluster-autoscaler-role-association",
    "charts-cluster-autoscaler-role-policy",
    "a10g-machines-node-template/resources/nvidia.com/gpu",
  ],
  [
    "charts-load-balancer-controller",
    "charts-load-balancer-controller-role-association",
    "add-ons-before-machines-eks-pod-identity-agent",
  ],
  ["charts-kube-prometheus-stack", "cluster-storage-disks", "add-ons-aws-ebs-csi-driver"],
  ["monitoring-engine-room-gateway", "charts-kube-prometheus-stack"],
  ["namespace-namespace", "charts-load-balancer-controller"],
  ["store-claim", "cluster-storage-engines", "engine-store-a", "engine-store-b", "engine-store-access"],
  ["mongo-set", "cluster-storage-disks", "add-ons-aws-ebs-csi-driver"],
  ["hub-token-class", "add-ons-aws-secrets-store-csi-driver-provider"],
  [
    "llama-2-7b-chat-KEY-job",
    "store-claim",
    "engine-build-role-association",
    "hub-token-class",
    "charts-device-plugin",
    "charts-cluster-autoscaler",
  ],
  ["llama-2-7b-chat-deployment", "llama-2-7b-chat-KEY-job"],
  ["gateway-binding-binding", "charts-load-balancer-controller", "gateway-service", "edge-listener"],
  // The controller gives a condition to pods whose binding is there when they are made.
  ["gateway-deployment", "gateway-binding-binding", "namespace-namespace"],
  ["edge-balancer", "network-internet", "network-public-default"],
];

test.each(order)("%s comes after what it needs, and goes before it", (name, ...needed) => {
  const before = prod.before(name);
  expect(needed.filter((one) => !before.has(one))).toEqual([]);
});

test("the gateway's pods alone wait for the load balancer", () => {
  const waiting = (graph: typeof dev) =>
    graph.resources
      .filter(({ custom, type }) => custom && type.startsWith("kubernetes:"))
      .map(({ name }) => withoutKeys(name))
      .filter((name) => graph.before(name).has("edge-balancer"));
  for (const graph of [dev, prod])
    expect(waiting(graph)).toEqual(["gateway-binding-binding", "gateway-deployment"]);
});

test.each<readonly [string, ...string[]]>([
  [
    "instance-machine",
    "network-private-a-default",
    "engine-store-a",
    "instance-role-policy",
    "instance-security-egress-https",
  ],
  ["instance-databases-attachment", "instance-machine", "instance-databases"],
  ["instance-machine", "instance-databases"],
  ["instance-tasks-setup", "instance-databases-attachment"],
  ["edge-balancer", "network-internet"],
  ["instance-tasks-services", "instance-tasks-build-gpt2-medium-KEY", "instance-tasks-setup"],
])("on one machine, %s comes after what it needs", (name, ...needed) => {
  const before = ec2.before(name);
  expect(needed.filter((one) => !before.has(one))).toEqual([]);
});

describe("what `down` takes", () => {
  const optionsOf = (graph: typeof dev, option: "protect" | "retainOnDelete") =>
    graph.resources.filter(({ options }) => options[option] === true).map(({ name }) => name);

  test("of a stack that is retained, nothing by accident", () => {
    expect(optionsOf(prod, "protect")).toEqual([
      "cluster-cluster",
      "cluster-secrets-key",
      "engine-store-files",
    ]);
    expect(optionsOf(prod, "retainOnDelete")).toEqual([
      "engine-store-backups",
      "engine-store-files",
      "engine-store-policy",
      "store-claim",
      "namespace-namespace",
    ]);
    expect(prod.named("cluster-cluster").inputs.deletionProtection).toBe(true);
    expect(prod.named("edge-balancer").inputs.enableDeletionProtection).toBe(true);
  });

  test("of any other all that costs money", () => {
    expect(optionsOf(dev, "protect")).toEqual([]);
    expect(optionsOf(dev, "retainOnDelete")).toEqual([]);
    for (const { inputs } of dev.ofType("aws:ecr/repository:Repository"))
      expect(inputs.forceDelete).toBe(true);
  });

  test("objects of the cluster with the cluster, the engine store's claim too, but not databases and the load balancer's binding", () => {
    const cluster = dev.named("cluster-cluster").urn;
    const tops = dev.resources.filter(({ parent }) => parent.includes("::pulumi:pulumi:Stack::"));
    const inCluster = tops.filter(({ type, urn }) => hasObjects(dev.resources, type, urn));
    const goesWithIt = ({ options }: RenderedResource) => options.deletedWith === cluster;
    expect(inCluster.filter((one) => !goesWithIt(one)).map(({ name }) => name)).toEqual([
      "charts",
      "gateway-binding",
      "mongo",
      "vector",
    ]);
    const others = inCluster.filter(goesWithIt).map(({ name }) => name);
    expect(others.length).toBeGreaterThan(8);
    const claim = dev.ofType("kubernetes:core/v1:PersistentVolumeClaim")[0];
    expect(others).toContain(dev.resources.find(({ urn }) => urn === claim?.parent)?.name);
    // Roles are beside the releases, which say it themselves; Prometheus has a disk.
    const releases = dev.ofType("kubernetes:helm.sh/v3:Release");
    expect(releases.filter((one) => !goesWithIt(one)).map(({ name }) => name)).toEqual([
      "charts-kube-prometheus-stack",
    ]);
  });

  // The engine hands it down to children, and deletes none of them.
  test("nothing outside of the cluster with the cluster", () => {
    for (const { resources } of [dev, prod]) {
      const byUrn = new Map(resources.map((one) => [one.urn, one]));
      const goes = (one: RenderedResource | undefined): boolean =>
        one !== undefined && (one.options.deletedWith !== undefined || goes(byUrn.get(one.parent)));
      const elsewhere = resources.filter((one) => one.type.startsWith("aws:") && goes(one));
      expect(elsewhere.map(({ name }) => name)).toEqual([]);
    }
  });
});

/** Whether Kubernetes keeps some of what is in a component. */
function hasObjects(resources: readonly RenderedResource[], type: string, urn: string): boolean {
  return (
    type.startsWith("engine-room:") &&
    resources.some(({ parent, type: child }) => parent === urn && child.startsWith("kubernetes:"))
  );
}

test("providers of the cluster know it by its name, whatever its address is", () => {
  const providers = prod.ofType("pulumi:providers:kubernetes");
  expect(providers.map(({ name, inputs }) => [name, inputs.clusterIdentifier])).toEqual([
    ["cluster", "engine-room-prod"],
    ["cluster-adopting", "engine-room-prod"],
    ["cluster-installer", "engine-room-prod"],
  ]);
});

test("the stack's own namespace takes no pod that is more than restricted; drivers run in others", () => {
  const { metadata } = prod.named("namespace-namespace").inputs as { readonly metadata: object };
  expect(metadata).toMatchObject({
    name: "engine-room",
    labels: {
      "pod-security.kubernetes.io/enforce": "restricted",
      "elbv2.k8s.aws/pod-readiness-gate-inject": "enabled",
    },
  });
  const releases = prod.ofType("kubernetes:helm.sh/v3:Release");
  expect(releases.map(({ name, inputs }) => [name, inputs.namespace])).toEqual([
    ["charts-cluster-autoscaler", "kube-system"],
    ["charts-dcgm-exporter", "gpu-metrics"],
    ["charts-device-plugin", "kube-system"],
    ["charts-keda", "keda"],
    ["charts-kube-prometheus-stack", "monitoring"],
    ["charts-load-balancer-controller", "kube-system"],
  ]);
});
