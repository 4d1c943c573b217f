/** Everything that can be wrong with a cluster, one check each: from what the stack needs and what the cluster says. */
import type { ClusterTarget } from "../program/cluster-target.ts";
import { frontFindings } from "./cluster-front.ts";
import { type ImageAnswers, imageFindings } from "./cluster-images.ts";
import { askedGroups, kindFindings } from "./cluster-kinds.ts";
import { poolFindings } from "./cluster-pools.ts";
import { quotaFindings } from "./cluster-quota.ts";
import type { ClaimReading, ClassReading, ClusterReading, Questions } from "./cluster-reading.ts";
import { neededRights, rightsFindings } from "./cluster-rights.ts";
import { namedSecrets, secretFindings } from "./cluster-secrets.ts";
import { type CheckResult, type Finding, isOlder, problem, warning } from "./finding.ts";

/** What a cluster says, and what registries say of the images that it pulls. */
interface Readings extends ClusterReading {
  readonly images: ImageAnswers;
}

type Check = (target: ClusterTarget, reading: Readings) => readonly Finding[];

/** What a stack has to be asked about. */
export function clusterQuestions({ stack }: ClusterTarget): Questions {
  return {
    namespace: stack.namespace.name,
    rights: neededRights(stack),
    groups: askedGroups(stack),
    secrets: [...new Set(namedSecrets(stack).map(({ name }) => name))],
  };
}

/** All that is looked at, in the order of the table, with what is wrong. */
export function clusterChecks(target: ClusterTarget, reading: Readings): readonly CheckResult[] {
  return Object.entries(CHECKS).map(([looksAt, check]) => ({ looksAt, findings: check(target, reading) }));
}

/** By what each looks at, as the table names it. */
const CHECKS: Readonly<Record<string, Check>> = {
  "version of Kubernetes": (_, { version }) =>
    isOlder(version, LEAST_VERSION)
      ? [
          problem(
            "version",
            `The cluster is Kubernetes ${version}.`,
            `The stack needs ${LEAST_VERSION}: builds tell by podFailurePolicy which failures another try would not mend.`,
            "Update the cluster.",
          ),
        ]
      : [],

  "kinds and metrics of others": ({ stack }, { kinds }) => kindFindings(stack, kinds),

  "your rights": (_, { missingRights }) => rightsFindings(missingRights),

  namespace: ({ stack: { namespace } }, { hasNamespace }) =>
    namespace.isCreated || hasNamespace !== false
      ? []
      : [
          problem(
            "namespace",
            `There is no namespace ${namespace.name}.`,
            "The stack file names something in it, or has `createNamespace: false`, so that it must be there.",
            `\`kubectl create namespace ${namespace.name}\`, and put there what the stack file names.`,
          ),
        ],

  Secrets: ({ stack }, reading) => secretFindings(stack, reading),

  "engine store": ({ stack: { store } }, reading) => {
    if (store === null) return [];
    const there = reading.claims?.find(({ name }) => name === store.claim);
    if (store.creation === null) return existingClaim(store.claim, there, reading);
    if (there !== undefined) return [];
    const { storageClass, accessMode } = store.creation;
    const found = classFindings(reading.storageClasses, storageClass, {
      check: "storageClass",
      what: "The engine store",
      key: "engineStore.storageClass",
    });
    if (found.length > 0 || accessMode !== "ReadWriteMany") return found;
    const chosen = chosenClass(reading.storageClasses, storageClass);
    if (chosen === undefined || !ONE_MACHINE.has(chosen.maker)) return [];
    return [
      problem(
        "storageClass",
        `Volumes of the class ${chosen.name} are mounted by one machine at a time.`,
        `Its driver is ${chosen.maker}, and the engine store is asked for as ReadWriteMany, since builds and servers run on several machines.`,
        "Name a class of shared files in engineStore.storageClass (NFS, CephFS, EFS, Filestore, Azure Files), or set `accessMode: ReadWriteOnce` where all pods with GPUs run on one machine.",
      ),
    ];
  },

  "storage of databases": ({ stack }, reading) =>
    [...new Set(stack.databases.map(({ claim }) => claim.storageClass))].flatMap((storageClass) =>
      stack.databases.every(({ claim, name }) =>
        reading.claims?.some((one) => one.name === `${claim.name}-${name}-0`),
      )
        ? []
        : classFindings(reading.storageClasses, storageClass, {
            check: "storageClass",
            what: "Databases",
            key: "databaseStorage.storageClass",
          }),
    ),

  Ingress: ({ stack: { ingress } }, { ingressClasses }) =>
    ingress === null
      ? []
      : classFindings(ingressClasses, ingress.className, {
          check: "ingress",
          what: `The Ingress for ${ingress.host}`,
          key: "gateway.ingressClass",
        }),

  quotas: (target, reading) => quotaFindings(target.stack, reading),

  "what may be listed": (_, { nodes, pods }) =>
    nodes !== null && pods !== null
      ? []
      : [
          warning(
            "machines",
            `You may not list ${nodes === null ? "nodes" : "pods of all namespaces"}.`,
            nodes === null
              ? "So nothing can be said of machines, GPUs and drivers."
              : "So every GPU counts as free.",
            "Ask whoever owns the cluster to run preflight, or for the ClusterRole view.",
          ),
        ],

  "pools: GPUs, drivers, room": ({ plan, ...target }, reading) =>
    plan.tier === "cpu"
      ? []
      : plan.spec.pools.flatMap((pool) => poolFindings({ ...target, plan }, pool, reading)),

  "room for all else": frontFindings,

  "images and registries": (target, { images }) => imageFindings(target, images),
};

/** `podFailurePolicy` is on by default since then. */
const LEAST_VERSION = "1.26";

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

function chosenClass(classes: readonly ClassReading[] | null, wanted: string | null) {
  return classes?.find(({ name, isDefault }) => (wanted === null ? isDefault : name === wanted));
}

function classFindings(
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
