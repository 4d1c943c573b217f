/** Each kind of change to a stack once, with what a person expects of it. */
import { expect, test } from "vitest";
import { textReport } from "../../../scripts/diff/report/text.ts";
import { stackFileText } from "../../harness/stack-files.ts";
import { diffOfFiles, summary } from "./fixtures.ts";

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

/** With one more GPU in use, servers are rolled out within those that there are. */
const ROLLOUTS = ["update Deployment models/chat", "update Deployment models/gpt"];

/** A build waits for the machine that the other one uses. */
const waits = (engine: string) => `update Job models/${engine}-#`;

interface Expected {
  readonly change: object;
  readonly entries: readonly string[];
  /** Model, then the fields of the engine's key. */
  readonly rebuilds?: readonly (readonly string[])[];
}

const kinds: Readonly<Record<string, Expected>> = {
  "a model added, whose engine is there": {
    change: { models: [gpt, chat, { name: "second", model: "gpt2-medium" }] },
    entries: [...GATEWAY, QUOTA, ...ROLLOUTS, ...whole("create", "second")],
  },
  "a model removed": {
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
  "a model renamed: its build has the name as a label": {
    change: { models: [{ ...gpt, name: "writer" }, chat] },
    entries: [
      ...GATEWAY,
      ...whole("delete", "gpt"),
      ...whole("create", "writer"),
      "replace Job models/gpt2-medium-#",
      "update ConfigMap models/gpt2-medium-#-#",
    ],
  },
  "the largest batch": {
    change: { models: [{ ...gpt, limits: { maxBatchSize: 2 } }, chat] },
    // The server has fewer processes of tensorrt_llm_bls, and asks for less memory.
    entries: [...rebuilt("gpt2-medium", "gpt"), QUOTA],
    rebuilds: [["gpt", "steps.llm --max_batch_size: 4 → 2"]],
  },
  "the release": {
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
  "the instance type": {
    change: { pools: [{ name: "gpu", instanceType: "g6.12xlarge" }, cpuPool] },
    entries: [...rebuilt("gpt2-medium", "gpt"), ...rebuilt("llama-2-7b-chat", "chat")],
    rebuilds: [
      ["chat", "gpu: A10G 8.6 → L4 8.9"],
      ["gpt", "gpu: A10G 8.6 → L4 8.9"],
    ],
  },
  "tensor parallelism": {
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
  quantization: {
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
  "the range of an autoscaler": {
    change: { models: [gpt, { ...chat, replicas: 1 }] },
    entries: ["update ScaledObject models/chat", QUOTA],
  },
};

test.each(Object.entries(kinds))("%s", async (_name, { change, entries, rebuilds = [] }) => {
  expect((await entriesOf(change)).toSorted()).toEqual(entries.toSorted());
  expect(await rebuildsOf(change)).toEqual(rebuilds);
});

test("a port of a network policy", async () => {
  const mongo = { ...cluster.externalDatabases.mongo, port: 27_018 };
  const { resources } = await diffOf({}, { externalDatabases: { ...cluster.externalDatabases, mongo } });
  expect(resources?.map(summary)).toEqual([
    "update NetworkPolicy models/engine-room-gateway: spec.egress[4].ports[0].port",
  ]);
  expect(resources?.[0]?.properties).toMatchObject([{ before: "27017", after: "27018", effect: "update" }]);
});

test("a label", async () => {
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
])("a rotated secret, %s, shows as changed and nothing of it shows", async (_form, written) => {
  const token = (text: string) => ({ hub: { token: written(text) } });
  const diff = await diffOf(token("hf_canaryone11111111"), token("hf_canarytwo22222222"));
  expect(diff.secrets).toEqual([{ path: "hub.token", kind: "update" }]);
  expect(diff.resources?.map(summary)).toEqual(["replace Secret models/hub-token: stringData"]);
  expect(diff.resources?.[0]?.properties).toMatchObject([{ before: "[secret]", after: "[secret]" }]);
  for (const text of [JSON.stringify(diff), textReport(diff)]) expect(text).not.toMatch(/canary|\[secret:/);
});

test("other keys first, comments and another formatting change nothing, and twice the same bytes", async () => {
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

test("another namespace: databases of the stack's own start empty", async () => {
  const text = textReport(await diffOf(OWN_DATABASES, { ...OWN_DATABASES, namespace: "others" }));
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "StatefulSet models/mongo is replaced by others/mongo: models/container-data-mongo stays with what it stores, and the new one starts empty",
  );
});

test("larger databases: their claims stay as they are", async () => {
  const stored = (sizeGiB: number) => ({ ...OWN_DATABASES, databaseStorage: { sizeGiB } });
  const text = textReport(await diffOf(stored(50), stored(60)));
  expect(text.replaceAll(/\s+/g, " ")).toContain(
    "models/container-data-mongo stays as it is, with 50Gi and not 60Gi",
  );
});

test("another class of the engine store: the old claim is in the way of the new one", async () => {
  const diff = await diffOf({}, { engineStore: { storageClass: "efs", sizeGiB: 200 } });
  expect(textReport(diff).replaceAll(/\s+/g, " ")).toContain(
    "PersistentVolumeClaim models/engine-store is replaced: it is retained and the new one has its name:",
  );
});

test("a stack file with problems has no graph, and its problems", async () => {
  const { resources, plan, head } = await diffOfFiles(
    stackFileText(cluster),
    stackFileText({ ...cluster, models: [{ ...gpt, size: 1 }] }),
  );
  expect({ resources, plan, failure: head.failure }).toEqual({ resources: null, plan: null, failure: null });
  expect(head.problems).toMatchObject([{ path: "models[0].size", reason: "There is no such key." }]);
});

test("rules that the stack breaks, by the resource's label, and which of them are new", async () => {
  const { violations } = await diffOf({}, { images: { registry: "registry.example.org/other" } });
  const digests = violations.filter(({ policy }) => policy === "image-has-digest");
  expect(digests.map(({ level, resource }) => [level, resource])).toContainEqual([
    "mandatory",
    "Deployment models/gateway",
  ]);
  // The reason names the image, which is another one now.
  expect(digests.every(({ isNew }) => isNew)).toBe(true);
  const unchanged = await diffOf({}, {});
  expect(unchanged.violations.length).toBeGreaterThan(0);
  expect(unchanged.violations.some(({ isNew }) => isNew)).toBe(false);
});
