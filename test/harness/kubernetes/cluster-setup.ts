/** Objects that a cluster's owner creates before a stack: a namespace, volumes. */
import { eventually } from "../stack.ts";
import type { ApiServer } from "./api-server.ts";
import { applyAll } from "./apply.ts";
import { type KubernetesObject, nameOf } from "./objects.ts";
import { namespaceReady } from "./waiting.ts";

const TIMEOUT_SECONDS = 60;

/** A namespace that admits only pods of the level `restricted`, and warns of objects that would create others. */
export function restrictedNamespace(name: string): KubernetesObject {
  const level = "pod-security.kubernetes.io";
  const labels = { [`${level}/enforce`]: "restricted", [`${level}/warn`]: "restricted" };
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
}

/** Applies a namespace; returns when pods can be made in it. */
export async function addNamespace(api: ApiServer, namespace: KubernetesObject): Promise<void> {
  await applyAll(api, [namespace]);
  await namespaceReady(api, namespace);
}

/** Owners before the objects that they would create again. */
const WORKLOADS = [
  ["apps/v1", "Deployment"],
  ["apps/v1", "StatefulSet"],
  ["batch/v1", "Job"],
  ["v1", "Pod"],
] as const;

/**
 * Removes a namespace with all its objects. Returns when its pods are gone, and their nodes free; the rest takes the
 * controllers 5 s and more.
 */
export async function removeNamespace(api: ApiServer, name: string): Promise<void> {
  for (const [apiVersion, kind] of WORKLOADS)
    for (const object of await api.list(apiVersion, kind, { namespace: name })) await api.remove(object);
  await eventually(async () => {
    const pods = await api.list("v1", "Pod", { namespace: name });
    return pods.length === 0 ? true : undefined;
  }, TIMEOUT_SECONDS);
  await api.remove({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
}

/**
 * Namespaces and claims that objects refer to and that none of them is: the owner of the cluster has created them.
 * Their sizes do not matter here.
 */
export function takenForGranted(objects: readonly KubernetesObject[]): KubernetesObject[] {
  const made = new Set(objects.map(nameOf));
  const named = new Map<string, KubernetesObject>();
  for (const { metadata, spec } of objects) {
    if (metadata.namespace === undefined) continue;
    const { template } = (spec ?? {}) as { readonly template?: { readonly spec?: PodVolumes } };
    const claims = (template?.spec?.volumes ?? []).flatMap(
      ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
    );
    const needed = [
      restrictedNamespace(metadata.namespace),
      ...claims.map((name) => sharedClaim(metadata.namespace, name)),
    ];
    for (const object of needed) if (!made.has(nameOf(object))) named.set(nameOf(object), object);
  }
  const isClaim = ({ kind }: KubernetesObject) => Number(kind === "PersistentVolumeClaim");
  return [...named.values()].toSorted((a, b) => isClaim(a) - isClaim(b));
}

interface PodVolumes {
  readonly volumes?: readonly { readonly persistentVolumeClaim?: { readonly claimName: string } }[];
}

function sharedClaim(namespace: string | undefined, name: string): KubernetesObject {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace },
    spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "1Gi" } } },
  };
}

/**
 * A volume for one claim only: no controller creates volumes for claims here.
 *
 * @throws Error if the claim has no size.
 */
export function volumeFor(claim: KubernetesObject): KubernetesObject {
  const { name, namespace } = claim.metadata;
  const spec = claim.spec as {
    readonly accessModes?: readonly string[];
    readonly storageClassName?: string;
    readonly volumeName?: string;
    readonly resources?: { readonly requests?: { readonly storage?: string } };
  };
  const storage = spec.resources?.requests?.storage;
  if (storage === undefined || spec.accessModes === undefined)
    throw new Error(`${nameOf(claim)} has no size or no access mode; a claim needs both.`);
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: spec.volumeName ?? `${namespace}-${name}` },
    spec: {
      capacity: { storage },
      accessModes: spec.accessModes,
      persistentVolumeReclaimPolicy: "Retain",
      storageClassName: spec.storageClassName ?? "",
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", name, namespace },
      csi: { driver: "tests.example.org", volumeHandle: `${namespace}-${name}` },
    },
  };
}
