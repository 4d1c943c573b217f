/** `platform: kubernetes`: what a stack says of the cluster that it runs in, with GPUs or without. */
import { z } from "zod";
import {
  cpuImages,
  databaseChoice,
  formattedText,
  formMessage,
  gpuImages,
  httpUrl,
  minEncoderReplicas,
  minGateways,
  minReplicas,
  policies,
  remoteGateway,
  replicas,
  resourceName,
  secret,
  section,
  vectorUrl,
} from "./common.ts";
import { clusterEncodersOrNone, cpuEncoders } from "./encoders.ts";
import { cpuModels, gpuModel, gpuModels, pool, pools, prePullImages, shared } from "./models.ts";

/** Name and value of a label, as Kubernetes has them. */
const labelName = formattedText(
  /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/,
  "the name of a label, with a prefix and `/` if it has one",
  "nvidia.com/gpu.product",
);
const labelValue = formattedText(
  /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/,
  "the value of a label, at most 63 letters, digits, points, hyphens and underscores",
  "NVIDIA-A10G",
);

const toleration = z.strictObject({
  /** Key of the taint. */
  key: labelName,
  /** `Exists`: any value of the taint. `Equal`: only `value`. */
  operator: z.enum(["Exists", "Equal"]).default("Exists"),
  /** Value of the taint, with `operator: Equal`. */
  value: labelValue.optional(),
  /** Absent: every effect. */
  effect: z.enum(["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
});

/** Labels that a machine must have. */
const nodeSelector = z.record(labelName, labelValue).default({});
/** Taints of machines that pods may run on all the same. */
const tolerations = z.array(toleration).max(20).default([]);

export const clusterModel = gpuModel.extend({
  minReplicas,
  /**
   * How a server is replaced: `surge` starts the new server first, `inPlace` frees the GPU first. Absent: `surge` if the
   * pool has room for one more.
   */
  rollout: z.enum(["surge", "inPlace"]).optional(),
  /**
   * Copies the engine to the machine's disk before Triton loads it, by eight parallel reads: for a store that limits the
   * throughput of a single reader. Each server takes the engine's size on the disk.
   */
  copyEngine: z.boolean().default(false),
});

/** A key of a Secret that is in the namespace already. */
const secretKey = (key: string, example: string) =>
  z.strictObject({
    /** Name of the Secret. */
    name: resourceName(example),
    /** Key in the Secret. */
    key: z.string().min(1).max(253).default(key),
  });

const size = z.int().min(1).max(100_000);

/** Secrets of the namespace with credentials of the registry. */
const pullSecrets = z.array(resourceName("registry-login")).max(10).default([]);

const monitoringOptions = z.strictObject({
  /** By which Prometheus selects monitors and rules, such as `release: kube-prometheus-stack`. */
  labels: z.record(labelName, labelValue).default({}),
  /** Labels by which the Grafana sidecar finds dashboards. */
  dashboardLabels: z.record(labelName, labelValue).default({ grafana_dashboard: "1" }),
  /** Time between two readings of the metrics. */
  intervalSeconds: z.int().min(5).max(300).default(15),
  /** Where this project's docs/runbooks is on the web, for the links of alerts. */
  runbookUrl: formattedText(
    /^https?:\/\/\S+$/,
    "an address on the web",
    "https://git.example.org/engine-room/docs/runbooks",
  ).optional(),
});

interface CronField {
  readonly least: number;
  readonly most: number;
  /** Names of the least number and of those after it. */
  readonly names?: readonly string[];
}

/** As KEDA's parser takes them, in their order: https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format */
const CRON_FIELDS: readonly CronField[] = [
  { least: 0, most: 59 },
  { least: 0, most: 23 },
  { least: 1, most: 31 },
  { least: 1, most: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec".split(" ") },
  { least: 0, most: 6, names: "sun mon tue wed thu fri sat".split(" ") },
];

/** `*`, `1-5`, `mon-fri`, `0,30`, and a step after any of them. */
function isCronField(text: string, { least, most, names = [] }: CronField): boolean {
  return text.split(",").every((part) => {
    const [, range] = /^([*?]|\w+(?:-\w+)?)(?:\/[1-9]\d?)?$/.exec(part) ?? [];
    if (range === undefined || range === "*" || range === "?") return range !== undefined;
    const [from = 0, to = from] = range.split("-").map((end) => {
      const named = names.indexOf(end.toLowerCase());
      return named >= 0 ? named + least : /^\d{1,2}$/.test(end) ? Number(end) : Number.NaN;
    });
    return from >= least && to <= most && from <= to;
  });
}

const cron = z.string().refine(
  (text) => {
    const fields = text.split(" ");
    return (
      fields.length === CRON_FIELDS.length &&
      CRON_FIELDS.every((field, index) => isCronField(fields[index] ?? "", field))
    );
  },
  formMessage(
    "five fields: minute (0 to 59), hour (0 to 23), day of the month (1 to 31), month (1 to 12), day of the week (0, Sunday, to 6)",
    "0 8 * * 1-5",
  ),
);

/** By the IANA database that comes with Node. */
function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

/**
 * When models with `minReplicas` have a server without requests. At other times `minReplicas` and the load decide: with 0
 * they sleep until the next request.
 */
export const schedule = z.strictObject({
  /** When the time with servers begins. */
  start: cron,
  /** When it ends. */
  end: cron,
  /** Time zone of `start` and `end`. */
  timeZone: z.string().refine(isTimeZone, formMessage("a time zone of the IANA database", "Europe/Berlin")),
  /** Servers of each model meanwhile, at most its `replicas`. */
  replicas,
});

/** Parts for every cluster, also for one that a stack on AWS makes. */
export const databaseVolume = {
  /** Class of the volumes; absent: the cluster's default class. */
  storageClass: resourceName("fast-ssd").optional(),
  /** Size of each volume. */
  sizeGiB: size.default(20),
};

export const clusterParts = {
  /** Namespace of everything that the stack makes. */
  namespace: resourceName("engine-room").default("engine-room"),
  /**
   * Namespaces whose pods may ask Triton itself, in addition to the gateway: a notebook's, or a service's that speaks Triton's
   * protocol. Triton has no keys.
   */
  tritonClients: z.array(resourceName("notebooks")).max(20).default([]),
  /** Namespace of Prometheus, the only one that reaches metrics. */
  monitoringNamespace: resourceName("monitoring").default("monitoring"),
  /** For services with `minReplicas`. */
  autoscaling: section({
    /** `keda` queries Prometheus, and scales to zero; `hpa` takes the external metrics API, and does not. */
    mechanism: z.enum(["keda", "hpa"]).default("keda"),
    /** Prometheus, as KEDA's operator reaches it. Absent: its operator's Service in `monitoringNamespace`. */
    prometheusUrl: httpUrl("http://prometheus.monitoring:9090").optional(),
    /** How long the load must stay low before a server is removed; Kubernetes allows at most 3600. */
    scaleDownSeconds: z.int().min(0).max(3600).default(600),
  }),
  schedule: schedule.optional(),
  databases: databaseChoice,
  /** Only with `databases: external`; addresses and keys are secrets of the stack file, or of the namespace. */
  externalDatabases: z
    .strictObject({
      /** A MongoDB server. */
      mongo: z.strictObject({
        /** A `mongodb://` or `mongodb+srv://` address. */
        uri: secret.optional(),
        uriSecret: secretKey("uri", "mongo-uri").optional(),
        /** Port of all its servers, to which the network policy lets the gateway connect. */
        port: z.int().min(1).max(65535).default(27_017),
      }),
      /** A Qdrant server. */
      vector: z.strictObject({
        url: vectorUrl,
        /** API key of the server; absent: the server requires no key. */
        apiKey: secret.optional(),
        apiKeySecret: secretKey("api-key", "vector-key").optional(),
      }),
    })
    .optional(),
  /** Volume of each of the stack's two own databases. */
  databaseStorage: section(databaseVolume),
};

export const gpuMonitoringOptions = monitoringOptions
  .extend({
    /** Service of dcgm-exporter, as the GPU operator makes it; `false`: the cluster has no exporter. */
    gpuExporter: z
      .union([
        z.literal(false),
        z.strictObject({
          /** Namespace of the Service. */
          namespace: resourceName("gpu-operator").default("gpu-operator"),
          /** Labels of the Service. */
          labels: z.record(labelName, labelValue).default({ app: "nvidia-dcgm-exporter" }),
          /** Name of its port. */
          port: resourceName("gpu-metrics").default("gpu-metrics"),
        }),
      ])
      .prefault({}),
  })
  .prefault({});

/** Parts for an existing cluster. */
const existingClusterParts = {
  ...clusterParts,
  /** Whether the stack creates the namespace; absent: it does, unless the stack file names a claim or a Secret in it. */
  createNamespace: z.boolean().optional(),
  /** Stacks whose engine store, databases and namespace `down` keeps; absent: all stacks; empty: none. */
  retain: z.array(z.string().min(1).max(100)).max(50).optional(),
  /** Context of the kubeconfig; absent: the current one. */
  context: z.string().min(1).max(253).optional(),
  /** `create` needs the right to make PriorityClasses, which are the cluster's; with `none` nothing takes another's place. */
  priorityClasses: z.enum(["create", "none"]).default("create"),
  /** `prometheus-operator`: monitors, alert rules and dashboards for the operator and the Grafana sidecar of the cluster. */
  monitoring: z.enum(["prometheus-operator", "none"]).default("none"),
  gateway: remoteGateway
    .extend({
      /** Class of the Ingress that `hostname` makes; absent: the cluster's default class. */
      ingressClass: resourceName("nginx").optional(),
      /** A Gateway of the Gateway API, to which `hostname` makes an HTTPRoute; absent: `hostname` makes an Ingress. */
      route: z
        .strictObject({
          /** Name of the Gateway. */
          gateway: resourceName("public"),
          /** Absent: the stack's own. */
          namespace: resourceName("gateways").optional(),
          /** Name of a listener; absent: all listeners for the host name. */
          listener: resourceName("https").optional(),
          /** Whether the listener terminates TLS: the certificate is the listener's, not the route's. */
          tls: z.boolean().default(true),
        })
        .optional(),
      minReplicas: minGateways,
    })
    .prefault({}),
};

const clusterPool = pool.extend({
  /** How the machines are paid: your own, by the hour, or spot machines, which may be taken back. */
  capacity: z.enum(["owned", "onDemand", "spot"]).default("owned"),
  /** Labels of the pool's machines; needed if the cluster has several pools with GPUs. */
  nodeSelector,
  /** In addition to that of the taint `nvidia.com/gpu`, which pods with GPUs have anyway. */
  tolerations,
  /** Resource by which the device plugin gives out a GPU, or a part of one; absent: the plugin's own name for it. */
  gpuResource: formattedText(
    /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/,
    "the name of an extended resource",
    "nvidia.com/gpu.shared",
  ).optional(),
  prePullImages,
});

export const kubernetesStack = z.strictObject({
  platform: z.literal("kubernetes"),
  ...shared,
  /** Language and vision-language models that the stack serves. */
  models: gpuModels(clusterModel),
  encoders: clusterEncodersOrNone,
  /** Machines of the cluster; its own autoscaler may add more, up to `max`. */
  pools: pools(clusterPool),
  ...existingClusterParts,
  monitoringOptions: gpuMonitoringOptions,
  engineStore: section({
    /** Absent: the cluster's default class, or none if `existingVolume` names the volume itself. */
    storageClass: resourceName("nfs-client").optional(),
    /** A claim of the namespace. */
    existingClaim: resourceName("engines").optional(),
    /** An unclaimed PersistentVolume, to which the stack's claim is bound. */
    existingVolume: resourceName("engines-nfs").optional(),
    /** `ReadWriteOnce` is for stacks on one machine. */
    accessMode: z.enum(["ReadWriteMany", "ReadWriteOnce"]).default("ReadWriteMany"),
    /** Size of the volume for weights and engines. */
    sizeGiB: size.default(200),
    /** Read throughput of one client. */
    readMBPerSecond: z.int().min(1).max(100_000).default(200),
  }),
  /** Token of the model hub, for gated models. */
  hub: section({ token: secret.optional(), tokenSecret: secretKey("token", "hub-token").optional() }),
  images: gpuImages.extend({ pullSecrets }).prefault({}),
});

/** The same services in any cluster: kind, minikube, or one whose GPUs are others'. */
export const kubernetesCpuStack = z.strictObject({
  platform: z.literal("kubernetes"),
  tier: z.literal("cpu"),
  /** Language models: a name, a row of the catalogue, and limits each. */
  models: cpuModels({ replicas, minReplicas }),
  encoders: cpuEncoders.extend({ replicas, minReplicas: minEncoderReplicas }).prefault({}),
  ...existingClusterParts,
  monitoringOptions: monitoringOptions.prefault({}),
  /** Machines for all pods; absent: any without taints. */
  machines: section({ nodeSelector, tolerations }),
  images: cpuImages.extend({ pullSecrets }).prefault({}),
  policies,
});
