/** The cluster that a stack runs in, as the stack file says it. */
import type { CpuStackConfig, GpuStackConfig } from "../../config/config.ts";
import type { BaseChoice } from "../docker/image-sources.ts";
import type { AutoscalerPlan } from "./operations-types.ts";
import type { Labels, SecretName, SecretReference, Toleration } from "./pod-types.ts";
import type { Rollout, SecretProviderPlan, StorePlan } from "./types.ts";

type GpuClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;
type CpuClusterConfig = Extract<CpuStackConfig, { platform: "kubernetes" }>;
export type ClusterConfig = GpuClusterConfig | CpuClusterConfig;

type ClusterDatabases =
  | {
      /** `mock`: this project's own small servers. `container`: MongoDB and Qdrant themselves. */
      readonly kind: "mock" | "container";
      /** null: the cluster's default class. */
      readonly storageClass: string | null;
      readonly sizeGiB: number;
    }
  | {
      readonly kind: "external";
      /** Files are of the gateway's pod. */
      readonly mongo: { readonly uriFile: string };
      readonly vector: { readonly url: string; readonly apiKeyFile?: string | undefined };
      readonly mongoPort: number;
      /** By the path of the file that holds each. */
      readonly secrets: Readonly<Record<string, SecretReference>>;
    };

/** How pods find the machines of a pool, and name its GPUs. */
interface PoolAccess {
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: readonly Toleration[];
  /** null: as the device plugin names it. */
  readonly gpuResource: string | null;
}

/** What both tiers say of it. */
interface ClusterParts {
  /** Context of the kubeconfig; null: the current one. */
  readonly context: string | null;
  readonly namespace: {
    readonly name: string;
    readonly isCreated: boolean;
    /** Besides the stack's own and those of Pod Security. */
    readonly labels: Labels;
  };
  readonly secretProviders: readonly Omit<SecretProviderPlan, "labels">[];
  /** Namespaces whose pods may ask Triton itself. */
  readonly tritonClients: readonly string[];
  /** Where Prometheus runs. */
  readonly monitoringNamespace: string;
  /** null: nobody is told of the metrics. */
  readonly monitoring: {
    /** Of monitors and rules, beside the stack's own. */
    readonly labels: Labels;
    /** By which Grafana's sidecar finds dashboards. */
    readonly dashboardLabels: Labels;
    readonly intervalSeconds: number;
    /** Where the exporter of GPUs' metrics is; null: it is not read. */
    readonly gpuExporter: {
      readonly namespace: string;
      /** Of its Service. */
      readonly labels: Labels;
      /** Name of its Service's port. */
      readonly port: string;
    } | null;
    /** Folder of docs/runbooks on the web; null: alerts name the files. */
    readonly runbookUrl: string | null;
  } | null;
  /** Stacks whose data `down` leaves; null: it leaves them, whatever the stack's name is. */
  readonly retained: readonly string[] | null;
  readonly createsPriorities: boolean;
  /** null: the stack has no encoders, and documents are found by their vectors. */
  readonly databases: ClusterDatabases | null;
  /** Where images are pushed to; null: the stack can't be deployed unless all of them are locked. */
  readonly registry: string | null;
  readonly imageBases: BaseChoice["bases"];
  readonly imagePullSecrets: readonly string[];
  readonly autoscaling: {
    readonly mechanism: AutoscalerPlan["mechanism"];
    readonly prometheusUrl: string;
    readonly scaleDownSeconds: number;
  };
  /** null: servers of models follow the load alone. */
  readonly schedule: NonNullable<ClusterConfig["schedule"]> | null;
  /** By the Deployment's name, of those whose number an autoscaler owns. */
  readonly minReplicas: Readonly<Record<string, number>>;
  /** null: the gateway is reached inside of the cluster only. */
  readonly ingress: {
    readonly host: string;
    readonly className: string | null;
    /** The Secret with the certificate; null: no TLS. */
    readonly tlsSecret: string | null;
    /** Of cert-manager, which makes the certificate; null: it is there. */
    readonly issuer: { readonly name: string; readonly isClusters: boolean } | null;
    /** A Gateway that takes it instead of an Ingress; null: an Ingress. */
    readonly route: {
      readonly gateway: string;
      readonly namespace: string;
      readonly listener: string | null;
      readonly isTls: boolean;
    } | null;
  } | null;
}

