/** What changes of a stack on AWS touch, and above all what they leave alone: machines, cluster, network, stores. */
import { expect, test } from "vitest";
import { dangerSections } from "../../../scripts/diff/report/danger-section.ts";
import { machineSections } from "../../../scripts/diff/report/machine-section.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { diffOfFiles } from "./fixtures.ts";

const gpt = { name: "gpt", model: "gpt2-medium", pool: "small" };
const chat = { name: "chat", model: "llama-2-7b-chat", pool: "large" };
const large = { name: "large", instanceType: "g5.12xlarge", nodes: { min: 0, max: 2 } };
const small = { name: "small", instanceType: "g5.xlarge", nodes: { min: 0, max: 2 } };
const cpu = { name: "cpu", instanceType: "m7i.2xlarge" };

const cluster = {
  platform: "aws",
  account: "111122223333",
  region: "us-east-1",
  access: { apiCidrs: ["203.0.113.7/32"] },
  hub: { tokenSecretArn: "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf" },
  namespace: "models",
  databases: "container",
  engines: { whenFull: "stopServer" },
  pools: [large, small, cpu],
  models: [chat, gpt],
};

const instance = {
  platform: "aws",
  compute: "ec2",
  account: "111122223333",
  region: "us-east-1",
  pools: [{ name: "machine", instanceType: "g5.2xlarge" }],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};

/** Entries without the digits that names take from content. */
async function entriesOf(base: object, change: object): Promise<readonly string[]> {
  const diff = await diffOfFiles(stackFileText({ ...base }), stackFileText({ ...base, ...change }));
  const sides = [diff.base, diff.head].map(({ failure, problems }) => ({ failure, problems }));
  expect(sides).toEqual(Array(2).fill({ failure: null, problems: [] }));
  return (diff.resources ?? [])
    .map(({ kind, label }) => `${kind} ${label.replaceAll(/-[0-9a-f]{12}\b/g, "-#")}`)
    .sort();
}

const whole = (kind: "create" | "delete", model: string) => [
  `${kind} Deployment models/${model}`,
  `${kind} ConfigMap models/${model}-#`,
  `${kind} Service models/${model}`,
  `${kind} PodDisruptionBudget models/${model}`,
];

const engine = (kind: "create" | "delete", name: string) => [
  `${kind} Job models/${name}-#`,
  `${kind} ConfigMap models/${name}-#-#`,
];

const rolledOut = (server: string) => [
  `replace ConfigMap models/${server}-#`,
  `update Deployment models/${server}`,
];

const ALERTS = "update PrometheusRule models/engine-room";
const QUOTA = "update ResourceQuota models/stack";
const BOARDS = [
  "replace ConfigMap models/dashboard-engine-room-models",
  "replace ConfigMap models/dashboard-engine-room-overview",
];
/** Boards of GPUs show which model has which. */
const PODS = ["replace ConfigMap models/dashboard-engine-room-gpus", QUOTA];

