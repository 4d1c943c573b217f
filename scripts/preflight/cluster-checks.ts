/** Everything that can be wrong with a cluster, one check each: from what the stack needs and what the cluster says. */
import type { ClusterTarget } from "../program/cluster-target.ts";
import { frontFindings } from "./cluster-front.ts";
import { type ImageAnswers, imageFindings } from "./cluster-images.ts";
import { askedGroups, kindFindings } from "./cluster-kinds.ts";
import { namespaceFindings } from "./cluster-namespace.ts";
import { poolFindings } from "./cluster-pools.ts";
import { quotaFindings } from "./cluster-quota.ts";
import type { ClusterReading, Questions } from "./cluster-reading.ts";
import { neededRights, rightsFindings } from "./cluster-rights.ts";
import { hostOf, namedSecrets, secretFindings } from "./cluster-secrets.ts";
import { classFindings, storeFindings } from "./cluster-store.ts";
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
    volumes: [stack.store?.object?.spec?.volumeName ?? []].flat(),
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

  namespace: ({ stack, name }, reading) => namespaceFindings(stack, name, reading),

  Secrets: ({ stack }, reading) => secretFindings(stack, reading),

  "engine store": ({ stack }, reading) => storeFindings(stack, reading),

  "storage of databases": ({ stack }, reading) =>
    [...new Set(stack.databases.map((database) => database.storageClass))].flatMap((storageClass) =>
      stack.databases.every(({ claim }) => reading.claims?.some(({ name }) => name === claim))
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
      : classFindings(ingressClasses, ingress.spec?.ingressClassName ?? null, {
          check: "ingress",
          what: `The Ingress for ${hostOf(ingress)}`,
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
