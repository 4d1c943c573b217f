/**
 * What took long to make outlives a `destroy`: the engine store with its weights, and the databases. Engines take GPU hours
 * to build again; documents can't be built again at all.
 */
import { podContainers, podSpec } from "../containers.ts";
import type { CheckedResource, Finding, Rule } from "../rule.ts";
import { at, listAt, textAt } from "../values.ts";

/** Where containers have what may be lost: of a build that is under way. */
const SCRATCH = "/scratch";

const FIX = "Give it `retainOnDelete: true`, or `protect: true`.";

function keptFinding(resource: CheckedResource, what: string): readonly Finding[] {
  const { protect, retainOnDelete } = resource.options;
  if (protect === true || retainOnDelete === true) return [];
  if (retainOnDelete === null)
    return [
      {
        resource,
        reason: `Whether ${what} has retainOnDelete isn't told to policy packs.`,
        fix: "`npm run diff` sees it.",
        isUndecided: true,
      },
    ];
  return [
    {
      resource,
      reason: `${capital(what)} has neither protect nor retainOnDelete: a destroy, or a change that replaces it, deletes what it holds.`,
      fix: FIX,
    },
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Names of Docker volumes that only hold scratch. */
function scratchVolumes(resources: readonly CheckedResource[]): ReadonlySet<string> {
  const mounts = resources
    .filter(({ type }) => type === "docker:index/container:Container")
    .flatMap(({ inputs }) => listAt(inputs, "mounts"));
  const namesAt = (isScratch: boolean) =>
    mounts
      .filter((mount) => (at(mount, "target") === SCRATCH) === isScratch)
      .flatMap((mount) => textAt(mount, "source") ?? []);
  const held = new Set(namesAt(false));
  return new Set(namesAt(true).filter((name) => !held.has(name)));
}

/** Claims that some pod mounts as scratch alone. */
function scratchClaims(resources: readonly CheckedResource[]): ReadonlySet<string> {
  const uses = resources.flatMap((resource) => {
    const spec = podSpec(resource);
    const paths = podContainers(spec).flatMap((container) => listAt(container, "volumeMounts"));
    return listAt(spec, "volumes").flatMap((volume) => {
      const claim = textAt(volume, "persistentVolumeClaim", "claimName");
      if (claim === undefined) return [];
      const mounted = paths.filter((mount) => at(mount, "name") === at(volume, "name"));
      return [{ claim, isScratch: mounted.every((mount) => at(mount, "mountPath") === SCRATCH) }];
    });
  });
  const held = new Set(uses.filter(({ isScratch }) => !isScratch).map(({ claim }) => claim));
  return new Set(uses.map(({ claim }) => claim).filter((claim) => !held.has(claim)));
}

export const engineStoreIsProtected: Rule = {
  description: "The engine store and the databases outlive a destroy.",
  scope: "stack",
  check({ resources, facts }) {
    const volumes = scratchVolumes(resources);
    const claims = scratchClaims(resources);
    const kept = resources.filter(
      ({ type, inputs }) =>
        type === "kubernetes:core/v1:PersistentVolumeClaim" &&
        !claims.has(textAt(inputs, "metadata", "name") ?? ""),
    );
    const namespaces = new Set(kept.map(({ inputs }) => textAt(inputs, "metadata", "namespace")));
    return resources.flatMap((resource): readonly Finding[] => {
      const { type, inputs } = resource;
      switch (type) {
        case "kubernetes:core/v1:PersistentVolumeClaim":
          return kept.includes(resource) ? keptFinding(resource, "the claim") : [];
        // With it goes what is in it, claims that are kept too.
        case "kubernetes:core/v1:Namespace":
          return namespaces.has(textAt(inputs, "metadata", "name"))
            ? keptFinding(resource, "the namespace of a kept claim")
            : [];
        case "kubernetes:apps/v1:StatefulSet":
          return facts.keepsDocuments &&
            textAt(inputs, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") === "Delete"
            ? [
                {
                  resource,
                  reason:
                    "persistentVolumeClaimRetentionPolicy.whenDeleted is Delete: its documents go with it.",
                  fix: "Leave it out, or write Retain.",
                },
              ]
            : [];
        case "docker:index/volume:Volume":
          return volumes.has(textAt(inputs, "name") ?? "") ? [] : keptFinding(resource, "the volume");
        case "aws:efs/fileSystem:FileSystem":
          return keptFinding(resource, "the file system");
        case "aws:ebs/volume:Volume":
          return facts.keepsDocuments ? keptFinding(resource, "the disk of databases") : [];
        default:
          return [];
      }
    });
  },
};
