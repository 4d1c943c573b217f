/** Brings up a whole stack in the cluster, only through the API. */
import type { ApiServer } from "./api-server.ts";
import { type ApplyWarnings, applyAll } from "./apply.ts";
import { removeNamespace, takenForGranted, volumeFor } from "./cluster-setup.ts";
import { addNodes, removeNodes } from "./nodes.ts";
import type { KubernetesObject, ObjectReference } from "./objects.ts";
import {
  claimBound,
  deploymentAvailable,
  jobComplete,
  namespaceReady,
  noneEnding,
  statefulSetReady,
} from "./waiting.ts";

/** Waits by kind, as Pulumi's provider does; objects of other kinds are ready as soon as they exist. */
const WAITS: Readonly<
  Record<string, (api: ApiServer, object: ObjectReference) => Promise<KubernetesObject>>
> = {
  Namespace: namespaceReady,
  Job: jobComplete,
  PersistentVolumeClaim: claimBound,
  Deployment: deploymentAvailable,
  StatefulSet: statefulSetReady,
};

/**
 * Applies objects in order, as `pulumi up` does with those of `stackObjects`: each after its dependencies are ready.
 * Claims get volumes, which {@link claimVolumes} names.
 *
 * @throws Error with the object's name at the first that is refused, fails, or does not become ready in time.
 */
export async function bringUp(api: ApiServer, objects: readonly KubernetesObject[]): Promise<ApplyWarnings> {
  let warnings = await applyAll(api, claimVolumes(objects));
  for (const object of objects) {
    if (object.kind === "Namespace") await noneEnding(api, object);
    warnings = { ...warnings, ...(await applyAll(api, [object])) };
    await WAITS[object.kind]?.(api, object);
  }
  return warnings;
}

/** The cluster before a stack: nodes, and objects that the cluster's owner has created. */
interface StackScene {
  readonly set: () => Promise<void>;
  /** Removes nodes, namespaces and all objects of the stack, even of one that has failed halfway. */
  readonly clear: () => Promise<void>;
}

export function stackScene(
  api: ApiServer,
  nodes: readonly KubernetesObject[],
  objects: readonly KubernetesObject[],
): StackScene {
  const granted = takenForGranted(objects);
  const all = [...objects, ...granted];
  return {
    set: async () => {
      await addNodes(api, nodes);
      await bringUp(api, granted);
    },
    clear: async () => {
      const namespaces = new Set(objects.flatMap(({ metadata }) => metadata.namespace ?? []));
      for (const namespace of namespaces) await removeNamespace(api, namespace);
      for (const volume of claimVolumes(all)) await api.remove(volume);
      for (const object of all)
        if (object.metadata.namespace === undefined && object.kind !== "Namespace") await api.remove(object);
      await removeNodes(api, nodes);
    },
  };
}

/** A volume for each claim, those of StatefulSets included. */
export function claimVolumes(objects: readonly KubernetesObject[]): KubernetesObject[] {
  return objects.flatMap((object) => {
    if (object.kind === "PersistentVolumeClaim") return [volumeFor(object)];
    if (object.kind === "StatefulSet") return ownClaims(object).map(volumeFor);
    return [];
  });
}

/** Claims that a StatefulSet makes for its pods. */
function ownClaims({ metadata: { name, namespace }, spec }: KubernetesObject): KubernetesObject[] {
  const { replicas = 1, volumeClaimTemplates = [] } = spec as {
    readonly replicas?: number;
    readonly volumeClaimTemplates?: readonly {
      readonly metadata: { readonly name: string };
      readonly spec: object;
    }[];
  };
  return volumeClaimTemplates.flatMap((template) =>
    Array.from({ length: replicas }, (_, index) => ({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: `${template.metadata.name}-${name}-${index}`, namespace },
      spec: template.spec,
    })),
  );
}
