/** Objects of Kubernetes' API as plain data, and values of them that other pure code reads. */
import type { types } from "@pulumi/kubernetes";
import type { MetricSeries } from "../catalogue/metrics.ts";
import type { ImageName, SecretName } from "../docker/types.ts";
import type { Endpoints } from "../endpoints.ts";
import type { Plain } from "../plain.ts";
import type { Labels, PodRole } from "./labels.ts";
import type { MonitoringPlan } from "./monitoring/types.ts";

/** An object of the API without its namespace, which components add. */
export type ApiObject<T> = Plain<T> & {
  readonly metadata: { readonly name: string; readonly labels: Labels; readonly annotations?: Labels };
};

export type ConfigMap = ApiObject<types.input.core.v1.ConfigMap>;
export type DaemonSet = ApiObject<types.input.apps.v1.DaemonSet>;
export type Deployment = ApiObject<types.input.apps.v1.Deployment>;
export type HorizontalPodAutoscaler = ApiObject<types.input.autoscaling.v2.HorizontalPodAutoscaler>;
export type Ingress = ApiObject<types.input.networking.v1.Ingress>;
export type Job = ApiObject<types.input.batch.v1.Job>;
export type Namespace = ApiObject<types.input.core.v1.Namespace>;
export type NetworkPolicy = ApiObject<types.input.networking.v1.NetworkPolicy>;
export type PersistentVolumeClaim = ApiObject<types.input.core.v1.PersistentVolumeClaim>;
export type PodDisruptionBudget = ApiObject<types.input.policy.v1.PodDisruptionBudget>;
export type PriorityClass = ApiObject<types.input.scheduling.v1.PriorityClass>;
export type ResourceQuota = ApiObject<types.input.core.v1.ResourceQuota>;
export type Secret = ApiObject<types.input.core.v1.Secret>;
export type Service = ApiObject<types.input.core.v1.Service>;
export type ServiceAccount = ApiObject<types.input.core.v1.ServiceAccount>;
export type StatefulSet = ApiObject<types.input.apps.v1.StatefulSet>;

/** An object whose kind has a CustomResourceDefinition. */
export interface CustomObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ConfigMap["metadata"];
  readonly spec: Readonly<Record<string, unknown>>;
}

export type PodTemplate = Plain<types.input.core.v1.PodTemplateSpec>;
export type PodSpec = Plain<types.input.core.v1.PodSpec>;

/** Nodes of a pool, or of the stack. */
export interface Placement {
  /** Pool of the stack file; null: none, so that any node is allowed. */
  readonly pool: string | null;
  /** Sorted by key. */
  readonly nodeSelector: Labels;
  readonly tolerations: NonNullable<PodSpec["tolerations"]>;
}

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
export interface SecretProvider {
  readonly className: string;
  readonly serviceAccount: string;
}

/** GPUs are limits too; CPU is not, so that idle cores are used. */
export interface PodResources {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
  /** Disk of the node; null: next to none. */
  readonly ephemeralGiB: number | null;
  /** Extended resource of the device plugin: `nvidia.com/gpu`, `nvidia.com/mig-3g.20gb`. */
  readonly gpus: { readonly resource: string; readonly count: number } | null;
}

/** Pods of one template. */
export interface PodPlan {
  readonly role: PodRole;
  /** Model of the stack; null for roles without one. */
  readonly model: string | null;
  readonly labels: Labels;
  /** Labels by which Services, workloads and policies find its pods; they never change. */
  readonly selector: Labels;
  /** Pool of the stack file; null: any node. */
  readonly pool: string | null;
  readonly resources: PodResources;
  /** By path. */
  readonly secretFiles: Readonly<Record<string, SecretReference>>;
  /** Configuration files; other content has another name, so that pods are replaced. */
  readonly config: ConfigMap | null;
  readonly template: PodTemplate;
}

/** Fills the engine store. */
export interface BuildPlan {
  /** `<model>-<key12>`: another key is another Job. */
  readonly name: string;
  readonly key: string;
  /** Models of the stack that need it; none for the encoders. */
  readonly models: readonly string[];
  readonly pod: PodPlan;
  readonly job: Job;
  /** How long `up` waits for it. */
  readonly awaitSeconds: number;
}

/**
 * `surge`: a new pod is ready before an old one ends, which needs room for one more. `inPlace`: an old pod ends first, so
 * that its GPU is free; with one replica the model is away meanwhile.
 */
export type Rollout = "surge" | "inPlace";

/** A Deployment behind a Service of the same name. */
export interface ServerPlan {
  readonly name: string;
  readonly pod: PodPlan;
  /** null: an autoscaler writes the number, and nothing else does. */
  readonly replicas: number | null;
  /** Largest number of the autoscaler, else `replicas`. */
  readonly maxReplicas: number;
  readonly rollout: Rollout;
  readonly deployment: Deployment;
  readonly service: Service;
  readonly budget: PodDisruptionBudget;
  /** How long `up` waits for all pods. */
  readonly awaitSeconds: number;
  /** Names of builds that must have succeeded before this changes. */
  readonly after: readonly string[];
}