const kinds: Readonly<Record<string, readonly [change: object, entries: readonly string[]]>> = {
  "all models but one are taken away": [
    { models: [gpt] },
    [
      ...whole("delete", "chat"),
      ...engine("delete", "llama-2-7b-chat"),
      ...rolledOut("gateway"),
      ...BOARDS,
      ...PODS,
      ALERTS,
    ],
  ],
  "encoders are taken away, and with them the databases' servers, and their claims where the stack is not retained":
    [
      { encoders: false },
      [
        ...whole("delete", "encoders"),
        ...engine("delete", "encoders"),
        ...["mongo", "vector"].flatMap((database) => [
          `delete StatefulSet models/${database}`,
          `delete Service models/${database}`,
          `delete NetworkPolicy models/engine-room-${database}`,
        ]),
        "delete NetworkPolicy models/engine-room-encoder-build",
        "delete NetworkPolicy models/engine-room-encoders",
        "update NetworkPolicy models/engine-room-bench",
        "update NetworkPolicy models/engine-room-gateway",
        "update NetworkPolicy models/engine-room-smoke",
        "delete ServiceMonitor models/engine-room-encoders",
        "delete ServiceMonitor models/engine-room-vector",
        "delete ConfigMap models/dashboard-engine-room-databases",
        ...rolledOut("gateway"),
        ...BOARDS,
        ...PODS,
        ALERTS,
      ],
    ],
  "a model is added": [
    { models: [chat, gpt, { ...gpt, name: "second" }] },
    [
      ...whole("create", "second"),
      ...rolledOut("gateway"),
      "update Deployment models/gpt",
      ...BOARDS,
      ...PODS,
      ALERTS,
    ],
  ],
  "the largest batch of a model": [
    { models: [chat, { ...gpt, limits: { maxBatchSize: 2 } }] },
    [
      ...engine("delete", "gpt2-medium"),
      ...engine("create", "gpt2-medium"),
      ...rolledOut("gpt"),
      ALERTS,
      // The server has fewer processes of tensorrt_llm_bls, and asks for less memory.
      QUOTA,
    ],
  ],
  "another model of the same name": [
    { models: [{ ...chat, model: "llama-2-7b" }, gpt] },
    [
      ...engine("delete", "llama-2-7b-chat"),
      ...engine("create", "llama-2-7b"),
      ...rolledOut("chat"),
      ...rolledOut("gateway"),
      ALERTS,
    ],
  ],
  "the instance type of a pool": [
    { pools: [large, { ...small, instanceType: "g6.xlarge" }, cpu] },
    [
      "replace NodeGroup small-machines-group",
      "update Tag small-machines-node-template/label/k8s.amazonaws.com/accelerator",
      ...engine("delete", "gpt2-medium"),
      ...engine("create", "gpt2-medium"),
      ...rolledOut("gpt"),
      ALERTS,
    ],
  ],
  "a larger machine with the same GPU, which needs no other engine": [
    { pools: [large, { ...small, instanceType: "g5.4xlarge", diskGiB: 500 }, cpu] },
    [
      "replace NodeGroup small-machines-group",
      "update Tag small-machines-node-template/resources/ephemeral-storage",
      ALERTS,
    ],
  ],
  "how many machines a pool has": [
    { pools: [{ ...large, nodes: { min: 1, max: 3 } }, small, cpu] },
    ["update NodeGroup large-machines-group"],
  ],
  "the release": [
    { release: "25.03" },
    [
      ...["gpt2-medium", "llama-2-7b-chat"].flatMap((name) => [
        ...engine("delete", name),
        ...engine("create", name),
      ]),
      "replace Job models/encoders-#",
      "replace ConfigMap models/encoders-#-#",
      ...["chat", "encoders", "gateway", "gpt"].flatMap(rolledOut),
      ...BOARDS,
      ALERTS,
    ],
  ],
  "who reaches the gateway": [
    {
      gateway: {
        exposure: "public",
        hostname: "models.example.org",
        tls: {
          certificateArn:
            "arn:aws:acm:us-east-1:111122223333:certificate/12345678-1234-1234-1234-123456789012",
        },
        apiKeys: [{ name: "alice", sha256: "0".repeat(64) }],
      },
    },
    [
      "replace LoadBalancer edge-balancer",
      // It is of one load balancer. Listener and binding follow by its ARN, which no rendered graph has.
      "replace TargetGroup edge-targets",
      "update Listener edge-listener",
      "create SecurityGroupIngressRule edge-from-0-0-0-0-0",
      "delete SecurityGroupIngressRule edge-from-10-64-0-0-16",
      "create Secret models/api-keys-#",
      ...rolledOut("gateway"),
      ALERTS,
    ],
  ],
  "who reaches the API": [{ access: { apiCidrs: ["198.51.100.0/24"] } }, ["update Cluster cluster-cluster"]],
};

test.each(Object.entries(kinds))("%s", async (_name, [change, entries]) => {
  expect(await entriesOf(cluster, change)).toEqual(entries.toSorted());
});

const ranAgain = (task: string) => [
  `replace Association instance-tasks-${task}`,
  `replace Document instance-tasks-${task}-document`,
];

/** Builds run one after the other, and each unit names the one before; what is built already returns at once. */
const REBUILT = [
  ...(["delete", "create"] as const).flatMap((kind) =>
    [
      "Association instance-tasks-build-gpt2-medium-#",
      "Document instance-tasks-build-gpt2-medium-#-document",
    ].map((task) => `${kind} ${task}`),
  ),
  ...ranAgain("build-encoders-#"),
  ...ranAgain("services"),
];

