/** Reports changes of resources: first those that a reviewer must see before the merge, then all of them, by kind. */
import { code, type Inline, joined, strong } from "../markdown.ts";
import { SECRET_PLACEHOLDER } from "../program/serialized.ts";
import { resourceLabel } from "./resource-names.ts";
import type { ChangeKind, PropertyDifference, ResourceChange } from "./types.ts";

/** A point of a list, with points below it. */
export interface Entry {
  readonly text: Inline;
  readonly points?: readonly Inline[];
}

export interface Section {
  readonly title: string;
  /** A section without entries is left out. */
  readonly entries: readonly Entry[];
  /** Whether a comment shows only its title until a reader asks, and cuts it before the others. @default false */
  readonly isFolded?: boolean;
}

/** Groups items by key, in the order of each group's first item. */
export function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => unknown,
): readonly (readonly Item[])[] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = JSON.stringify(keyOf(item));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/** In the order of a report. */
export const KIND_WORDS: Readonly<Record<ChangeKind, string>> = {
  replace: "replaced",
  "may-replace": "may be replaced",
  delete: "deleted",
  update: "updated",
  create: "created",
};

/** `protect` and `retainOnDelete` of the Pulumi engine, for a deleted resource. */
const KEPT: Readonly<Record<NonNullable<ResourceChange["kept"]>, string>> = {
  protected: "it is protected, so `up` refuses to delete it",
  retained:
    "it is retained: the old resource stays, outside of any stack, and a new resource can't have its name",
};

/** Consequence of a change that the resource graph does not show. */
interface Consequence {
  readonly type: string;
  readonly applies: (change: ResourceChange) => boolean;
  readonly words: string;
}

const CONSEQUENCES: readonly Consequence[] = [
  // Claims are the controller's, not the program's: no graph has them, and a set finds them again by its name and namespace.
  {
    type: "kubernetes:apps/v1:StatefulSet",
    applies: (change) => isLoss(change) && hasClaims(change, "Retain"),
    words:
      "the claims of its pods stay with their data; a set of another name or namespace starts empty, and another size is not applied",
  },
  {
    type: "kubernetes:apps/v1:StatefulSet",
    applies: (change) => isLoss(change) && hasClaims(change, "Delete"),
    words: "the claims of its pods are deleted with it, and their data is lost",
  },
  // https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
  {
    type: "aws:eks/cluster:Cluster",
    applies: (change) => change.kind === "update" && changes(change, /^vpcConfig\.subnetIds\b/),
    words:
      "EKS takes subnets only in the zones that the cluster was made with, and requires one in each of them; it refuses others",
  },
  // https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
  {
    type: "aws:eks/nodeGroup:NodeGroup",
    applies: isLoss,
    words: "EKS drains its machines and ends them; its servers start again on those of the new group",
  },
  {
    type: "aws:backup/plan:Plan",
    applies: (change) => change.kind === "delete",
    words: "no daily copies are made any more",
  },
  {
    type: "aws:ec2/launchTemplate:LaunchTemplate",
    applies: (change) =>
      change.kind === "update" &&
      change.urn.includes("engine-room:aws:Instance$") &&
      changes(change, /^(blockDeviceMappings|imageId)\b/),
    words:
      "the running machine keeps its image and its root disk; docs/tasks/upgrade.md says how to get another one (“A newer machine image, another root disk, on AWS”)",
  },
  {
    type: "aws:ec2/launchTemplate:LaunchTemplate",
    applies: (change) =>
      change.kind === "update" &&
      change.urn.includes("engine-room:aws:GpuNodePool$") &&
      // Its own tags create no version of it.
      changes(change, /^(?!(tags|tagsAll|updateDefaultVersion)\b)/),
    words:
      "EKS replaces the machines of its pool one at a time, and gives them the newest image too; with GPUs the old machine ends first, and its models are unavailable meanwhile",
  },
];

function isLoss({ kind }: ResourceChange): boolean {
  return kind === "replace" || kind === "may-replace" || kind === "delete";
}

function changes({ properties }: ResourceChange, paths: RegExp): boolean {
  return properties.some(({ path }) => paths.test(path));
}

function hasClaims({ before }: ResourceChange, whenDeleted: "Retain" | "Delete"): boolean {
  const spec = (before?.spec ?? {}) as {
    readonly volumeClaimTemplates?: unknown;
    readonly persistentVolumeClaimRetentionPolicy?: { readonly whenDeleted?: unknown } | null;
  };
  const policy = spec.persistentVolumeClaimRetentionPolicy?.whenDeleted ?? "Retain";
  return spec.volumeClaimTemplates !== undefined && policy === whenDeleted;
}

const MOST_NAMED_PATHS = 5;

