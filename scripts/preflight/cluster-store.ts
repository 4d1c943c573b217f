/** Where weights and engines lie: the claim, or what it is made of. */
import type { KubernetesStack } from "../../infra/plan/kubernetes/kubernetes-stack.ts";
import type { ApiObject } from "../../infra/plan/kubernetes/objects.ts";
import type { ClaimReading, ClassReading } from "./cluster-objects.ts";
import type { ClusterReading } from "./cluster-reading.ts";
import { type Finding, problem } from "./finding.ts";
import { quantity } from "./quantity.ts";

type ClaimSpec = NonNullable<ApiObject<"PersistentVolumeClaim">["spec"]>;

/** Drivers of disks that one machine at a time mounts for writing. */
const ONE_MACHINE: ReadonlySet<string> = new Set([
  "disk.csi.azure.com",
  "ebs.csi.aws.com",
  "kubernetes.io/aws-ebs",
  "kubernetes.io/gce-pd",
  "pd.csi.storage.gke.io",
  "rancher.io/local-path",
  "k8s.io/minikube-hostpath",
  "topolvm.io",
]);

export function storeFindings({ store }: KubernetesStack, reading: ClusterReading): readonly Finding[] {
  if (store === null) return [];
  const { claim, object } = store;
  const there = reading.claims?.find(({ name }) => name === claim);
  if (object?.spec === undefined) return existingClaim(claim, there, reading);
  const { spec } = object;
  if (there !== undefined) return keptClaim(there, spec);
  return spec.volumeName === undefined
    ? classOfNewClaim(spec, reading)
    : volumeFindings(spec.volumeName, spec, reading);
}

function existingClaim(
  claim: string,
  there: ClaimReading | undefined,
  { claims, hasNamespace }: ClusterReading,
): readonly Finding[] {
  if (claims === null || hasNamespace === false) return [];
  if (there === undefined)
    return [
      problem(
        "claim",
        `There is no claim ${claim}.`,
        `engineStore.existingClaim names it; the namespace has ${claims.map(({ name }) => name).join(", ") || "none"}.`,
        "Make it, or name a class in engineStore.storageClass, and the stack makes one.",
      ),
    ];
  // One that waits for its first pod is Pending, and right so.
  return there.phase === "Lost"
    ? [
        problem(
          "claim",
          `The claim ${claim} has lost its volume.`,
          "Its phase is Lost.",
          `\`kubectl describe pvc ${claim}\` says which volume it was; make claim and volume anew.`,
        ),
      ]
    : [];
}

/** A claim that an earlier stack left keeps its class, mode and volume, and can only grow. */
function keptClaim(
  there: ClaimReading,
  { storageClassName, accessModes: [accessMode = ""] = [], volumeName, resources }: ClaimSpec,
): readonly Finding[] {
  const size = resources?.requests?.storage ?? "0";
  const differences = [
    ...(storageClassName === undefined || storageClassName === there.storageClass
      ? []
      : [`its class is ${there.storageClass || "none"}, and ${storageClassName || "none"} is asked for`]),
    ...(there.accessModes.includes(accessMode)
      ? []
      : [`its mode is ${there.accessModes.join(", ")}, and ${accessMode} is asked for`]),
    ...(volumeName === undefined || there.volume === null || volumeName === there.volume
      ? []
      : [`its volume is ${there.volume}, and ${volumeName} is asked for`]),
    ...(there.size === null || quantity(there.size) <= quantity(size)
      ? []
      : [`it asks for ${there.size}, and ${size} is less`]),
  ];
  if (differences.length === 0) return [];
  return [
    problem(
      "claim",
      `The claim ${there.name} is there already, and Kubernetes does not change such a claim.`,
      `${differences.join("; ")}.`.replace(/^i/, "I"),
      `Write in engineStore what the claim has; or delete it with all its engines (\`kubectl delete pvc ${there.name}\`), and the stack makes a new one.`,
    ),
  ];
}

function volumeFindings(
  name: string,
  { storageClassName: storageClass = "" }: ClaimSpec,
  { volumes }: ClusterReading,
): readonly Finding[] {
  const volume = volumes.get(name);
  if (volume === undefined) return [];
  if (volume === null)
    return [
      problem(
        "volume",
        `There is no volume ${name}.`,
        "engineStore.existingVolume names it.",
        "Make the PersistentVolume, or name a class in engineStore.storageClass.",
      ),
    ];
  if (volume.phase !== "Available")
    return [
      problem(
        "volume",
        `The volume ${name} is ${volume.phase}.`,
        `It has been given to the claim ${volume.claim ?? "of somebody"}, and a volume is bound to one claim.`,
        volume.phase === "Released"
          ? `Take its claimRef away (\`kubectl edit pv ${name}\`) where its old claim is gone for good, or name another volume.`
          : "Name its claim in engineStore.existingClaim, or another volume.",
      ),
    ];
  if (volume.storageClass === storageClass) return [];
  return [
    problem(
      "volume",
      `The volume ${name} is of the class ${volume.storageClass || "none"}.`,
      `The claim asks for the class ${storageClass || "none"}, and only a volume of the same class is bound to it.`,
      volume.storageClass === ""
        ? "Remove engineStore.storageClass."
        : `Write \`storageClass: ${volume.storageClass}\` beside existingVolume.`,
    ),
  ];
}

function classOfNewClaim(
  { storageClassName, accessModes: [accessMode] = [] }: ClaimSpec,
  { storageClasses }: ClusterReading,
): readonly Finding[] {
  const storageClass = storageClassName ?? null;
  const found = classFindings(storageClasses, storageClass, {
    check: "storageClass",
    what: "The engine store",
    key: "engineStore.storageClass",
  });
  if (found.length > 0 || accessMode !== "ReadWriteMany") return found;
  const chosen = chosenClass(storageClasses, storageClass);
  if (chosen === undefined || !ONE_MACHINE.has(chosen.maker)) return [];
  return [
    problem(
      "storageClass",
      `Volumes of the class ${chosen.name} are mounted by one machine at a time.`,
      `Its driver is ${chosen.maker}, and the engine store is asked for as ReadWriteMany, since builds and servers run on several machines.`,
      "Name a class of shared files in engineStore.storageClass (NFS, CephFS, EFS, Filestore, Azure Files), or set `accessMode: ReadWriteOnce` where all pods with GPUs run on one machine.",
    ),
  ];
}

function chosenClass(classes: readonly ClassReading[] | null, wanted: string | null) {
  return classes?.find(({ name, isDefault }) => (wanted === null ? isDefault : name === wanted));
}

/** A class of volumes or Ingresses that is not there. */
export function classFindings(
  classes: readonly ClassReading[] | null,
  wanted: string | null,
  { check, what, key }: { readonly check: string; readonly what: string; readonly key: string },
): readonly Finding[] {
  if (classes === null || chosenClass(classes, wanted) !== undefined) return [];
  const names = classes.map(({ name }) => name).join(", ");
  return [
    problem(
      check,
      wanted === null ? "The cluster has no default class for it." : `There is no class ${wanted}.`,
      `${what} ${what.endsWith("s") ? "need" : "needs"} it; the cluster has ${names || "none"}.`,
      names === "" ? `Install a driver, and name its class in ${key}.` : `Name one of these in ${key}.`,
    ),
  ];
}