/** A StatefulSet of one pod. */
export interface DatabasePlan {
  readonly name: "mongo" | "vector";
  readonly pod: PodPlan;
  readonly service: Service;
  readonly statefulSet: StatefulSet;
  /** Name of its claim, which the StatefulSet creates. */
  readonly claim: string;
  /** null: the cluster's default class. */
  readonly storageClass: string | null;
  readonly awaitSeconds: number;
}

/** A DaemonSet that keeps an image on every node of a pool. */
export interface PrePullPlan {
  readonly name: string;
  readonly pod: PodPlan;
  readonly daemonSet: DaemonSet;
  /** Largest number of nodes. */
  readonly nodes: number;
}

/** An image as the cluster pulls it. */
export interface ClusterImage {
  readonly name: ImageName;
  /** `registry/repository@sha256:…`; with a tag in a preview whose image was never pushed. */
  readonly reference: string;
}

export interface PolicyPlan {
  /** null: all pods of the stack. */
  readonly role: PodRole | null;
  /** Last part of the resource's name in Pulumi. */
  readonly resource: string;
  readonly policy: NetworkPolicy;
}

/** One value that an autoscaler reads. */
export interface ScalingMetric {
  /** Name of the trigger: `waiting-requests`. */
  readonly name: string;
  /** As Prometheus' operator labels it: with `namespace` and `service`. */
  readonly series: MetricSeries;
  /** PromQL: the sum of the series; an empty answer is an error, never a zero. */
  readonly query: string;
  /** Value of one replica that is as busy as it should be. */
  readonly target: number;
  /** Value above which there is at least one replica; null where the least number is not 0. */
  readonly activation: number | null;
}

/**
 * Sets the number of replicas of the Deployment of the same name. `hpa`: by metrics of the cluster's external metrics API.
 * `keda`: by a ScaledObject, which asks Prometheus and can scale to zero.
 */
export type AutoscalerPlan = Scaling &
  (
    | { readonly mechanism: "hpa"; readonly object: HorizontalPodAutoscaler }
    | { readonly mechanism: "keda"; readonly object: CustomObject }
  );

export interface Scaling {
  readonly name: string;
  readonly replicas: { readonly min: number; readonly max: number };
  readonly metrics: readonly ScalingMetric[];
  /** Least replicas at a time of the day, whatever the metrics say; only with KEDA. */
  readonly schedule: ScheduledScaling | null;
}

interface ScheduledScaling {
  /** Five fields each, minute first. */
  readonly start: string;
  readonly end: string;
  /** Name in the IANA database: `Europe/Berlin`. */
  readonly timeZone: string;
  readonly replicas: number;
}

/** All objects of a stack. */
export interface KubernetesStack {
  /** Context of the kubeconfig; null: the current one. */
  readonly context: string | null;
  readonly labels: Labels;
  /** Labels of all pods of the stack. */
  readonly selector: Labels;
  /** `object` is null where the namespace is there already. */
  readonly namespace: { readonly name: string; readonly object: Namespace | null };
  /** Whether `down` leaves the namespace, the engine store and the databases. */
  readonly isRetained: boolean;
  readonly quota: ResourceQuota | null;
  readonly priorities: readonly PriorityClass[];
  readonly images: readonly ClusterImage[];
  /** Names of Secrets of the type kubernetes.io/dockerconfigjson. */
  readonly imagePullSecrets: readonly string[];
  /** Claim of weights and engines; null: nothing is built. `object` is null where it is there already. */
  readonly store: { readonly claim: string; readonly object: PersistentVolumeClaim | null } | null;
  readonly builds: readonly BuildPlan[];
  readonly models: readonly ServerPlan[];
  readonly encoders: ServerPlan | null;
  readonly databases: readonly DatabasePlan[];
  readonly prePulls: readonly PrePullPlan[];
  readonly gateway: ServerPlan;
  /** At most one of Ingress and HTTPRoute. */
  readonly ingress: Ingress | null;
  readonly route: CustomObject | null;
  /** Hashes of API keys; null: the stack has no keys. */
  readonly apiKeys: Secret | null;
  readonly secretProviders: readonly {
    readonly account: ServiceAccount;
    readonly providerClass: CustomObject;
  }[];
  readonly policies: readonly PolicyPlan[];
  readonly autoscalers: readonly AutoscalerPlan[];
  /** null: metrics are not read. */
  readonly monitoring: MonitoringPlan | null;
  readonly endpoints: Endpoints;
  /** What users have to know, as in the outputs. */
  readonly notes: readonly string[];
}
