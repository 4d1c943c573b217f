/** The cluster of a stack, from its stack file. */
import type { CpuStackConfig, GpuStackConfig } from "../../config/config.ts";
import { SECRET_NAMES, type SecretName } from "../docker/host.ts";
import type { Labels } from "./objects.ts";

type GpuClusterConfig = Extract<GpuStackConfig, { platform: "kubernetes" }>;
type CpuClusterConfig = Extract<CpuStackConfig, { platform: "kubernetes" }>;
export type ClusterConfig = GpuClusterConfig | CpuClusterConfig;

/**
 * `surge`: a new pod is ready before an old pod ends, which needs room for both. `inPlace`: an old pod ends first, so that
 * its GPU is free; with one replica the model is unavailable meanwhile.
 */
export type Rollout = "surge" | "inPlace";

/** A key of a Secret in the stack's namespace. */
export interface SecretReference {
  readonly name: string;
  readonly key: string;
  /** Value of the stack file in it; null: the Secret exists, or is in the plan. */
  readonly from: SecretName | null;
  /** Absent: the value is in the Secret. */
  readonly provider?: SecretProvider | undefined;
}

/** A SecretProviderClass of the Secrets Store CSI driver, and the ServiceAccount that may read its secrets. */
interface SecretProvider {
  readonly className: string;
  readonly serviceAccount: string;
}

/** A secret of a cloud that the Secrets Store CSI driver writes into volumes of pods. */
interface CloudSecret {
  readonly provider: SecretProvider;
  /** Provider of the driver. */
  readonly kind: "aws";
  readonly region: string;
  /** ARN of the secret, by name of the file. */
  readonly objects: Readonly<Record<string, string>>;
}

/** Cluster of a stack on GPUs. */
export type Cluster = ReturnType<typeof kubernetesCluster>;

const SECRET_KEY = "value";

/** File of a pod with the value of a secret. */
export function secretFile(name: SecretName): string {
  return `/run/secrets/${SECRET_NAMES[name]}/${SECRET_KEY}`;
}

export function kubernetesCluster(config: GpuClusterConfig) {
  const { hub, pools, models } = config;
  return {
    ...clusterParts(config),
    store: engineStore(config),
    /** null if no model needs a token. */
    hubToken: secretReference("hubToken", hub.token, hub.tokenSecret),
    /** By name of the pool; `gpuResource` is null if the device plugin chooses it. */
    pools: Object.fromEntries(
      pools.map(({ name, nodeSelector, tolerations, gpuResource }) => [
        name,
        { nodeSelector, tolerations, gpuResource: gpuResource ?? null },
      ]),
    ),
    /** By name of the model, if the stack file chooses. */
    rollouts: Object.fromEntries(
      models.flatMap(({ name, rollout }) => (rollout === undefined ? [] : [[name, rollout]])),
    ) as Readonly<Record<string, Rollout>>,
    /** Names of models whose servers copy their engine to the node's disk. */
    copiedEngines: models.flatMap(({ name, copyEngine }) => (copyEngine ? [name] : [])),
  };
}

export function kubernetesCpuCluster(config: CpuClusterConfig) {
  return { ...clusterParts(config), machines: config.machines };
}

function clusterParts(config: ClusterConfig) {
  const { namespace, monitoringNamespace, images, autoscaling } = config;
  return {
    /** Context of the kubeconfig; null: the current one. */
    context: config.context ?? null,
    namespace: {
      name: namespace,
      isCreated: createsNamespace(config),
      /** Labels in addition to the stack's own and those of Pod Security. */
      labels: {} as Labels,
    },
    secretProviders: [] as readonly CloudSecret[],
    /** ServiceAccount of builds that read weights in a bucket of the cloud; null: none does. */
    bucketAccount: null as string | null,
    /** Namespaces whose pods may send requests to Triton. */
    tritonClients: config.tritonClients.toSorted(),
    /** Where Prometheus runs. */
    monitoringNamespace,
    /** null if Prometheus does not scrape the stack. */
    monitoring: config.monitoring === "none" ? null : monitoring(config),
    /** Stacks whose data `down` leaves; null: every stack. */
    retained: config.retain ?? null,
    createsPriorities: config.priorityClasses === "create",
    /** null for a stack without encoders, since documents are found by their vectors. */
    databases: config.encoders === false ? null : clusterDatabases(config),
    /** Where images are pushed to; null: the stack can't be deployed unless all of them are locked. */
    registry: images.registry ?? null,
    imageBases: images.bases,
    imagePullSecrets: images.pullSecrets,
    autoscaling: {
      ...autoscaling,
      prometheusUrl:
        autoscaling.prometheusUrl ?? `http://prometheus-operated.${monitoringNamespace}.svc:9090`,
    },
    /** null if servers of models follow only the load. */
    schedule: config.schedule ?? null,
    minReplicas: leastReplicas(config),
    /** null if the gateway is reached only inside of the cluster. */
    ingress: ingress(config),
  };
}

