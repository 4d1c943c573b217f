import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import type { Endpoints } from "../../../infra/plan/endpoints.ts";
import { costSection } from "../../../scripts/plan/sections.ts";
import type { Properties } from "../../../scripts/program/serialized.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { PUBLIC_GATEWAY } from "../../harness/aws/stacks.ts";
import { expectPart } from "../../harness/recorded-part.ts";
import { projectStackValues } from "../../harness/stack-files.ts";
import { awsProperties } from "../../scripts/diff/aws-properties.ts";
import { awsValues } from "../plan/checks/stacks.ts";
import {
  awsGraph,
  COMPANY_IAM,
  COMPANY_TAGS,
  madeResources,
  type RenderedResource,
  stackConfig,
  withoutKeys,
} from "./aws-stacks.ts";
import { rendered, type StackValues } from "./program.ts";

const graphs = { dev: await awsGraph("dev"), prod: await awsGraph("prod"), ec2: await awsGraph("ec2") };

const companies = { company: await awsGraph("company"), "company-ec2": await awsGraph("company-ec2") };

const { dev, prod, ec2 } = graphs;
const all = Object.values(graphs);

test.each(Object.entries({ ...graphs, ...companies }))(
  "%s has the same resources in a preview and after AWS has answered: `apply` makes none",
  async (name, graph) => {
    const made = await madeResources(name as keyof typeof graphs | keyof typeof companies);
    expect(made.map(({ urn }) => urn).sort()).toEqual(graph.resources.map(({ urn }) => urn));
    expect(JSON.stringify(made), "an answer of AWS that the test lacks").not.toContain(
      "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    );
  },
);

test.each(Object.entries(graphs))(
  "the zones and addresses of %s's subnets are known in a preview",
  (_name, graph) => {
    const subnets = graph.ofType("aws:ec2/subnet:Subnet").map(({ inputs }) => inputs);
    expect(subnets.map(({ availabilityZone, cidrBlock }) => [availabilityZone, cidrBlock])).toEqual([
      ["us-east-1a", "10.64.0.0/19"],
      ["us-east-1b", "10.64.32.0/19"],
      ["us-east-1a", "10.64.192.0/22"],
      ["us-east-1b", "10.64.196.0/22"],
    ]);
  },
);

test.each(Object.entries({ ...graphs, ...companies }))(
  "resources of %s have the stack's tags wherever they take tags",
  (name, graph) => {
    const tagged = graph.resources.filter(
      ({ type }) => type.startsWith("aws:") && awsProperties(type).includes("tags"),
    );
    expect(tagged.length).toBeGreaterThan(30);
    for (const { name: resource, inputs } of tagged)
      expect(inputs.tags, resource).toMatchObject({ "engine-room:stack": name, Name: expect.any(String) });
  },
);

test.each(Object.entries(companies))(
  "%s has the stack file's tags on all that takes tags",
  (_name, graph) => {
    const untagged = graph.resources.filter(
      ({ type, inputs }) =>
        type.startsWith("aws:") &&
        awsProperties(type).includes("tags") &&
        Object.entries(COMPANY_TAGS).some(
          ([key, value]) => (inputs.tags as Properties | undefined)?.[key] !== value,
        ),
    );
    expect(untagged.map(({ name }) => name)).toEqual([]);
  },
);

test("machines, their disks and groups, and disks of claims have the stack file's tags", () => {
  const { company, "company-ec2": machine } = companies;
  const templates = [...company.ofType("aws:ec2/launchTemplate:LaunchTemplate")].concat(
    machine.ofType("aws:ec2/launchTemplate:LaunchTemplate"),
  );
  expect(templates.length).toBeGreaterThan(4);
  for (const { inputs } of templates)
    for (const { tags } of inputs.tagSpecifications as readonly { readonly tags: object }[])
      expect(tags).toMatchObject({ ...COMPANY_TAGS, "engine-room:stack": expect.any(String) });
  const disks = JSON.parse(String(company.named("add-ons-aws-ebs-csi-driver").inputs.configurationValues));
  expect(disks.controller.extraVolumeTags).toMatchObject(COMPANY_TAGS);
  const groups = company.ofType("aws:eks/nodeGroup:NodeGroup").length;
  const ofGroups = company.ofType("aws:autoscaling/tag:Tag").map(({ inputs }) => inputs.tag as Properties);
  for (const [key, value] of Object.entries(COMPANY_TAGS)) {
    const found = ofGroups.filter((tag) => tag.key === key);
    expect(found).toEqual(Array(groups).fill({ key, value, propagateAtLaunch: false }));
  }
});

test.each(Object.entries(companies))(
  "every role of %s has the permissions boundary and the path of the stack file",
  (_name, graph) => {
    const { path, permissionsBoundaryArn: permissionsBoundary } = COMPANY_IAM;
    const roles = graph.ofType("aws:iam/role:Role");
    expect(roles.length).toBeGreaterThan(1);
    for (const { inputs } of roles) expect(inputs).toMatchObject({ path, permissionsBoundary });
    for (const { inputs } of graph.ofType("aws:iam/instanceProfile:InstanceProfile"))
      expect(inputs.path).toBe(path);
  },
);

test.each(Object.entries(graphs))(
  "roles of %s have no boundary and no path if the stack file sets neither",
  (_name, graph) => {
    for (const { inputs } of graph.ofType("aws:iam/role:Role"))
      expect(Object.keys(inputs).filter((key) => /path|boundary/i.test(key))).toEqual([]);
  },
);

test.each(Object.entries(graphs))("resources of %s are of one account and region", (_name, graph) => {
  const providers = graph.ofType("pulumi:providers:aws");
  expect(providers.map(({ inputs }) => [inputs.allowedAccountIds, inputs.region])).toEqual([
    ['["111122223333"]', "us-east-1"],
  ]);
  const aws = graph.resources.filter(({ type, custom }) => custom && type.startsWith("aws:"));
  expect(new Set(aws.map(({ provider }) => provider))).toEqual(new Set([providers[0]?.urn]));
});

const outputs = ({ outputs: { endpoints, notes } }: typeof dev) => ({
  ...(endpoints as Partial<Endpoints>),
  notes: notes as readonly string[],
});

test("outputs say who reaches the gateway, and who reaches the other servers", () => {
  const reach = (graph: typeof dev) => {
    const { gatewayReach, reach: others } = outputs(graph);
    return [gatewayReach, others];
  };
  expect(reach(dev)).toEqual(["vpc", "cluster"]);
  expect(reach(prod)).toEqual(["public", "cluster"]);
  expect(reach(ec2)).toEqual(["vpc", "host"]);
});

test("outputs of a preview leave only AWS's own names unknown", () => {
  expect(outputs(dev)).toMatchObject({ gateway: "[unknown]", gatewayDnsName: "[unknown]" });
  expect(outputs(prod)).toMatchObject({
    gateway: "https://models.example.org",
    gatewayDnsName: "[unknown]",
    encoders: { grpc: "encoders.engine-room.svc:8001" },
  });
});

test("a note has the load balancer's name if the DNS record is created outside of the stack", () => {
  expect(outputs(prod).notes[0]).toBe("[unknown]");
  expect(outputs(dev).notes).not.toContain("[unknown]");
});

// `down` deletes all of these volumes and namespaces.
test("notes promise nothing of other platforms", () => {
  for (const graph of all) {
    const notes = outputs(graph).notes.join("\n");
    expect(notes).not.toMatch(/leaves what took long|docker volume|kubectl delete|0\.0\.0\.0/);
    expect(notes).toContain("`npx engine-room down`");
  }
});

test("a first preview leaves only AWS's own names unknown", () => {
  const unknown = new Set(
    all.flatMap(({ resources }) =>
      resources.flatMap(({ type, inputs }) =>
        unknownPaths(inputs).map((path) => `${type.split(":").at(-1)} ${path}`),
      ),
    ),
  );
  const named = [...unknown].filter((one) => !/(Id|Ids\.\*|ID|Arn|ARN)$|^ReadyMachine commands\./.test(one));
  expect(named.sort()).toEqual(
    [
      "Association targets.*.values.*",
      "Plan rules.*.targetVaultName",
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
  // The controller adds a condition to pods whose binding exists when they are created.
  ["gateway-deployment", "gateway-binding-binding", "namespace-namespace"],
  ["edge-balancer", "network-internet", "network-public-default"],
];

test.each(order)("%s is made after what it needs, and deleted before it", (name, ...needed) => {
  const before = prod.before(name);
  expect(needed.filter((one) => !before.has(one))).toEqual([]);
});

test.each(Object.entries(companies))(
  "the public listener of %s is made after its certificate is issued and its web ACL guards it",
  (_name, graph) => {
    const before = graph.before("edge-listener");
    for (const one of ["edge-acl", "edge-certificate", "edge-certificate-record", "edge-certificate-issued"])
      expect(before, one).toContain(one);
  },
);

test.each(Object.entries(companies))(
  "containers of %s write into a log group of the stack",
  (name, graph) => {
    const groups = graph.ofType("aws:cloudwatch/logGroup:LogGroup").map(({ inputs }) => inputs);
    expect(groups).toContainEqual(
      expect.objectContaining({ name: `engine-room-${name}/containers`, retentionInDays: 90 }),
    );
    for (const other of all) expect(JSON.stringify(other.resources)).not.toContain("/containers");
  },
);

test("a company's cluster has its own values, alerts and weights in a bucket, each with a role of its own", () => {
  const { company } = companies;
  expect(company.ofType("aws:eks/cluster:Cluster")[0]?.inputs.enabledClusterLogTypes).toEqual([]);
  const associations = company
    .ofType("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    .map(({ inputs: { namespace, serviceAccount } }) => `${namespace}/${serviceAccount}`);
  expect(associations).toEqual(
    expect.arrayContaining([
      "engine-room/engine-build",
      "kube-system/fluent-bit",
      "monitoring/kube-prometheus-stack-alertmanager",
    ]),
  );
  const releases = company.ofType("kubernetes:helm.sh/v3:Release").map(({ inputs }) => inputs);
  expect(releases.map(({ chart }) => String(chart))).toEqual(
    releases.map(() => expect.stringMatching(/^oci:\/\/mirror\.example\.org\/charts\//)),
  );
  // A pod gets its role when it starts. The secret's provider of prod has the same account.
  const before = company.before("gpt2-medium-KEY-job");
  for (const one of ["hub-token-account", "engine-build-role-association", "engine-build-role-policy"])
    expect(before).toContain(one);
});

const KEY = "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012";

/** Properties with the key of a resource's stored data. */
const KEY_PROPERTIES: Readonly<Record<string, (inputs: RenderedResource["inputs"]) => unknown>> = {
  "aws:backup/vault:Vault": ({ kmsKeyArn }) => kmsKeyArn,
  "aws:cloudwatch/logGroup:LogGroup": ({ kmsKeyId }) => kmsKeyId,
  "aws:ebs/volume:Volume": ({ kmsKeyId }) => kmsKeyId,
  "aws:ec2/launchTemplate:LaunchTemplate": ({ blockDeviceMappings }) =>
    (blockDeviceMappings as readonly { readonly ebs: { readonly kmsKeyId?: string } }[])[0]?.ebs.kmsKeyId,
  "aws:efs/fileSystem:FileSystem": ({ kmsKeyId }) => kmsKeyId,
  "aws:eks/cluster:Cluster": ({ encryptionConfig }) =>
    (encryptionConfig as { readonly provider: { readonly keyArn: string } }).provider.keyArn,
  "aws:secretsmanager/secret:Secret": ({ kmsKeyId }) => kmsKeyId,
  "kubernetes:storage.k8s.io/v1:StorageClass": ({ parameters }) =>
    (parameters as { readonly kmsKeyId?: string }).kmsKeyId,
};

test.each(Object.entries(companies))("all that %s stores has the key of the stack file", (_name, graph) => {
  const stored = graph.resources.filter(({ type }) => type in KEY_PROPERTIES);
  expect(stored.length).toBeGreaterThan(4);
  for (const { name, type, inputs } of stored) expect(KEY_PROPERTIES[type]?.(inputs), name).toBe(KEY);
  expect(graph.ofType("aws:kms/key:Key")).toEqual([]);
});

test.each(Object.entries(graphs))("nothing that %s stores names a key of the customer", (_name, graph) => {
  for (const { name, type, inputs } of graph.resources)
    if (type !== "aws:eks/cluster:Cluster") expect(KEY_PROPERTIES[type]?.(inputs), name).toBeUndefined();
});

test("another key is refused before it replaces the cluster, the engine store or the databases' disk", () => {
  const { company, "company-ec2": machine } = companies;
  for (const [graph, kept, fixed] of [
    [company, "cluster-cluster", "cluster-key"],
    [company, "engine-store-files", "engine-store-key"],
    [machine, "engine-store-files", "engine-store-key"],
    [machine, "instance-databases", "instance-databases-place"],
  ] as const) {
    expect(graph.before(kept)).toContain(fixed);
    expect(Object.values(graph.named(fixed).inputs.values as object)).toContain(KEY);
  }
});

test("another path of roles is refused before it replaces the cluster", () => {
  expect(companies.company.named("cluster-key").inputs.values).toEqual({
    kmsKeyArn: KEY,
    "iam.path": COMPANY_IAM.path,
  });
});

test("a retained stack copies the disk of its documents, which is found by its tags", () => {
  const found = (graph: typeof dev) =>
    graph
      .ofType("aws:backup/selection:Selection")
      .flatMap(({ inputs }) => inputs.conditions as readonly { readonly stringEquals: readonly Tag[] }[])
      .flatMap(({ stringEquals }) => stringEquals.map(({ key, value }) => [key, value]));
  expect([found(dev), found(ec2)]).toEqual([[], []]);
  expect(found(prod)).toEqual([
    ["aws:ResourceTag/engine-room:stack", "prod"],
    ["aws:ResourceTag/kubernetes.io/created-for/pvc/namespace", "engine-room"],
    ["aws:ResourceTag/kubernetes.io/created-for/pvc/name", "container-data-mongo-0"],
  ]);
  // The name of the StatefulSet's claim, and so of the driver's disk.
  const { metadata, spec } = prod.named("mongo-set").inputs as unknown as DatabaseSet;
  expect(`${spec.volumeClaimTemplates[0].metadata.name}-${metadata.name}-0`).toBe("container-data-mongo-0");
  const machine = companies["company-ec2"];
  const { tags } = machine.named("instance-databases").inputs;
  expect(found(machine)).toEqual([
    ["aws:ResourceTag/engine-room:stack", "company-ec2"],
    ["aws:ResourceTag/Name", (tags as Readonly<Record<string, string>>).Name],
  ]);
});

type Tag = Readonly<Record<"key" | "value", string>>;

interface DatabaseSet {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly volumeClaimTemplates: readonly [{ readonly metadata: { readonly name: string } }];
  };
}

test("only the gateway's pods wait for the load balancer", () => {
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
])("on EC2 %s is made after what it needs", (name, ...needed) => {
  const before = ec2.before(name);
  expect(needed.filter((one) => !before.has(one))).toEqual([]);
});

const optionsOf = (graph: typeof dev, option: "protect" | "retainOnDelete") =>
  graph.resources.filter(({ options }) => options[option] === true).map(({ name }) => name);

// The engine deletes it first, and refuses: nothing else is deleted.
test.each(Object.entries(graphs))("the protection of %s is made after all else", (_name, graph) => {
  const before = graph.before("protection");
  const after = graph.resources.filter(
    ({ custom, type, name }) =>
      custom && !type.startsWith("pulumi:providers:") && !before.has(withoutKeys(name)),
  );
  expect(after.map(({ name }) => name)).toEqual([]);
});

test("`down` protects and keeps the cluster, its key and the engine store of a retained stack", () => {
  expect(optionsOf(prod, "protect").sort()).toEqual([
    "cluster-cluster",
    "cluster-secrets-key",
    "engine-store-files",
    "protection",
  ]);
  expect(optionsOf(prod, "retainOnDelete")).toEqual([
    "backups-vault",
    "engine-store-backups",
    "engine-store-files",
    "engine-store-policy",
    "store-claim",
    "namespace-namespace",
  ]);
  expect(prod.named("cluster-cluster").inputs.deletionProtection).toBe(true);
  expect(prod.named("edge-balancer").inputs.enableDeletionProtection).toBe(true);
});

test("`down` of a stack that is not retained deletes all that costs money", () => {
  expect(optionsOf(dev, "protect")).toEqual([]);
  expect(optionsOf(dev, "retainOnDelete")).toEqual([]);
  for (const { inputs } of dev.ofType("aws:ecr/repository:Repository")) expect(inputs.forceDelete).toBe(true);
});

test("objects in a cluster are deleted with it, the engine store's claim too, but not databases and the load balancer's binding", () => {
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
  // Roles are siblings of the releases, which have the option themselves; Prometheus has a disk.
  const releases = dev.ofType("kubernetes:helm.sh/v3:Release");
  expect(releases.filter((one) => !goesWithIt(one)).map(({ name }) => name)).toEqual([
    "charts-kube-prometheus-stack",
  ]);
});

// Children inherit `deletedWith`, and the engine does not delete them.
test("no resource outside of the cluster is deleted with it", () => {
  for (const { resources } of [dev, prod]) {
    const byUrn = new Map(resources.map((one) => [one.urn, one]));
    const goes = (one: RenderedResource | undefined): boolean =>
      one !== undefined && (one.options.deletedWith !== undefined || goes(byUrn.get(one.parent)));
    const elsewhere = resources.filter((one) => one.type.startsWith("aws:") && goes(one));
    expect(elsewhere.map(({ name }) => name)).toEqual([]);
  }
});

/** Whether a component has objects in Kubernetes. */
function hasObjects(resources: readonly RenderedResource[], type: string, urn: string): boolean {
  return (
    type.startsWith("engine-room:") &&
    resources.some(({ parent, type: child }) => parent === urn && child.startsWith("kubernetes:"))
  );
}

test("providers of the cluster identify it by its name, and not by its address", () => {
  const providers = prod.ofType("pulumi:providers:kubernetes");
  expect(providers.map(({ name, inputs }) => [name, inputs.clusterIdentifier])).toEqual([
    ["cluster", "engine-room-prod"],
    ["cluster-adopting", "engine-room-prod"],
    ["cluster-installer", "engine-room-prod"],
  ]);
});

test("pods in the stack's own namespace are restricted, and drivers run in other namespaces", () => {
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
    ["charts-kube-prometheus-stack", "monitoring"],
    ["charts-load-balancer-controller", "kube-system"],
  ]);
});

// Both replicas are on the only machine of their pool, which ends before its replacement starts.
test("an update of a node group is forced if its only node has every pod of a disruption budget", async () => {
  const { resources } = await rendered({
    ...awsValues,
    models: [{ name: "gpt", model: "gpt2-medium", replicas: 2 }],
    pools: [
      { name: "gpu", instanceType: "g5.12xlarge", nodes: { min: 1, max: 1 } },
      { name: "front", instanceType: "m7i.2xlarge", zones: ["a"] },
    ],
    engines: { whenFull: "stopServer" },
  });
  const budget = resources.find(({ name }) => name === "gpt-budget");
  expect(budget?.inputs.spec).toMatchObject({ maxUnavailable: 1 });
  const groups = resources.filter(({ type }) => type === "aws:eks/nodeGroup:NodeGroup");
  expect(groups.map(({ name, inputs }) => [name, inputs.updateConfig, inputs.forceUpdateVersion])).toEqual([
    ["front-machines-group", { maxUnavailable: 1, updateStrategy: "DEFAULT" }, undefined],
    ["gpu-machines-group", { maxUnavailable: 1, updateStrategy: "MINIMAL" }, true],
    ["system-machines-group", { maxUnavailable: 1, updateStrategy: "DEFAULT" }, undefined],
  ]);
});

const role = (name: string) => `arn:aws:iam::111122223333:role/${name}`;

const network = { zones: ["c", "a", "b"], peeredCidrs: ["10.1.0.0/16", "10.2.0.0/16"] };

const existing = {
  vpcId: "vpc-01234567",
  cidr: "10.80.0.0/16",
  privateSubnets: ["c", "a", "b"].map((zone, index) => ({ id: `subnet-0000000${index}`, zone })),
  publicSubnets: ["b", "c", "a"].map((zone, index) => ({ id: `subnet-0000001${index}`, zone })),
};

const cluster = {
  ...projectStackValues("Pulumi.prod.yaml"),
  network,
  access: { apiCidrs: ["203.0.113.7/32", "198.51.100.7/32"], admins: [role("one"), role("two")] },
  guard: { emails: ["a@example.org", "b@example.org"] },
};

const machine = { ...projectStackValues("examples/ec2.yaml"), network };

/** The value with every list reversed. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed).reverse();
  return mapped(value, reversed);
}

/** Lists in one order: AWS's provider compares those that the stack file orders as sets. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    const texts = value.map((one) => JSON.stringify(sorted(one)));
    return texts.sort().map((text) => JSON.parse(text) as unknown);
  }
  return mapped(value, sorted);
}

function mapped(value: unknown, map: (inner: unknown) => unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, map(inner)]));
}

async function asked(file: StackValues) {
  const { resources } = await rendered(file);
  return resources
    .filter(({ type, custom }) => custom && type.startsWith("aws:"))
    .map(({ urn, inputs }) => ({ urn, inputs: sorted(inputs) }));
}

test.each<readonly [string, StackValues]>([
  ["a cluster in three zones", cluster],
  ["a cluster in an existing network", { ...cluster, network: { existing } }],
  ["one machine in three zones", machine],
  [
    "one public machine in an existing network",
    { ...machine, network: { existing }, gateway: PUBLIC_GATEWAY },
  ],
])("%s asks AWS for the same however its lists are ordered", async (_stack, file) => {
  const resources = await asked(file);
  expect(resources.length).toBeGreaterThan(20);
  expect(await asked(reversed(file) as StackValues)).toEqual(resources);
});

const DOCS = "docs/platforms/aws-resources.md";
const TEST = "test/infra/platforms/aws.test.ts";

test("the docs list every type of resource on AWS but components, with their number in each stack", () => {
  const types = new Set(all.flatMap(({ resources }) => resources.map(({ type }) => type)));
  const rows = [...types]
    .filter((type) => !type.startsWith("engine-room:"))
    .sort()
    .map((type) => {
      const made = all.map((graph) => graph.ofType(type));
      return `| ${type} | ${made.map(({ length }) => length).join(" | ")} |`;
    });
  const sums = all.map(({ resources }) => resources.length).join(" | ");
  const heading = [`| Type | ${Object.keys(graphs).join(" | ")} |`, "|---|---|---|---|"];
  expectPart(DOCS, "resources", [...heading, ...rows, `| all, components too | ${sums} |`], TEST);
});

test("the docs have the reason and the price of every component on AWS", () => {
  const text = readFileSync(join(projectRoot, DOCS), "utf8");
  const components = new Set(
    all.flatMap(({ resources }) =>
      resources.flatMap(({ type }) => /^engine-room:aws:(\w+)$/.exec(type)?.[1] ?? []),
    ),
  );
  expect([...components].filter((one) => !text.includes(`| ${one} |`))).toEqual([]);
});

test("docs/platforms/aws.md has the cost of dev as `npx engine-room plan` prints it", () => {
  const [file, stack] = ["docs/platforms/aws.md", "dev"];
  const { plan } = checkedPlan(fromRuntimeConfig(stackConfig(stack).values));
  if (plan.platform !== "aws") throw new Error(`${stack} is a stack of ${plan.platform}.`);
  const { title, lines } = costSection(plan);
  // Hourly costs; the rest is in the plan.
  const hourly = lines.slice(0, lines.indexOf(""));
  expectPart(file, `cost of ${stack}`, ["```", title, ...hourly.map((line) => `  ${line}`), "```"], TEST);
});
