/**
 * What a cluster runs, as data: the components of components/kubernetes register it, and tests and the harness look at it.
 * Pure, as all of the plan; the words are those of Kubernetes' own API.
 */
import type { ImageName } from "../docker/types.ts";
import type { Endpoints } from "../endpoints.ts";
import type { MonitoringPlan } from "./monitoring/types.ts";
import type { AutoscalerPlan } from "./operations-types.ts";
import type { Labels, PodPlan, PodRole, SecretProvider } from "./pod-types.ts";

/** A Secret whose content is no credential, such as hashes of API keys, and so may stand in a plan. */
export interface PlannedSecret {
  readonly subject: "api-keys";
  /** With the hash of its content. */
  readonly name: string;
  readonly labels: Labels;
  /** By key. */
  readonly data: Readonly<Record<string, string>>;
}

/** An image by what the cluster pulls. */
export interface ClusterImage {
  readonly name: ImageName;
  /** `registry/repository@sha256:…`; with a tag in a preview whose image was never pushed. */
  readonly reference: string;
}

export interface NamespacePlan {
  readonly name: string;
  /** Whether the stack makes it, with its labels and a quota; else it is there, with what its owner set. */
  readonly isCreated: boolean;
  /** Whether `down` leaves what the stack has made of it; else all that is in it goes too. */
  readonly isRetained: boolean;
  /** Pod Security admission, and the stack's own. */
  readonly labels: Labels;
}

/** The claim that holds weights and engines. */
export interface StorePlan {
  readonly claim: string;
  /** null: the claim is there already. */
  readonly creation: {
    readonly labels: Labels;
    /** Whether `down` leaves it. */
    readonly isRetained: boolean;
    /** null: the cluster's default class; empty: none, because a volume is named that has none. */
    readonly storageClass: string | null;
    /** Name of the volume; null: the class makes one. */
    readonly volume: string | null;
    readonly accessMode: AccessMode;
    readonly sizeGiB: number;
  } | null;
}

type AccessMode = "ReadWriteMany" | "ReadWriteOnce";

/** Classes of what is more urgent than what, in one namespace. Cluster-wide objects. */
export interface PriorityPlan {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
  /** Whether a pod of it may take the place of a pod of a lower one. */
  readonly preempts: boolean;
  readonly description: string;
}

/** A Job that fills the engine store. */
export interface BuildPlan {
  /** `<model>-<key12>`: another key is another Job. */
  readonly name: string;
  readonly kind: "engine" | "encoders";
  readonly key: string;
  readonly pod: PodPlan;
  /** Models of the stack that need what it makes; none for the encoders. */
  readonly models: readonly string[];
  /** From its start, the wait for a machine included. */
  readonly deadlineSeconds: number;
  /** How long `up` waits for it. */
  readonly awaitSeconds: number;
}

/** What can be reached under one name in the cluster. */
export interface ServicePlan {
  readonly name: string;
  readonly labels: Labels;
  readonly selector: Labels;
  /** By the name of the pod's port that stands behind each. */
  readonly ports: Readonly<Record<string, number>>;
  /** Whether its name stands for the pods themselves, as a StatefulSet wants it. */
  readonly isHeadless: boolean;
}

/**
 * `surge`: a new pod is ready before an old one goes; needs room for one more. `inPlace`: an old pod goes first, so that
 * its GPU is free; with one replica the model is away meanwhile.
 */
export type Rollout = "surge" | "inPlace";

/** A Deployment with its Service. */
export interface ServerPlan {
  readonly name: string;
  readonly pod: PodPlan;
  /** null: an autoscaler owns the number, and nobody else writes it. */
  readonly replicas: number | null;
  /** Most that the autoscaler may make of it; else as many as `replicas`. */
  readonly maxReplicas: number;
  readonly rollout: Rollout;
  /** From a new pod until it is ready, image and machine included: the Deployment has failed after it. */
  readonly progressDeadlineSeconds: number;
  /** How long `up` waits for all pods. */
  readonly awaitSeconds: number;
  readonly service: ServicePlan;
  /** Pods that may be away at a time when machines are drained. */
  readonly maxUnavailable: number;
  /** Names of builds that must have ended with success before this changes. */
  readonly after: readonly string[];
}