/** Of a stack on GPUs. */
export interface Cluster extends ClusterParts {
  readonly store: {
    readonly claim: string;
    /** null: the claim is there already. */
    readonly creation: Omit<NonNullable<StorePlan["creation"]>, "labels" | "isRetained"> | null;
  };
  /** null: no model needs one. */
  readonly hubToken: SecretReference | null;
  /** By the pool's name. */
  readonly pools: Readonly<Record<string, PoolAccess>>;
  /** By the model's name, where the stack file chooses. */
  readonly rollouts: Readonly<Record<string, Rollout>>;
  /** Names of models whose servers copy their engine to the machine's disk. */
  readonly copiedEngines: readonly string[];
}

/** Of a stack on CPUs. */
export interface CpuCluster extends ClusterParts {
  /** Where all pods run. */
  readonly machines: Omit<PoolAccess, "gpuResource">;
}

/** Where a pod finds each secret that it is given. */
export const SECRET_FILES: Readonly<Record<SecretName, string>> = {
  hubToken: "/run/secrets/hub-token/value",
  mongoUri: "/run/secrets/mongo-uri/value",
  vectorApiKey: "/run/secrets/vector-api-key/value",
};

/** Names of Secrets that the platform makes of the stack file's values, and their one key. */
const SECRET_NAMES: Readonly<Record<SecretName, string>> = {
  hubToken: "hub-token",
  mongoUri: "mongo-uri",
  vectorApiKey: "vector-api-key",
};
const SECRET_KEY = "value";

/** Name of a claim that the stack makes. */
const STORE_CLAIM = "engine-store";
/** Certificate that cert-manager writes. */
const TLS_SECRET = "gateway-tls";

export function kubernetesCluster(config: GpuClusterConfig): Cluster {
  const { hub, pools, models } = config;
  return {
    ...clusterParts(config),
    store: engineStore(config),
    hubToken: secretReference("hubToken", hub.token, hub.tokenSecret),
    pools: Object.fromEntries(
      pools.map(({ name, nodeSelector, tolerations, gpuResource }) => [
        name,
        { nodeSelector, tolerations, gpuResource: gpuResource ?? null },
      ]),
    ),
    rollouts: Object.fromEntries(
      models.flatMap(({ name, rollout }) => (rollout === undefined ? [] : [[name, rollout]])),
    ),
    copiedEngines: models.flatMap(({ name, copyEngine }) => (copyEngine ? [name] : [])),
  };
}

export function kubernetesCpuCluster(config: CpuClusterConfig): CpuCluster {
  return { ...clusterParts(config), machines: config.machines };
}

function clusterParts(config: ClusterConfig): ClusterParts {
  const { context, namespace, monitoringNamespace, priorityClasses, images, autoscaling } = config;
  return {
    context: context ?? null,
    namespace: { name: namespace, isCreated: createsNamespace(config), labels: {} },
    secretProviders: [],
    tritonClients: config.tritonClients.toSorted(),
    monitoringNamespace,
    monitoring: config.monitoring === "none" ? null : monitoring(config),
    retained: config.retain ?? null,
    createsPriorities: priorityClasses === "create",
    databases: config.encoders === false ? null : clusterDatabases(config),
    registry: images.registry ?? null,
    imageBases: images.bases,
    imagePullSecrets: images.pullSecrets,
    autoscaling: {
      mechanism: autoscaling.mechanism,
      prometheusUrl:
        autoscaling.prometheusUrl ?? `http://prometheus-operated.${monitoringNamespace}.svc:9090`,
      scaleDownSeconds: autoscaling.scaleDownSeconds,
    },
    schedule: config.schedule ?? null,
    minReplicas: leastReplicas(config),
    ingress: ingress(config),
  };
}

/** By the Deployment's name, of those whose number an autoscaler owns. */
export function leastReplicas({
  models,
  encoders,
  gateway,
}: ClusterConfig): Readonly<Record<string, number>> {
  const servers = [
    ...models,
    ...(encoders === false ? [] : [{ ...encoders, name: "encoders" }]),
    { ...gateway, name: "gateway" },
  ];
  return Object.fromEntries(
    servers.flatMap(({ name, replicas, minReplicas = replicas }) =>
      minReplicas < replicas || minReplicas === 0 ? [[name, minReplicas]] : [],
    ),
  );
}

