import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { stackPolicy } from "../../../policy/stack-policy.ts";
import { refusals } from "../../../scripts/diff/blocking-changes.ts";
import { stackDiff } from "../../../scripts/diff/compare.ts";
import { textReport } from "../../../scripts/diff/print.ts";
import { comparablePlan, type RenderedTree, unrendered } from "../../../scripts/diff/rendered-tree.ts";
import { dangerSection } from "../../../scripts/diff/resource-report.ts";
import { NO_SETTINGS, stackSettings } from "../../../scripts/diff/stack-settings.ts";
import type { StackDiff } from "../../../scripts/diff/types.ts";
import { plainInline } from "../../../scripts/markdown.ts";
import { imageLock } from "../../harness/image-lock.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { diffOfFiles, renderedText, resource, summary } from "./fixtures.ts";

const gpt = { name: "gpt", model: "gpt2-medium" };

const chat = { name: "chat", model: "llama-2-7b-chat", minReplicas: 0, replicas: 2 };

const cpuPool = { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } };

const cluster = {
  platform: "kubernetes",
  namespace: "models",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  engines: { whenFull: "stopServer" },
  hub: { token: "hf_aaaaaaaaaaaaaaaaaaaa" },
  databases: "external",
  externalDatabases: {
    mongo: { uri: "mongodb://db.example.org" },
    vector: { url: "https://vector.example.org:6333" },
  },
  pools: [{ name: "gpu", instanceType: "g5.12xlarge" }, cpuPool],
  models: [gpt, chat],
};

async function diffOf(before: object, after: object) {
  const diff = await diffOfFiles(
    stackFileText({ ...cluster, ...before }),
    stackFileText({ ...cluster, ...after }),
  );
  expect([diff.base.failure, diff.head.failure, diff.base.problems, diff.head.problems]).toEqual([
    null,
    null,
    [],
    [],
  ]);
  return diff;
}

/** Entries without the digits that names take from content, and without the properties of each. */
async function entriesOf(after: object): Promise<readonly string[]> {
  const { resources } = await diffOf({}, after);
  return (resources ?? []).map(({ kind, label }) => `${kind} ${label.replaceAll(/-[0-9a-f]{12}\b/g, "-#")}`);
}

async function rebuildsOf(after: object) {
  const { plan } = await diffOf({}, after);
  return plan?.engines.rebuilt.map(({ model, reasons }) => [
    model,
    ...reasons.map(({ field, before, after: now }) => `${field}: ${before} → ${now}`),
  ]);
}

/** The gateway's file has the list of models. */
const GATEWAY = ["replace ConfigMap models/gateway-#", "update Deployment models/gateway"];

const whole = (kind: string, model: string) => [
  `${kind} Deployment models/${model}`,
  `${kind} ConfigMap models/${model}-#`,
  `${kind} Service models/${model}`,
  `${kind} PodDisruptionBudget models/${model}`,
];

/** Another engine: its builder is another Job, and the server gets its new key. */
const rebuilt = (engine: string, server: string) => [
  `delete Job models/${engine}-#`,
  `delete ConfigMap models/${engine}-#-#`,
  `create Job models/${engine}-#`,
  `create ConfigMap models/${engine}-#-#`,
  `replace ConfigMap models/${server}-#`,
  `update Deployment models/${server}`,
];

const QUOTA = "update ResourceQuota models/stack";

/** With one more GPU in use, servers are rolled out on the GPUs that exist. */
const ROLLOUTS = ["update Deployment models/chat", "update Deployment models/gpt"];

/** A build waits for the machine that the other build uses. */
const waits = (engine: string) => `update Job models/${engine}-#`;

interface Expected {
  readonly change: object;
  readonly entries: readonly string[];
  /** Model, then the fields of the engine's key. */
  readonly rebuilds?: readonly (readonly string[])[];
}

