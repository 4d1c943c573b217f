/** Pods of a cluster, as data: one container each, and all that Kubernetes has to know of it. */
import type { ImageName } from "../docker/types.ts";

/** What a pod is there for; the label `engine-room/role` has it. `bench` and `smoke` are Jobs that the scripts make. */
export const POD_ROLES = [
  "engineBuild",
  "encoderBuild",
  "triton",
  "encoders",
  "gateway",
  "mongo",
  "vector",
  "prePull",
  "bench",
  "smoke",
] as const;
export type PodRole = (typeof POD_ROLES)[number];

/** Sorted. */
export type Labels = Readonly<Record<string, string>>;

/** A ConfigMap that is named by the hash of its content: other content is another object, and rolls out what mounts it. */
export interface PlannedConfig {
  readonly name: string;
  readonly labels: Labels;
  /** By file name. */
  readonly data: Readonly<Record<string, string>>;
}

/**
 * Secrets of a stack, by the path of the stack file that holds each. No plan has their values: a pod names them, and the
 * platform writes them into Secrets of the namespace.
 */
export const SECRET_PATHS = {
  hubToken: "hub.token",
  mongoUri: "externalDatabases.mongo.uri",
  vectorApiKey: "externalDatabases.vector.apiKey",
} as const;
export type SecretName = keyof typeof SECRET_PATHS;

/** A key of a Secret in the stack's namespace. */
export interface SecretReference {
  /** Name of the Secret. */
  readonly name: string;
  readonly key: string;
  /** Value of the stack file that the platform puts there; null: somebody else's Secret, or a {@link PlannedSecret}. */
  readonly from: SecretName | null;
  /** Who hands it over, where it is in no Secret. */
  readonly provider?: SecretProvider | undefined;
}

/** A SecretProviderClass of the Secrets Store CSI driver, and the ServiceAccount that may read what it names. */
export interface SecretProvider {
  readonly className: string;
  readonly serviceAccount: string;
}

/** What a pod asks a machine for. GPUs are limits too; CPU is not, so that idle cores are used. */
export interface PodResources {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
  /** Whether the pod is ended where it takes more; off where the figure is an estimate. */
  readonly limitsMemory: boolean;
  /** Disk of the machine for what the pod writes; null: next to none. */
  readonly ephemeralGiB: number | null;
  /** Extended resource as the device plugin advertises it: `nvidia.com/gpu`, `nvidia.com/mig-3g.20gb`. */
  readonly gpus: { readonly resource: string; readonly count: number } | null;
}

export interface Toleration {
  readonly key: string;
  readonly operator: "Exists" | "Equal";
  readonly value?: string | undefined;
  /** Absent: every effect. */
  readonly effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute" | undefined;
}

/** Which machines a pod may run on. */
export interface PodPlacement {
  /** Pool of the stack file; null: any machine. */
  readonly pool: string | null;
  /** Sorted. */
  readonly nodeSelector: Labels;
  readonly tolerations: readonly Toleration[];
  /** Roles whose pods must not be on the same machine: memory of a GPU that is shared in time is not divided. */
  readonly apartFrom: readonly PodRole[];
  /** Whether the pods of one name keep to different machines where they can. */
  readonly spreads: boolean;
}

/** Where the files of a volume lie. */
export type VolumeSource =
  /** A claim of the namespace. */
  | { readonly kind: "claim"; readonly claim: string }
  /** The pod's own claim of a StatefulSet, whose template has the volume's name. */
  | { readonly kind: "ownClaim" }
  /** A disk of the machine, for as long as the pod lives. */
  | { readonly kind: "disk"; readonly sizeMiB: number }
  /** In memory, which counts as the pod's. */
  | { readonly kind: "memory"; readonly sizeMiB: number };

export interface PodVolume {
  /** A label of RFC 1123, one a pod. */
  readonly name: string;
  readonly path: string;
  readonly readOnly: boolean;
  readonly source: VolumeSource;
}

/** Asked by the kubelet; a probe fails after `failureThreshold` failures in a row. */
export interface Probe {
  readonly check:
    | { readonly kind: "http"; readonly path: string; readonly port: number }
    | { readonly kind: "exec"; readonly command: readonly string[] };
  readonly periodSeconds: number;
  readonly timeoutSeconds: number;
  readonly failureThreshold: number;
}

export interface PodProbes {
  /** How long a start may take: period times failures. Neither of the others runs before it succeeded. */
  readonly startup: Probe;
  /** Whether requests are sent to the pod. */
  readonly readiness: Probe;
  /** null: the process ends by itself when it can't go on. */
  readonly liveness: Probe | null;
}

/** A pod with one container, and what all pods of its kind have in common. Nothing in it runs as root. */
export interface PodPlan {
  readonly role: PodRole;
  /** Model of the stack that it builds or serves; null for the others. */
  readonly model: string | null;
  /** Of the pod and of what makes it. */
  readonly labels: Labels;
  /** Part of {@link labels} by which a Service, a Deployment or a policy finds it; never changes. */
  readonly selector: Labels;
  readonly image: ImageName;
  /** null: the image's own entry point. */
  readonly command: readonly string[] | null;
  readonly args: readonly string[];
  /** Sorted. */
  readonly environment: Readonly<Record<string, string>>;
  /** Mounted at {@link CONFIG_DIRECTORY}; null: none. */
  readonly config: PlannedConfig | null;
  /** Files by absolute path that hold a value of a Secret and nothing else; each lies in a folder of its own. */
  readonly secretFiles: Readonly<Record<string, SecretReference>>;
  readonly volumes: readonly PodVolume[];
  /** By name: `http`, `grpc`, `metrics`. */
  readonly ports: Readonly<Record<string, number>>;
  readonly resources: PodResources;
  readonly placement: PodPlacement;
  /** Name of a {@link PriorityPlan}; null: the cluster's default. */
  readonly priorityClass: string | null;
  readonly userId: number;
  /** null for Jobs. */
  readonly probes: PodProbes | null;
  /** How long a pod that is going away still answers before it is asked to end: its address is forgotten by then. */
  readonly preStopSeconds: number;
  /** From there until it is killed, {@link preStopSeconds} included. */
  readonly graceSeconds: number;
}

/** Where the files of a pod's ConfigMap are. */
export const CONFIG_DIRECTORY = "/etc/engine-room";
