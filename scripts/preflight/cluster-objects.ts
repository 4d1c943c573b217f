/** What is read of a cluster's objects: the fields that a stack depends on, and no others. */

export interface NodeReading {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  /** Whether the scheduler may put pods on it: ready, and not cordoned. */
  readonly takesPods: boolean;
  /** Quantities by resource. */
  readonly allocatable: Readonly<Record<string, string>>;
}

/** A pod that has not ended. */
export interface PodReading {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** null: it waits for a machine. */
  readonly node: string | null;
  /** Quantities that each of its containers asks for. */
  readonly requests: readonly Readonly<Record<string, string>>[];
}

export interface ClassReading {
  readonly name: string;
  /** Of volumes: the driver. Of ingresses: the controller. */
  readonly maker: string;
  readonly isDefault: boolean;
}

export interface ClaimReading {
  readonly name: string;
  readonly phase: string;
  /** Empty: it has none, or the default one was not written into it. */
  readonly storageClass: string;
  readonly accessModes: readonly string[];
  /** Asked for, as a quantity; null: nothing. */
  readonly size: string | null;
  /** null: it is not bound. */
  readonly volume: string | null;
}

export interface VolumeReading {
  readonly phase: string;
  readonly storageClass: string;
  /** `namespace/name`; null: nobody's. */
  readonly claim: string | null;
}

export interface QuotaReading {
  readonly name: string;
  readonly hard: Readonly<Record<string, string>>;
  readonly used: Readonly<Record<string, string>>;
}

/** An object as `kubectl get --output json` prints it. */
export interface ApiObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly provisioner?: string;
}

export function nodeReading({ metadata, spec, status }: ApiObject): NodeReading {
  const { unschedulable = false, taints = [] } = (spec ?? {}) as {
    readonly unschedulable?: boolean;
    readonly taints?: NodeReading["taints"];
  };
  const { allocatable = {}, conditions = [] } = (status ?? {}) as {
    readonly allocatable?: NodeReading["allocatable"];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
  const isReady = conditions.some((one) => one.type === "Ready" && one.status === "True");
  return {
    name: metadata.name,
    labels: metadata.labels ?? {},
    taints,
    takesPods: isReady && !unschedulable,
    allocatable,
  };
}

export function podReading({ metadata, spec }: ApiObject): PodReading {
  const { nodeName = null, containers = [] } = (spec ?? {}) as {
    readonly nodeName?: string;
    readonly containers?: readonly {
      readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
    }[];
  };
  return {
    namespace: metadata.namespace ?? "",
    labels: metadata.labels ?? {},
    node: nodeName,
    requests: containers.map(({ resources }) => resources?.requests ?? {}),
  };
}

/** Of both kinds of classes. */
const IS_DEFAULT = /^(storageclass|ingressclass)\.kubernetes\.io\/is-default-class$/;

export function classReading({ metadata, provisioner, spec }: ApiObject): ClassReading {
  const annotations = Object.entries(metadata.annotations ?? {});
  return {
    name: metadata.name,
    maker: provisioner ?? String(spec?.controller ?? ""),
    isDefault: annotations.some(([key, value]) => IS_DEFAULT.test(key) && value === "true"),
  };
}

export function claimReading({ metadata, spec, status }: ApiObject): ClaimReading {
  const { storageClassName, accessModes, volumeName, resources } = (spec ?? {}) as {
    readonly storageClassName?: string;
    readonly accessModes?: readonly string[];
    readonly volumeName?: string;
    readonly resources?: { readonly requests?: { readonly storage?: string } };
  };
  return {
    name: metadata.name,
    phase: String(status?.phase ?? ""),
    storageClass: storageClassName ?? "",
    accessModes: accessModes ?? [],
    size: resources?.requests?.storage ?? null,
    volume: volumeName ?? null,
  };
}

export function volumeReading({ spec, status }: ApiObject): VolumeReading {
  const { storageClassName, claimRef } = (spec ?? {}) as {
    readonly storageClassName?: string;
    readonly claimRef?: { readonly namespace?: string; readonly name?: string };
  };
  return {
    phase: String(status?.phase ?? ""),
    storageClass: storageClassName ?? "",
    claim: claimRef === undefined ? null : `${claimRef.namespace}/${claimRef.name}`,
  };
}

export function quotaReading({ metadata, spec, status }: ApiObject): QuotaReading {
  const { hard = {} } = (spec ?? {}) as { readonly hard?: Readonly<Record<string, string>> };
  const { used = {} } = (status ?? {}) as { readonly used?: Readonly<Record<string, string>> };
  return { name: metadata.name, hard, used };
}