const kinds: Readonly<Record<string, Expected>> = {
  "a new model whose engine exists": {
    change: { models: [gpt, chat, { name: "second", model: "gpt2-medium" }] },
    entries: [...GATEWAY, QUOTA, ...ROLLOUTS, ...whole("create", "second")],
  },
  "a removed model": {
    change: { models: [chat] },
    entries: [
      ...GATEWAY,
      QUOTA,
      ...whole("delete", "gpt"),
      "delete Job models/gpt2-medium-#",
      "delete ConfigMap models/gpt2-medium-#-#",
      waits("llama-2-7b-chat"),
    ],
  },
  "a renamed model, whose build has the name as a label,": {
    change: { models: [{ ...gpt, name: "writer" }, chat] },
    entries: [
      ...GATEWAY,
      ...whole("delete", "gpt"),
      ...whole("create", "writer"),
      "replace Job models/gpt2-medium-#",
      "update ConfigMap models/gpt2-medium-#-#",
    ],
  },
  "another largest batch": {
    change: { models: [{ ...gpt, limits: { maxBatchSize: 2 } }, chat] },
    // The server has fewer processes of tensorrt_llm_bls, and asks for less memory.
    entries: [...rebuilt("gpt2-medium", "gpt"), QUOTA],
    rebuilds: [["gpt", "steps.llm --max_batch_size: 4 → 2"]],
  },
  "another release": {
    change: { release: "25.03" },
    entries: [
      ...GATEWAY,
      ...rebuilt("gpt2-medium", "gpt"),
      ...rebuilt("llama-2-7b-chat", "chat"),
      "replace Job models/encoders-#",
      "replace ConfigMap models/encoders-#-#",
      "replace ConfigMap models/encoders-#",
      "update Deployment models/encoders",
      "update ScaledObject models/chat",
    ],
    rebuilds: [
      [
        "chat",
        "tensorRtLlm: 0.20.0 → 0.18.0",
        "tensorRt: 10.10.0.31 → 10.9.0.34",
        "steps.convert: python3 <scripts>/models/core/llama/convert_checkpoint.py → python3 <scripts>/llama/convert_checkpoint.py",
      ],
      [
        "gpt",
        "tensorRtLlm: 0.20.0 → 0.18.0",
        "tensorRt: 10.10.0.31 → 10.9.0.34",
        "steps.convert: python3 <scripts>/models/core/gpt/convert_checkpoint.py → python3 <scripts>/gpt/convert_checkpoint.py",
      ],
    ],
  },
  "another instance type": {
    change: { pools: [{ name: "gpu", instanceType: "g6.12xlarge" }, cpuPool] },
    entries: [...rebuilt("gpt2-medium", "gpt"), ...rebuilt("llama-2-7b-chat", "chat")],
    rebuilds: [
      ["chat", "gpu: A10G 8.6 → L4 8.9"],
      ["gpt", "gpu: A10G 8.6 → L4 8.9"],
    ],
  },
  "other tensor parallelism": {
    change: { models: [gpt, { ...chat, tensorParallel: 2, replicas: 1 }] },
    entries: [
      ...GATEWAY,
      QUOTA,
      ...rebuilt("llama-2-7b-chat", "chat"),
      "update ScaledObject models/chat",
      waits("gpt2-medium"),
    ],
    rebuilds: [["chat", "tensorParallel: 1 → 2", "steps.convert --tp_size: null → 2"]],
  },
  "other quantization": {
    change: { models: [{ ...gpt, quantization: "int8" }, chat] },
    entries: [...rebuilt("gpt2-medium", "gpt"), QUOTA, waits("llama-2-7b-chat")],
    rebuilds: [
      [
        "gpt",
        "quantization: none → int8",
        "steps.convert --use_weight_only: null → ",
        "steps.convert --weight_only_precision: null → int8",
      ],
    ],
  },
  "encoders on a GPU": {
    change: { encoders: { device: "gpu" } },
    // Builds of the pool wait for each other, so that each one's deadline is the sum of all.
    entries: [
      ...rebuilt("encoders", "encoders"),
      "update Job models/gpt2-medium-#",
      "update Job models/llama-2-7b-chat-#",
      QUOTA,
      ...ROLLOUTS,
    ],
  },
  "another range of an autoscaler": {
    change: { models: [gpt, { ...chat, replicas: 1 }] },
    entries: ["update ScaledObject models/chat", QUOTA],
  },
};