/** Whether `down` leaves namespace, engine store and databases: `retain` of the stack file, which many stacks may share. */
export function isRetained(stack: string, { retained }: Pick<Cluster, "retained">): boolean {
  return retained?.includes(stack) ?? true;
}

/** Least numbers of replicas, by name of the Deployment, if an autoscaler sets the number. */
export function leastReplicas(config: ClusterConfig): Readonly<Record<string, number>> {
  const { models, encoders, gateway } = config;
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

/** A namespace with objects of others exists already. */
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

function monitoring({ monitoringOptions: options }: ClusterConfig) {
  const gpuExporter = "gpuExporter" in options && options.gpuExporter;
  return {
    ...options,
    /** null for a cluster without exporter. */
    gpuExporter: gpuExporter === false ? null : gpuExporter,
    runbookUrl: options.runbookUrl?.replace(/\/$/, "") ?? null,
  };
}

function engineStore({ engineStore: store }: GpuClusterConfig) {
  if (store.existingClaim !== undefined) return { claim: store.existingClaim, creation: null };
  const { storageClass, existingVolume: volume = null, accessMode, sizeGiB } = store;
  // A claim without a class is given the default one, and a volume of another class never binds to it.
  const noClass = volume === null ? null : "";
  return {
    claim: "engine-store",
    creation: { storageClass: storageClass ?? noClass, volume, accessMode, sizeGiB },
  };
}

function clusterDatabases({ databases, externalDatabases, databaseStorage }: ClusterConfig) {
  // The configuration's own checks refuse `external` without addresses.
  if (databases === "external" && externalDatabases !== undefined) {
    const { mongo, vector } = externalDatabases;
    const [uriFile, apiKeyFile] = [secretFile("mongoUri"), secretFile("vectorApiKey")];
    const uri = secretReference("mongoUri", mongo.uri, mongo.uriSecret);
    const apiKey = secretReference("vectorApiKey", vector.apiKey, vector.apiKeySecret);
    return {
      kind: "external" as const,
      mongo: { uriFile },
      mongoPort: mongo.port,
      vector: { url: vector.url, ...(apiKey === null ? {} : { apiKeyFile }) },
      /** By path of the gateway's file. */
      secrets: {
        ...(uri === null ? {} : { [uriFile]: uri }),
        ...(apiKey === null ? {} : { [apiKeyFile]: apiKey }),
      },
    };
  }
  return {
    /** `mock`: servers of this project. `container`: MongoDB and Qdrant. */
    kind: databases === "container" ? ("container" as const) : ("mock" as const),
    /** null for the cluster's default class. */
    storageClass: databaseStorage.storageClass ?? null,
    sizeGiB: databaseStorage.sizeGiB,
  };
}

/** A Secret that exists, else one of the stack file's value. */
function secretReference(
  name: SecretName,
  value: unknown,
  existing: { readonly name: string; readonly key: string } | undefined,
): SecretReference | null {
  if (existing !== undefined) return { ...existing, from: null };
  return value === undefined ? null : { name: SECRET_NAMES[name], key: SECRET_KEY, from: name };
}

function ingress({ namespace, gateway: { hostname, ingressClass, tls, route } }: ClusterConfig) {
  if (hostname === undefined) return null;
  const issuer = tls?.issuer ?? tls?.clusterIssuer;
  return {
    host: hostname,
    className: ingressClass ?? null,
    // An issuer of cert-manager writes the certificate into a Secret of this name.
    tlsSecret: tls?.secretName ?? (issuer === undefined ? null : "gateway-tls"),
    issuer: issuer === undefined ? null : { name: issuer, isClusters: tls?.issuer === undefined },
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
