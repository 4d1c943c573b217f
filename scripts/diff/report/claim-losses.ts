/**
 * What happens to the claims of a StatefulSet that is replaced or goes. They are the controller's, not the program's: no graph
 * has them, and it finds them again by name, `<template>-<set>-<ordinal>`, in the namespace of the set.
 */
import { z } from "zod";
import type { ChangeKind, ResourceChange } from "../types.ts";
import { code, type Inline, joined } from "./inline.ts";

/** Changes by which a resource goes. */
export type Loss = Extract<ChangeKind, "replace" | "may-replace" | "delete">;

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

type StatefulSet = z.infer<typeof statefulSet>;
type Template = z.infer<typeof template>;

export function keptClaims({ type, before, after }: ResourceChange, kind: Loss): readonly Inline[] {
  if (type !== "kubernetes:apps/v1:StatefulSet") return [];
  const [was, is] = [statefulSet.safeParse(before).data, statefulSet.safeParse(after).data];
  if (was === undefined || was.spec.volumeClaimTemplates.length === 0) return [];
  const isDeleted = was.spec.persistentVolumeClaimRetentionPolicy?.whenDeleted === "Delete";
  const found = new Map(is === undefined ? [] : claimsOf(is));
  const losses = claimsOf(was).flatMap(([claim, old]): Inline[] => {
    if (isDeleted) return [[code(claim), " goes with it, and what it stores is lost"]];
    const now = found.get(claim);
    if (now === undefined) {
      const instead = is === undefined ? "nothing uses it any more" : "the new one starts empty";
      return [[code(claim), ` stays with what it stores, and ${instead}`]];
    }
    const [former, wanted] = [wishes(old), wishes(now)];
    if (former === wanted) return [];
    return [[code(claim), " stays as it is, with ", code(former), " and not ", code(wanted)]];
  });
  const condition = kind === "may-replace" && losses.length > 0 ? ["where it is replaced, "] : [];
  return losses.length === 0 ? [] : [[...condition, ...joined(losses, "; ")]];
}

/** Without the ordinal, which each pod has. */
function claimsOf({ metadata, spec }: StatefulSet): readonly (readonly [string, Template])[] {
  return spec.volumeClaimTemplates.map(
    (one) => [`${metadata.namespace}/${one.metadata.name}-${metadata.name}`, one] as const,
  );
}

function wishes({ spec: { resources, storageClassName } }: Template): string {
  return [resources?.requests?.storage, storageClassName].filter((wish) => wish !== undefined).join(" ");
}
