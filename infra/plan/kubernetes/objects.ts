/** Objects of Kubernetes' API as plain data, their labels and their names. */
import type { types } from "@pulumi/kubernetes";
import type { Plain } from "../plain-data.ts";
import { jsonDigest, shortKey } from "../plain-data.ts";

/** Arguments of Pulumi's provider by kind. */
interface Kinds {
  ConfigMap: types.input.core.v1.ConfigMap;
  DaemonSet: types.input.apps.v1.DaemonSet;
  Deployment: types.input.apps.v1.Deployment;
  HorizontalPodAutoscaler: types.input.autoscaling.v2.HorizontalPodAutoscaler;
  Ingress: types.input.networking.v1.Ingress;
  Job: types.input.batch.v1.Job;
  Namespace: types.input.core.v1.Namespace;
  NetworkPolicy: types.input.networking.v1.NetworkPolicy;
  PersistentVolumeClaim: types.input.core.v1.PersistentVolumeClaim;
  PodDisruptionBudget: types.input.policy.v1.PodDisruptionBudget;
  PriorityClass: types.input.scheduling.v1.PriorityClass;
  ResourceQuota: types.input.core.v1.ResourceQuota;
  Secret: types.input.core.v1.Secret;
  Service: types.input.core.v1.Service;
  ServiceAccount: types.input.core.v1.ServiceAccount;
  StatefulSet: types.input.apps.v1.StatefulSet;
}

export type Kind = keyof Kinds;

/** Without a namespace, which the component adds. */
interface Metadata {
  readonly name: string;
  readonly labels: Labels;
  readonly annotations?: Labels;
}

export type ApiObject<K extends Kind = Kind> = {
  [Each in K]: Plain<Kinds[Each]> & { readonly kind: Each; readonly metadata: Metadata };
}[K];

/** An object whose kind has a CustomResourceDefinition. */
export interface CustomObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Metadata;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** Purpose of a pod, and value of its label `app.kubernetes.io/component`. The scripts start `bench` and `smoke`. */
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

/** Sorted by key. */
export type Labels = Readonly<Record<string, string>>;

interface Labelled {
  readonly role?: PodRole | undefined;
  readonly model?: string | null;
  /** Content address of the product of a Job, 64 hexadecimal digits. */
  readonly key?: string | null;
}

/** Labels of any object, sorted: `kubectl get all -l app.kubernetes.io/instance=NAME` finds them. */
export function objectLabels(stack: string, { role, model, key }: Labelled = {}): Labels {
  return {
    ...(role === undefined ? {} : { "app.kubernetes.io/component": role }),
    "app.kubernetes.io/instance": stack,
    "app.kubernetes.io/managed-by": "pulumi",
    "app.kubernetes.io/name": "engine-room",
    ...(typeof key === "string" ? { "engine-room/key": shortKey(key) } : {}),
    ...(typeof model === "string" ? { "engine-room/model": model } : {}),
  };
}

/** Labels that never change, by which Deployments, Services and policies find pods. */
export function podSelector(stack: string, pod: Omit<Labelled, "key"> = {}): Labels {
  const { "app.kubernetes.io/managed-by": _, ...selector } = objectLabels(stack, pod);
  return selector;
}

/** Names of catalogue rows have dots, which Kubernetes refuses in names of pods and services. */
export function objectName(name: string): string {
  return name.replaceAll(".", "-");
}

/**
 * Annotations of objects that `down` leaves: the next `up` of the stack owns their fields and may change them, and the `up` of
 * another stack is refused with a conflict. Without a fixed name each `up` is another owner.
 */
export function keptAnnotations(stack: string): Labels {
  return { "pulumi.com/patchFieldManager": `engine-room-${stack}` };
}

/** Metadata of a ConfigMap or Secret: other content has another name, `<subject>-<hash12>`. */
export function hashedMetadata(subject: string, labels: Labels, content: unknown) {
  return { name: `${subject}-${shortKey(jsonDigest(content))}`, labels };
}

/** undefined for an empty list or object, which the API would keep as it is. */
export function unlessEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}
