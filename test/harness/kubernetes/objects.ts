/** An object as the API has it: what is not listed here is of its kind. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMetadata;
  readonly [field: string]: unknown;
}

export interface ObjectMetadata {
  readonly name: string;
  /** It is being removed since then. */
  readonly deletionTimestamp?: string;
  readonly namespace?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly generation?: number | undefined;
  readonly uid?: string | undefined;
}

/** The fields that identify an object. */
export type ObjectReference = Pick<KubernetesObject, "apiVersion" | "kind" | "metadata">;

/** For messages: `apps/v1 Deployment engine-room/llava`. */
export function nameOf({ apiVersion, kind, metadata: { name, namespace } }: ObjectReference): string {
  return `${apiVersion} ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** One of the conditions of an object's status. */
interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
}

export function conditionOf(object: KubernetesObject, type: string): Condition | undefined {
  const { conditions = [] } = (object.status ?? {}) as { readonly conditions?: readonly Condition[] };
  return conditions.find((condition) => condition.type === type);
}