test.each(Object.entries(kinds))(
  "%s changes the expected resources of a cluster",
  async (_name, { change, entries, rebuilds = [] }) => {
    expect((await entriesOf(change)).toSorted()).toEqual(entries.toSorted());
    expect(await rebuildsOf(change)).toEqual(rebuilds);
  },
);

test("a changed port of a database is one update of a network policy", async () => {
  const mongo = { ...cluster.externalDatabases.mongo, port: 27_018 };
  const { resources } = await diffOf({}, { externalDatabases: { ...cluster.externalDatabases, mongo } });
  expect(resources?.map(summary)).toEqual([
    "update NetworkPolicy models/engine-room-gateway: spec.egress[4].ports[0].port",
  ]);
  expect(resources?.[0]?.properties).toMatchObject([{ before: "27017", after: "27018", effect: "update" }]);
});

test("a changed label updates every object for monitoring", async () => {
  const monitoring = { monitoring: "prometheus-operator" };
  const labelled = { ...monitoring, monitoringOptions: { labels: { release: "prometheus" } } };
  const { resources } = await diffOf(monitoring, labelled);
  expect(resources?.map(summary)).toEqual([
    "update PrometheusRule models/engine-room: metadata.labels.release",
    "update ServiceMonitor models/engine-room-encoders: metadata.labels.release",
    "update ServiceMonitor models/engine-room-gateway: metadata.labels.release",
    "update ServiceMonitor models/engine-room-gpus: metadata.labels.release",
    "update ServiceMonitor models/engine-room-triton: metadata.labels.release",
  ]);
});

