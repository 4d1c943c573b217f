/** What a change means beyond what a resource graph says: for claims that a controller keeps, for machines, for a service's rules. */
import { z } from "zod";
import { code, type Inline, joined } from "../../markdown.ts";
import type { ChangeKind, ResourceChange } from "../types.ts";

/** Changes by which a resource goes. */
export type Loss = Extract<ChangeKind, "replace" | "may-replace" | "delete">;

const TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate";

/** Of the template that machines start from, by the component that has it: which properties count, and what they do. */
const MACHINES: readonly { readonly component: string; readonly counts: RegExp; readonly words: string }[] = [
  {
    component: "engine-room:aws:Instance",
    counts: /^(blockDeviceMappings|imageId)\b/,
    words:
      "the machine that is there keeps its image and its root disk; another one starts with these, and docs/aws.md says how to get it (“A newer machine image, another root disk”)",
  },
  {
    component: "engine-room:aws:GpuNodePool",
    // Its own tags make no version of it.
    counts: /^(?!(tags|tagsAll|updateDefaultVersion)\b)/,
    words:
      "EKS replaces the machines of its pool one at a time, and gives them the newest image too; with GPUs the old one ends first, and its models are away meanwhile",
  },
];

/** Nothing where no machine is there already, as with a template that is new. */
export function machineWords({ kind, urn, type, properties }: ResourceChange): readonly string[] {
  if (kind !== "update" || type !== TEMPLATE) return [];
  return MACHINES.filter(
    ({ component, counts }) =>
      urn.includes(`${component}$${TEMPLATE}::`) && properties.some(({ path }) => counts.test(path)),
  ).map(({ words }) => words);
}

/** Updates that a service refuses by rules of its own, which no provider's schema has: `up` ends there. */
export function refusals({ type, properties }: ResourceChange): readonly string[] {
  // https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
  if (type !== "aws:eks/cluster:Cluster") return [];
  if (!properties.some(({ path }) => /^vpcConfig\.subnetIds\b/.test(path))) return [];
  return [
    "EKS takes subnets only in the zones that the cluster was made with, and wants one in each of them: in others `up` ends there",
  ];
}

const template = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z
    .object({
      resources: z.object({ requests: z.object({ storage: z.string().optional() }).optional() }).optional(),
      storageClassName: z.string().optional(),
    })
    .default({}),
});

const statefulSet = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string().default("default") }),
  spec: z.object({
    volumeClaimTemplates: z.array(template).default([]),
    persistentVolumeClaimRetentionPolicy: z.object({ whenDeleted: z.string().optional() }).optional(),
  }),
});

/**
 * What happens to the claims of a StatefulSet that is replaced or goes. They are the controller's, not the program's: no graph
 * has them, and it finds them again by name, `<template>-<set>-<ordinal>`, in the namespace of the set.
 */
export function keptClaims({ type, before, after }: ResourceChange, kind: Loss): readonly Inline[] {
  if (type !== "kubernetes:apps/v1:StatefulSet") return [];
  const [was, is] = [statefulSet.safeParse(before).data, statefulSet.safeParse(after).data];
  if (was === undefined) return [];
  const isDeleted = was.spec.persistentVolumeClaimRetentionPolicy?.whenDeleted === "Delete";
  const now = claimsOf(is);
  const losses = [...claimsOf(was)].flatMap(([claim, old]): Inline[] => {
    if (isDeleted) return [[code(claim), " goes with it, and what it stores is lost"]];
    const wanted = now.get(claim);
    if (wanted === undefined) {
      const instead = is === undefined ? "nothing uses it any more" : "the new one starts empty";
      return [[code(claim), ` stays with what it stores, and ${instead}`]];
    }
    return old === wanted
      ? []
      : [[code(claim), " stays as it is, with ", code(old), " and not ", code(wanted)]];
  });
  if (losses.length === 0) return [];
  return [[kind === "may-replace" ? "where it is replaced, " : "", ...joined(losses, "; ")]];
}

/** What is asked for each, `50Gi gp3`, by name without the ordinal, which each pod has. */
function claimsOf(set: z.infer<typeof statefulSet> | undefined): ReadonlyMap<string, string> {
  return new Map(
    set?.spec.volumeClaimTemplates.map(({ metadata, spec: { resources, storageClassName } }) => [
      `${set.metadata.namespace}/${metadata.name}-${set.metadata.name}`,
      [resources?.requests?.storage, storageClassName].filter((wish) => wish !== undefined).join(" "),
    ]),
  );
}