/** A StatefulSet of one pod, with a claim. */
export interface DatabasePlan {
  readonly name: "mongo" | "vector";
  readonly pod: PodPlan;
  readonly service: ServicePlan;
  readonly claim: {
    /** Name of the template; the claim is `<name>-<database>-0`. */
    readonly name: string;
    readonly storageClass: string | null;
    readonly sizeGiB: number;
    /** Whether it outlives the StatefulSet, and so `down`. */
    readonly isRetained: boolean;
  };
  readonly awaitSeconds: number;
}

/** A DaemonSet that keeps an image on every machine of a pool. */
export interface PrePullPlan {
  readonly name: string;
  readonly pod: PodPlan;
  /** Most machines of the pool. */
  readonly machines: number;
}

/** How clients outside of the cluster reach the gateway. */
export interface IngressPlan {
  readonly name: string;
  readonly labels: Labels;
  readonly host: string;
  /** null: the cluster's default class. */
  readonly className: string | null;
  /** Sorted. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Secret that holds the certificate, or that cert-manager writes it to; null: no TLS. */
  readonly tlsSecret: string | null;
  readonly service: string;
  readonly port: number;
}

/** The same through a Gateway of the Gateway API, which is somebody else's. */
export interface RoutePlan {
  readonly name: string;
  readonly labels: Labels;
  readonly host: string;
  readonly gateway: string;
  readonly gatewayNamespace: string;
  /** null: every listener that takes the host. */
  readonly listener: string | null;
  /** Longest answer. */
  readonly requestSeconds: number;
  readonly service: string;
  readonly port: number;
}

/** Who talks to whom besides the pods of the stack. */
export type Peer =
  | { readonly kind: "role"; readonly role: PodRole }
  /** The cluster's resolver. */
  | { readonly kind: "dns" }
  /** Pods of another namespace, by its name. */
  | { readonly kind: "namespace"; readonly namespace: string }
  /** Whoever reaches the cluster's pods. */
  | { readonly kind: "anyone" }
  /** Addresses outside of private networks. */
  | { readonly kind: "internet" };

/** A row of the table of connections: what is not in it is refused. */
export interface NetworkEdge {
  readonly from: Peer;
  readonly to: Peer;
  readonly port: number;
  readonly protocol: "TCP" | "UDP";
  /** For people who read the table. */
  readonly why: string;
}

/** What the namespace may take in all. */
export interface QuotaPlan {
  readonly name: string;
  readonly labels: Labels;
  /** Quantities by resource, as Kubernetes writes them; sorted. */
  readonly hard: Readonly<Record<string, string>>;
}

/** A secret of a cloud that the Secrets Store CSI driver writes into a pod's volume. */
export interface SecretProviderPlan {
  readonly provider: SecretProvider;
  readonly labels: Labels;
  /** The driver's provider: `aws`. */
  readonly kind: "aws";
  readonly region: string;
  /** ARN of the secret, by the name of the file. */
  readonly objects: Readonly<Record<string, string>>;
}

/** Everything in the cluster. */
export interface KubernetesStack {
  /** Context of the kubeconfig; null: the current one. */
  readonly context: string | null;
  /** Of every object, sorted. */
  readonly labels: Labels;
  /** Labels that all pods of the stack have, and no other's. */
  readonly selector: Labels;
  readonly namespace: NamespacePlan;
  readonly quota: QuotaPlan | null;
  readonly priorities: readonly PriorityPlan[];
  readonly images: readonly ClusterImage[];
  /** Secrets of type kubernetes.io/dockerconfigjson of the namespace. */
  readonly imagePullSecrets: readonly string[];
  /** null: nothing of the stack is built into a store. */
  readonly store: StorePlan | null;
  readonly builds: readonly BuildPlan[];
  readonly models: readonly ServerPlan[];
  readonly encoders: ServerPlan | null;
  readonly databases: readonly DatabasePlan[];
  readonly prePulls: readonly PrePullPlan[];
  readonly gateway: ServerPlan;
  readonly ingress: IngressPlan | null;
  /** At most one of the two is there. */
  readonly route: RoutePlan | null;
  readonly secrets: readonly PlannedSecret[];
  readonly secretProviders: readonly SecretProviderPlan[];
  readonly edges: readonly NetworkEdge[];
  readonly autoscalers: readonly AutoscalerPlan[];
  /** null: nobody is told of the metrics. */
  readonly monitoring: MonitoringPlan | null;
  readonly endpoints: Endpoints;
  /** What users have to know, as in the outputs. */
  readonly notes: readonly string[];
}