const machines: Readonly<Record<string, readonly [change: object, entries: readonly string[]]>> = {
  "the largest batch of its model": [
    { models: [{ name: "gpt", model: "gpt2-medium", limits: { maxBatchSize: 2 } }] },
    REBUILT,
  ],
  // It grows while databases use it: the setup tells its file system.
  "the size of its databases' disk": [
    { databaseStorage: { sizeGiB: 30 } },
    ["update Volume instance-databases", ...["setup", "services"].flatMap(ranAgain)],
  ],
  "databases elsewhere, which leave its disk as it is": [
    {
      databases: "external",
      externalDatabases: { mongo: { uri: { secure: "v1:YWJj" } }, vector: { url: "http://10.0.0.5:6333" } },
    },
    [
      "create Secret instance-secrets-mongoUri",
      "create SecretVersion instance-secrets-mongoUri-version",
      "create SecurityGroupEgressRule instance-security-egress-mongo",
      "create SecurityGroupEgressRule instance-security-egress-vector",
      ...["setup", "services"].flatMap(ranAgain),
    ],
  ],
  "its type, with the same GPU: what it runs is waited for, since it starts again": [
    { pools: [{ name: "machine", instanceType: "g5.4xlarge" }] },
    ["update Instance instance-machine", ...ranAgain("services")],
  ],
  "its root disk, which it keeps as it is": [
    { pools: [{ name: "machine", instanceType: "g5.2xlarge", diskGiB: 300 }] },
    ["update LaunchTemplate instance-template"],
  ],
  // EC2 stops it, and starts it as the other type.
  "its type": [
    { pools: [{ name: "machine", instanceType: "g6.2xlarge" }] },
    ["update Instance instance-machine", ...REBUILT],
  ],
};

test.each(Object.entries(machines))("one machine: %s", async (_name, [change, entries]) => {
  expect(await entriesOf(instance, change)).toEqual(entries.toSorted());
});

test("other zones of a cluster are what it refuses, and the report says so first", async () => {
  const zoned = (zones: readonly string[]) => stackFileText({ ...cluster, network: { zones } });
  const diff = await diffOfFiles(zoned(["a", "b"]), zoned(["a", "b", "c"]));
  const [section] = dangerSections(diff.resources ?? []);
  const text = JSON.stringify(section);
  expect(text).toContain("Cluster cluster-cluster");
  expect(text).toContain("EKS takes subnets only in the zones");
  const same = await diffOfFiles(
    zoned(["a", "b"]),
    stackFileText({ ...cluster, access: { apiCidrs: ["8.8.8.8/32"] } }),
  );
  expect(JSON.stringify(dangerSections(same.resources ?? []))).not.toContain("EKS takes");
});

const onMachines = async (base: object, change: object) => {
  const diff = await diffOfFiles(stackFileText({ ...base }), stackFileText({ ...base, ...change }));
  return JSON.stringify(machineSections(diff.resources ?? []));
};

test("the report says what another root disk is for machines that are there", async () => {
  const [machine] = instance.pools;
  const larger = await onMachines(instance, { pools: [{ ...machine, diskGiB: 300 }] });
  expect(larger).toContain("LaunchTemplate instance-template");
  expect(larger).toContain("keeps its image and its root disk");
  const pool = await onMachines(cluster, { pools: [large, small, { ...cpu, diskGiB: 300 }] });
  expect(pool).toContain("LaunchTemplate cpu-machines-template");
  expect(pool).toContain("EKS replaces the machines of its pool one at a time");
});

test.each([
  ["another type", { pools: [{ name: "machine", instanceType: "g5.4xlarge" }] }],
  ["a ttl", { guard: { ttlHours: 8 } }],
])("the report says nothing of the kind where one machine gets %s", async (_, change) => {
  expect(await onMachines(instance, change)).toBe("[]");
});

test("a changed ttl replaces no machine, and touches no template that machines are made by", async () => {
  const guarded = (ttlHours: number) => stackFileText({ ...cluster, guard: { ttlHours } });
  const diff = await diffOfFiles(guarded(8), guarded(9));
  const deep = (diff.resources ?? []).filter(
    ({ type, kind, properties }) =>
      kind !== "update" ||
      (/LaunchTemplate|Addon$/.test(type) && properties.some(({ path }) => !path.startsWith("tags"))),
  );
  expect(deep.map(({ label }) => label)).toEqual([]);
  expect(diff.resources).not.toEqual([]);
});
