/** Labels and names of everything that a stack has in a cluster. */
import { jsonDigest } from "../canonical-json.ts";
import type { Labels, PlannedConfig, PodRole } from "./pod-types.ts";

interface Labelled {
  readonly role?: PodRole;
  readonly model?: string | null;
  /** Content address of what a Job makes, 64 hexadecimal digits. */
  readonly key?: string | null;
}

/** Digits of a content hash in a name or label: no two contents of one stack meet in them. */
const HASH_DIGITS = 12;

/** Labels of any object, sorted: `kubectl get all -l app.kubernetes.io/instance=NAME` finds them. */
export function objectLabels(stack: string, { role, model, key }: Labelled = {}): Labels {
  return {
    ...(role === undefined ? {} : { "app.kubernetes.io/component": role }),
    "app.kubernetes.io/instance": stack,
    "app.kubernetes.io/managed-by": "pulumi",
    "app.kubernetes.io/name": "engine-room",
    ...(typeof key === "string" ? { "engine-room/key": key.slice(0, HASH_DIGITS) } : {}),
    ...(typeof model === "string" ? { "engine-room/model": model } : {}),
  };
}

/** The part of the labels that never changes: what a Deployment, a Service or a policy finds its pods by. */
export function podSelector(stack: string, { role, model }: Omit<Labelled, "key"> = {}): Labels {
  return {
    ...(role === undefined ? {} : { "app.kubernetes.io/component": role }),
    "app.kubernetes.io/instance": stack,
    "app.kubernetes.io/name": "engine-room",
    ...(typeof model === "string" ? { "engine-room/model": model } : {}),
  };
}

/** Names of catalogue rows have points, which names of pods and services must not have. */
export function objectName(name: string): string {
  return name.replaceAll(".", "-");
}

/** `<subject>-<hash12>` over the content. */
function hashedName(subject: string, content: unknown): string {
  return `${subject}-${jsonDigest(content).slice(0, HASH_DIGITS)}`;
}

/** A ConfigMap, or the data of a Secret that is no credential: other content has another name. */
export function hashedFiles(
  subject: string,
  labels: Labels,
  data: Readonly<Record<string, string>>,
): PlannedConfig {
  return { name: hashedName(subject, data), labels, data };
}