/** Losses of held or stored data, possible replacements, updates that are refused or do less than they seem to. */
export function dangerSection(resources: readonly ResourceChange[]): Section {
  const entries = resources.flatMap((change): Entry[] => {
    const { kind, type, name, label, kept, before } = change;
    const reasons: readonly Inline[] = [
      ...(kind === "may-replace" ? causes(change, "the table of replacements does not know ", kind) : []),
      ...(kept !== null && isLoss(change) ? [[KEPT[kept]]] : []),
      ...CONSEQUENCES.filter((row) => row.type === type && row.applies(change)).map(({ words }) => [words]),
    ];
    if (reasons.length === 0) return [];
    const former = before === null ? label : resourceLabel({ type, name, inputs: before });
    const names: Inline = former === label ? [code(label)] : [code(former), " → ", code(label)];
    const words = strong(`${kind === "may-replace" ? "" : "is "}${KIND_WORDS[kind]}`);
    return [{ text: [...names, " ", words, ": ", ...joined(reasons, "; ")] }];
  });
  return { title: "Look at these first", entries };
}

/** Properties that decide the change; empty if the resource's own options do. */
function causes({ properties }: ResourceChange, words: string, effect: ChangeKind): readonly Inline[] {
  const deciding = properties.filter((property) => property.effect === effect);
  if (deciding.length === 0) return [];
  const more = deciding.length - MOST_NAMED_PATHS;
  const named = deciding.slice(0, MOST_NAMED_PATHS).map(({ path }): Inline => [code(path)]);
  return [[words, ...joined([...named, ...(more > 0 ? [[`${more} more`]] : [])], ", ")]];
}

/** Every resource, a section a kind. */
export function resourceSections(resources: readonly ResourceChange[]): readonly Section[] {
  return (Object.keys(KIND_WORDS) as ChangeKind[]).map((kind) => ({
    title: `${KIND_WORDS[kind].charAt(0).toUpperCase()}${KIND_WORDS[kind].slice(1)}`,
    entries: resources.filter((change) => change.kind === kind).map(resourceEntry),
    isFolded: true,
  }));
}

/** Inputs that grant rights, by type: they are shown for added and removed resources. */
const GRANTS: Readonly<Record<string, RegExp>> = {
  "aws:eks/accessEntry:AccessEntry": /^(principalArn|kubernetesGroups|type)\b/,
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": /^(principalArn|policyArn|accessScope)\b/,
  "aws:iam/role:Role": /^(assumeRolePolicy|managedPolicyArns)\b/,
  "aws:iam/rolePolicy:RolePolicy": /^policy\b/,
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": /^(role|policyArn)\b/,
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
    /^(cidrIpv4|cidrIpv6|fromPort|toPort|referencedSecurityGroupId)\b/,
  "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": /^rules\b/,
  "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": /^(subjects|roleRef)\b/,
  "kubernetes:rbac.authorization.k8s.io/v1:Role": /^rules\b/,
  "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": /^(subjects|roleRef)\b/,
};

/** Resources of Kubernetes and EKS that grant access, in this order. */
export function isGrant({ type, kind }: ResourceChange): boolean {
  return /^(aws:eks\/access|kubernetes:rbac)/.test(type) && Object.hasOwn(GRANTS, type) && kind !== "delete";
}

/** Inputs of an added or removed resource are left out: they would repeat the program. */
function resourceEntry(change: ResourceChange): Entry {
  const { kind, label, kept, deletedFirst } = change;
  const notes: readonly Inline[] = [
    ...(kind === "replace" ? causes(change, "because of ", kind) : []),
    // A retained resource is never deleted.
    ...(deletedFirst === true && kept !== "retained" ? [["the old resource is deleted first"]] : []),
    ...(kept === null ? [] : [[kept]]),
  ];
  const text: Inline = [code(label), ...(notes.length === 0 ? [] : [": ", ...joined(notes, "; ")])];
  return { text, points: shownProperties(change).map(propertyText) };
}

/** Grants of an added or removed resource; else its changed properties. */
export function shownProperties({ type, kind, properties }: ResourceChange): readonly PropertyDifference[] {
  if (kind !== "create" && kind !== "delete") return properties;
  const granting = Object.hasOwn(GRANTS, type) ? GRANTS[type] : undefined;
  return properties.filter(({ path }) => granting?.test(path));
}

/** `path: 1 → 2`; for an added or removed part, `path: 1`. */
export function propertyText({ path, effect, before, after }: PropertyDifference): Inline {
  if (before === SECRET_PLACEHOLDER && after === SECRET_PLACEHOLDER) return [code(path), ": secret, changed"];
  const value = (text: string | undefined) =>
    text === undefined ? "absent" : text === SECRET_PLACEHOLDER ? "secret" : code(text);
  if (effect === null) return [code(path), ": ", value(after ?? before)];
  return [code(path), ": ", value(before), " → ", value(after)];
}