test.each([
  ["in clear", (text: string) => text],
  ["encrypted", (text: string) => ({ secure: `v1:${text}` })],
])("a rotated secret, %s, is reported as changed, and no part of it is shown", async (_form, written) => {
  const token = (text: string) => ({ hub: { token: written(text) } });
  const diff = await diffOf(token("hf_canaryone11111111"), token("hf_canarytwo22222222"));
  expect(diff.secrets).toEqual([{ path: "hub.token", kind: "update" }]);
  expect(diff.resources?.map(summary)).toEqual(["replace Secret models/hub-token: stringData"]);
  expect(diff.resources?.[0]?.properties).toMatchObject([{ before: "[secret]", after: "[secret]" }]);
  for (const text of [JSON.stringify(diff), textReport(diff)]) expect(text).not.toMatch(/canary|\[secret:/);
});

test("a secret in a text of JSON, as `pulumi config set` writes an object, is redacted from a failure", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-secrets-"));
  try {
    const configFile = join(folder, "stack.yaml");
    writeFileSync(configFile, `config:\n  engine-room:hub: '{"token":"hf_canary"}'\n`);
    const settings = stackSettings({ configFile });
    expect([...settings.secrets]).toEqual([["hub.token", "hf_canary"]]);
    const side = { tree: unrendered("The token hf_canary is bad."), settings, policy: null };
    const base = { ref: null, commit: null, hasStack: true, ...side };
    expect(JSON.stringify(stackDiff("demo", base, side))).not.toContain("canary");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("another order of keys, comments and formatting change nothing, and a comparison gives the same bytes each time", async () => {
  const text = stackFileText(cluster);
  const reordered = Object.fromEntries(Object.entries(cluster).toReversed());
  const edited = `# A comment.\n${stackFileText(reordered).replaceAll("\n", "\n\n")}`;
  const none = await diffOfFiles(text, edited);
  expect(none).toMatchObject({ resources: [], secrets: [], plan: { engines: { rebuilt: [] }, cost: [] } });
  expect(none.unchanged).toBeGreaterThan(40);
  const changed = stackFileText({ ...cluster, models: [chat] });
  expect(JSON.stringify(await diffOfFiles(text, changed))).toBe(
    JSON.stringify(await diffOfFiles(text, changed)),
  );
});

const OWN_DATABASES = { databases: "container", externalDatabases: undefined };

test("the report says that databases in another namespace start empty", async () => {
  const text = textReport(await diffOf(OWN_DATABASES, { ...OWN_DATABASES, namespace: "others" }));
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "StatefulSet models/mongo → StatefulSet others/mongo is replaced: the claims of its pods stay with their data; a set of another name or namespace starts empty",
  );
});

test("the report says that the claims of larger databases stay as they are", async () => {
  const stored = (sizeGiB: number) => ({ ...OWN_DATABASES, databaseStorage: { sizeGiB } });
  const text = textReport(await diffOf(stored(50), stored(60)));
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "StatefulSet models/mongo is replaced: the claims of its pods stay with their data",
  );
});

test("the report says that the retained claim of the engine store blocks a claim of another class", async () => {
  const diff = await diffOf({}, { engineStore: { storageClass: "efs", sizeGiB: 200 } });
  expect(textReport(diff).replaceAll(/\s+/g, " ")).toContain(
    "PersistentVolumeClaim models/engine-store is replaced: it is retained: the old resource stays, outside of any stack, and a new resource can't have its name",
  );
});

test("a stack file with problems has its problems and no resources", async () => {
  const { resources, plan, head } = await diffOfFiles(
    stackFileText(cluster),
    stackFileText({ ...cluster, models: [{ ...gpt, size: 1 }] }),
  );
  expect({ resources, plan, failure: head.failure }).toEqual({ resources: null, plan: null, failure: null });
  expect(head.problems).toMatchObject([{ path: "models[0].size", reason: "Unknown key." }]);
});

test("images that are built after the merge are only advice in its difference, and break no mandatory policy", async () => {
  const { plan: locked } = checkedPlan({ ...cluster });
  if (locked.platform !== "kubernetes") throw new Error("The stack of the test is for a cluster.");
  const folder = mkdtempSync(join(tmpdir(), "engine-room-lock-"));
  try {
    const file = join(folder, "images.lock.json");
    writeFileSync(file, imageLock(locked));
    vi.stubEnv("ENGINE_ROOM_IMAGE_LOCK", file);
    const base = await renderedText(`# With digests.\n${stackFileText(cluster)}`);
    vi.unstubAllEnvs();
    // As after a change of a source of each image.
    const head = await renderedText(stackFileText(cluster));
    const diff = stackDiff("demo", { ref: null, commit: null, ...base, hasStack: true }, head);
    expect(refusals(diff)).toEqual([]);
    const digests = diff.violations.filter(({ policy }) => policy === "image-has-digest");
    expect(new Set(digests.map(({ level, isNew }) => `${level} ${isNew}`))).toEqual(
      new Set(["advisory true"]),
    );
    expect(digests.map(({ resource }) => resource)).toContain("Deployment models/gateway");
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
});

test("broken policies have the resource's label, and say whether they are new", async () => {
  const { violations } = await diffOf({}, { images: { registry: "registry.example.org/other" } });
  const digests = violations.filter(({ policy }) => policy === "image-has-digest");
  expect(digests.map(({ level, resource }) => [level, resource])).toContainEqual([
    "advisory",
    "Deployment models/gateway",
  ]);
  // The reason names the image, which is another one now, and has no digest as before.
  expect(digests.filter(({ isNew }) => isNew)).toEqual([]);
  const unchanged = await diffOf({}, {});
  expect(unchanged.violations.length).toBeGreaterThan(0);
  expect(unchanged.violations.some(({ isNew }) => isNew)).toBe(false);
});

describe("a stack on AWS", () => {
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

  /** The dashboard of GPUs shows the models on them. */
  const PODS = ["replace ConfigMap models/dashboard-engine-room-gpus", QUOTA];

  const kinds: Readonly<Record<string, readonly [change: object, entries: readonly string[]]>> = {
    "removing all models but one": [
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
    "removing encoders, and with them the databases of a stack that is not retained,": [
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
    "a new model": [
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
    "another largest batch of a model": [
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
    "another instance type of a pool": [
      { pools: [large, { ...small, instanceType: "g6.xlarge" }, cpu] },
      [
        "replace NodeGroup small-machines-group",
        "update Tag small-machines-node-template/label/engine-room/gpu",
        "update Tag small-machines-node-template/label/k8s.amazonaws.com/accelerator",
        ...engine("delete", "gpt2-medium"),
        ...engine("create", "gpt2-medium"),
        ...rolledOut("gpt"),
        ALERTS,
      ],
    ],
    // The engine stays the same.
    "a larger machine with the same GPU": [
      { pools: [large, { ...small, instanceType: "g5.4xlarge", diskGiB: 500 }, cpu] },
      [
        "replace NodeGroup small-machines-group",
        "update Tag small-machines-node-template/resources/ephemeral-storage",
        ALERTS,
      ],
    ],
    "another number of machines in a pool": [
      { pools: [{ ...large, nodes: { min: 1, max: 3 } }, small, cpu] },
      ["update NodeGroupSize large-machines-size"],
    ],
    "another release": [
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
    "a public gateway": [
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
        // A target group has one load balancer. Listener and binding get its ARN, which rendered graphs lack.
        "replace TargetGroup edge-targets",
        "update Listener edge-listener",
        "create SecurityGroupIngressRule edge-from-0-0-0-0-0",
        "delete SecurityGroupIngressRule edge-from-10-64-0-0-16",
        "create Secret models/api-keys-#",
        ...rolledOut("gateway"),
        ALERTS,
      ],
    ],
    "another range that reaches the API": [
      { access: { apiCidrs: ["198.51.100.0/24"] } },
      ["update Cluster cluster-cluster"],
    ],
  };

  test.each(Object.entries(kinds))(
    "%s changes the expected resources on AWS",
    async (_name, [change, entries]) => {
      expect(await entriesOf(cluster, change)).toEqual(entries.toSorted());
    },
  );

  const ranAgain = (task: string) => [
    `replace Association instance-tasks-${task}`,
    `replace Document instance-tasks-${task}-document`,
  ];

  /** All files are written before the setup, which replaces the Compose file. */
  const REBUILT = [
    ...(["delete", "create"] as const).flatMap((kind) =>
      [
        "Association instance-tasks-build-gpt2-medium-#",
        "Document instance-tasks-build-gpt2-medium-#-document",
      ].map((task) => `${kind} ${task}`),
    ),
    ...["files-1", "setup", "services"].flatMap(ranAgain),
    // The build has another name; AWS assigns ids of associations.
    "update ReadyMachine instance-ready",
  ];

  const machines: Readonly<Record<string, readonly [change: object, entries: readonly string[]]>> = {
    "another largest batch": [
      { models: [{ name: "gpt", model: "gpt2-medium", limits: { maxBatchSize: 2 } }] },
      REBUILT,
    ],
    // The disk grows while databases use it, and the setup grows its file system.
    "a larger disk for databases": [
      { databaseStorage: { sizeGiB: 30 } },
      ["update Volume instance-databases", ...["setup", "services"].flatMap(ranAgain)],
    ],
    "external databases": [
      {
        databases: "external",
        externalDatabases: { mongo: { uri: { secure: "v1:YWJj" } }, vector: { url: "http://10.0.0.5:6333" } },
      },
      [
        "create Secret instance-secrets-mongoUri",
        "create SecretVersion instance-secrets-mongoUri-version",
        "create SecurityGroupEgressRule instance-security-egress-mongo",
        "create SecurityGroupEgressRule instance-security-egress-vector",
        ...["files-1", "setup", "services"].flatMap(ranAgain),
      ],
    ],
    // It starts again, so its services are waited for.
    "another type with the same GPU": [
      { pools: [{ name: "machine", instanceType: "g5.4xlarge" }] },
      ["update Instance instance-machine", ...ranAgain("services")],
    ],
    "a larger root disk": [
      { pools: [{ name: "machine", instanceType: "g5.2xlarge", diskGiB: 300 }] },
      ["update LaunchTemplate instance-template"],
    ],
    // EC2 stops the machine, and starts it with the other type.
    "a type with another GPU": [
      { pools: [{ name: "machine", instanceType: "g6.2xlarge" }] },
      ["update Instance instance-machine", ...REBUILT],
    ],
  };

  test.each(Object.entries(machines))(
    "%s changes the expected resources of one machine on EC2",
    async (_name, [change, entries]) => {
      expect(await entriesOf(instance, change)).toEqual(entries.toSorted());
    },
  );

  test("the report says first that EKS refuses other zones of a cluster", async () => {
    const zoned = (zones: readonly string[]) => stackFileText({ ...cluster, network: { zones } });
    const diff = await diffOfFiles(zoned(["a", "b"]), zoned(["a", "b", "c"]));
    const text = JSON.stringify(dangerSection(diff.resources ?? []));
    expect(text).toContain("Cluster cluster-cluster");
    expect(text).toContain("EKS takes subnets only in the zones");
    const same = await diffOfFiles(
      zoned(["a", "b"]),
      stackFileText({ ...cluster, access: { apiCidrs: ["8.8.8.8/32"] } }),
    );
    expect(JSON.stringify(dangerSection(same.resources ?? []))).not.toContain("EKS takes");
  });

  const onMachines = async (base: object, change: object) => {
    const diff = await diffOfFiles(stackFileText({ ...base }), stackFileText({ ...base, ...change }));
    return JSON.stringify(dangerSection(diff.resources ?? []).entries);
  };

  test("the report says what another root disk means for running machines", async () => {
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
  ])("the report says nothing of running machines if one machine gets %s", async (_, change) => {
    expect(await onMachines(instance, change)).toBe("[]");
  });

  test("a changed ttl replaces no machine, and changes no launch template but its tags", async () => {
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
});

const values = {
  platform: "kubernetes",
  images: { registry: "registry.example.org/engine-room" },
  engineStore: { storageClass: "nfs", sizeGiB: 200 },
  pools: [
    { name: "gpu", instanceType: "g5.12xlarge" },
    { name: "cpu", machine: { vcpus: 8, memoryGiB: 32 } },
  ],
  models: [{ name: "gpt", model: "gpt2-medium" }],
};

const { plan, warnings } = checkedPlan(values);
if (plan.tier !== "gpu") throw new Error("This is no stack on GPUs.");

/** Plan of a program that fails with a sentence. */
const planned = { ...unrendered("It can't be deployed."), plan: comparablePlan(plan, warnings) };

const policy = stackPolicy("demo", {
  ...Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      `engine-room:${key}`,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  ),
});

test("without a graph of the head no policy is checked, and without a graph of the base violations may be old", () => {
  const base = { ref: null, commit: null, hasStack: true, settings: NO_SETTINGS, policy: null };
  const graph = { ...planned, failure: null, resources: [], outputs: {} };
  const diffTo = (before: RenderedTree, after: RenderedTree, hasStack = true) =>
    stackDiff("demo", { ...base, tree: before, hasStack }, { tree: after, settings: NO_SETTINGS, policy });
  expect(diffTo(planned, planned)).toMatchObject({ resources: null, violations: [] });
  expect(diffTo(planned, planned).uncheckedPolicies).toContainEqual({
    policy: "image-has-digest",
    level: "mandatory",
  });
  const pod = resource("kubernetes:core/v1:Pod", "a", {
    spec: { containers: [{ name: "a", image: "i:1" }] },
  });
  const broken = { ...graph, resources: [pod] };
  const refused = (diff: StackDiff) => refusals(diff).map(plainInline).join("\n");
  expect(refused(diffTo(graph, broken))).toContain(
    "The change breaks the mandatory policy image-has-digest by Pod a",
  );
  expect(refused(diffTo(unrendered("It has no stack file."), broken, false))).toContain("image-has-digest");
  const ofUnreadBase = diffTo(unrendered("npm ci failed."), broken);
  expect(new Set(ofUnreadBase.violations.map(({ isNew }) => isNew))).toEqual(new Set([null]));
  expect(refused(ofUnreadBase)).toMatch(
    /^The stack breaks the mandatory policy image-has-digest by Pod a.* The base could not be rendered, /m,
  );
  expect(refused(diffTo(planned, planned))).toMatch(/^\d mandatory policies can't be checked/);
  expect(refused(diffTo(graph, planned))).toMatch(
    /^The stack can't be rendered, and the base can: It can't be deployed\.\n\d/,
  );
  expect(refused(diffTo(planned, graph))).toBe("");
});
