/** What differs between two forms of a resource: lists of Kubernetes by what the API server knows their elements by. */
import { type ElementNames, type LeafDifference, leafDifferences } from "../program/changes.ts";

/**
 * `listMapKeys` and `patchMergeKey` of the API's types, by the name of the list: `staging/src/k8s.io/api/core/v1/types.go` of
 * Kubernetes. What is not here has no key, and its elements are known by where they stand.
 */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  containers: "name",
  env: "name",
  ephemeralContainers: "name",
  hostAliases: "ip",
  imagePullSecrets: "name",
  initContainers: "name",
  ports: "containerPort",
  volumeDevices: "devicePath",
  volumeMounts: "mountPath",
  volumes: "name",
};

const SERVICE = "kubernetes:core/v1:Service";

/** Leaves that differ between two forms of the inputs. */
export function resourceDifferences(
  type: string,
  before: unknown,
  after: unknown,
): readonly LeafDifference[] {
  return leafDifferences(before, after, type.startsWith("kubernetes:") ? elementNames(type) : undefined);
}

function elementNames(type: string): ElementNames {
  return (keys, list) => {
    const name = keys.at(-1);
    if (typeof name !== "string") return undefined;
    const key = name === "ports" && type === SERVICE ? "port" : MERGE_KEYS[name];
    if (key === undefined) return undefined;
    const names = list.map((element) => (element as Readonly<Record<string, unknown>> | null)?.[key]);
    const known = names.filter((one) => typeof one === "string" || typeof one === "number").map(String);
    // A port may be there twice, for two protocols.
    return known.length === list.length && new Set(known).size === list.length ? known : undefined;
  };
}