/** What is in a namespace already was put there by somebody, who has made it. */
function createsNamespace(config: ClusterConfig): boolean {
  const { createNamespace, externalDatabases, images, gateway } = config;
  const found = [
    ...(config.tier === "gpu" ? [config.engineStore.existingClaim, config.hub.tokenSecret] : []),
    externalDatabases?.mongo.uriSecret,
    externalDatabases?.vector.apiKeySecret,
    images.pullSecrets[0],
    gateway.tls?.secretName,
  ];
  return createNamespace ?? found.every((name) => name === undefined);
}

function monitoring({ monitoringOptions }: ClusterConfig): ClusterParts["monitoring"] {
  const { labels, dashboardLabels, intervalSeconds, runbookUrl } = monitoringOptions;
  const gpuExporter = "gpuExporter" in monitoringOptions && monitoringOptions.gpuExporter;
  return {
    ...{ labels, dashboardLabels, intervalSeconds },
    gpuExporter: gpuExporter === false ? null : gpuExporter,
    runbookUrl: runbookUrl?.replace(/\/$/, "") ?? null,
  };
}

function engineStore({ engineStore: store }: GpuClusterConfig): Cluster["store"] {
  if (store.existingClaim !== undefined) return { claim: store.existingClaim, creation: null };
  const { storageClass, existingVolume, accessMode, sizeGiB } = store;
  // A claim without a class is given the default one, and a volume of another class never binds to it.
  const noClass = existingVolume === undefined ? null : "";
  return {
    claim: STORE_CLAIM,
    creation: {
      storageClass: storageClass ?? noClass,
      volume: existingVolume ?? null,
      accessMode,
      sizeGiB,
    },
  };
}

function clusterDatabases({
  databases,
  externalDatabases,
  databaseStorage,
}: ClusterConfig): ClusterDatabases {
  // The configuration's own checks refuse `external` without addresses.
  if (databases === "external" && externalDatabases !== undefined) {
    const { mongo, vector } = externalDatabases;
    const uri = secretReference("mongoUri", mongo.uri, mongo.uriSecret);
    const apiKey = secretReference("vectorApiKey", vector.apiKey, vector.apiKeySecret);
    return {
      kind: "external",
      mongo: { uriFile: SECRET_FILES.mongoUri },
      mongoPort: mongo.port,
      vector: {
        url: vector.url,
        ...(apiKey === null ? {} : { apiKeyFile: SECRET_FILES.vectorApiKey }),
      },
      secrets: {
        ...(uri === null ? {} : { [SECRET_FILES.mongoUri]: uri }),
        ...(apiKey === null ? {} : { [SECRET_FILES.vectorApiKey]: apiKey }),
      },
    };
  }
  return {
    kind: databases === "container" ? "container" : "mock",
    storageClass: databaseStorage.storageClass ?? null,
    sizeGiB: databaseStorage.sizeGiB,
  };
}

/** A Secret that is there, else one of the stack file's value. */
function secretReference(
  name: SecretName,
  value: unknown,
  existing: { readonly name: string; readonly key: string } | undefined,
): SecretReference | null {
  if (existing !== undefined) return { ...existing, from: null };
  return value === undefined ? null : { name: SECRET_NAMES[name], key: SECRET_KEY, from: name };
}

function ingress({
  namespace,
  gateway: { hostname, ingressClass, tls, route },
}: ClusterConfig): Cluster["ingress"] {
  if (hostname === undefined) return null;
  const issuerName = tls?.issuer ?? tls?.clusterIssuer;
  const issuer =
    issuerName === undefined ? null : { name: issuerName, isClusters: tls?.issuer === undefined };
  return {
    host: hostname,
    className: ingressClass ?? null,
    tlsSecret: tls?.secretName ?? (issuer === null ? null : TLS_SECRET),
    issuer,
    route:
      route === undefined
        ? null
        : {
            gateway: route.gateway,
            namespace: route.namespace ?? namespace,
            listener: route.listener ?? null,
            isTls: route.tls,
          },
  };
}
