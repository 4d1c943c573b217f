/** What a change does to a stack, as data: computed in one place, shown as Markdown, text or JSON. */
import type { Problem } from "../../infra/problems.ts";
import type { PlanDifferences } from "./plan-differences.ts";

/**
 * What happens to a resource. `may-replace`: the table of replacements does not know the property, and the provider may
 * make the resource anew.
 */
export type ChangeKind = "create" | "update" | "replace" | "may-replace" | "delete";

export interface PropertyDifference {
  /** `spec.template.spec.containers[gateway].image`; elements that have no name by their place, `args[0]` */
  readonly path: string;
  readonly kind: "add" | "update" | "delete";
  /** As shown: JSON, cut; `[secret]` for a secret, `[unknown]` for what only `up` knows. Absent for `add`. */
  readonly before?: string;
  /** Absent for `delete`. */
  readonly after?: string;
  /** What the table says of the property: null for creations and deletions. */
  readonly effect: "update" | "replace" | "may-replace" | null;
}

/** A resource that is not the same before and after. */
export interface ResourceChange {
  readonly kind: ChangeKind;
  /** `kubernetes:apps/v1:Deployment` */
  readonly type: string;
  /** Of the resource in the program. */
  readonly name: string;
  readonly urn: string;
  /** `Deployment engine-room/llava`, as people find it; the name in the program where there is no better one. */
  readonly label: string;
  /** Sorted by path. */
  readonly properties: readonly PropertyDifference[];
  /** Inputs, with secrets masked: a hunk shows both where that reads better. null: it was not there, or is gone. */
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  /** Why it must not be lost without a word: `protect`, `retainOnDelete`; null: nothing holds it. */
  readonly kept: "protected" | "retained" | null;
  /** Of a replacement: whether the old one goes before the new one is there. null: it is not replaced. */
  readonly deletedFirst: boolean | null;
}

/** Of the stack file; encrypting the same value again counts as an update. */
export interface SecretChange {
  /** `hub.token` */
  readonly path: string;
  readonly kind: "add" | "update" | "delete";
}

/** One side of a comparison. */
export interface ComparedTree {
  /** As it was asked for: `origin/main`; null: the working tree. */
  readonly ref: string | null;
  /** null: the working tree. */
  readonly commit: string | null;
  /** Whether it has a file of the stack. Where the base has none, all of the head is new. */
  readonly hasStack: boolean;
  /** Why there is nothing of it to compare, in one sentence: the rest of the report then shows the other side alone. */
  readonly failure: string | null;
  /** Of its stack file; with one there is no graph. */
  readonly problems: readonly Problem[];
}

/** A rule that the stack breaks, and how much it matters for this stack. */
export interface PolicyViolation {
  /** `engine-store-is-protected` */
  readonly policy: string;
  readonly level: "advisory" | "mandatory";
  /** As {@link ResourceChange.label}; a URN where nobody knows more. null: about the stack as a whole. */
  readonly resource: string | null;
  /** What and why, with numbers where they decide. */
  readonly reason: string;
  readonly fix: string;
  /** Whether the base keeps it; null: the base could not be asked. */
  readonly isNew: boolean | null;
}

/** What merging a change would do to one stack. */
export interface StackDiff {
  readonly stack: string;
  /** `rendered`: from the two trees' own programs; `pulumi-preview`: against the state, by the Pulumi CLI. */
  readonly source: "rendered" | "pulumi-preview";
  readonly base: ComparedTree;
  readonly head: ComparedTree;
  /** Sorted by kind (replace, may-replace, delete, update, create), then by URN. null: one side has no graph. */
  readonly resources: readonly ResourceChange[] | null;
  /** Number of resources that stay as they are. */
  readonly unchanged: number;
  /** Engines, memory, money, time to the first answer, advisories, problems. null: one side has no plan with these. */
  readonly plan: PlanDifferences | null;
  /** Secrets of the stack file that are not the same, sorted by path: never their values. */
  readonly secrets: readonly SecretChange[];
  /** Of the head. */
  readonly violations: readonly PolicyViolation[];
  /** Policies of the stack that could not be applied to the head, which has no resource graph or no outputs. */
  readonly uncheckedPolicies: readonly string[];
}
