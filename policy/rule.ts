/** Type of rules, and functions that read inputs of resources. Neither the Pulumi CLI nor a cloud is needed. */
import type { PolicyLevel } from "../infra/plan/catalogue/types.ts";

/** Replaces a value that only `up` knows, here as in `npx engine-room render`. */
export const UNKNOWN = "[unknown]";

/** Type of the resource of the stack itself. Its inputs are the stack's outputs (infra/outputs.ts), as in a policy pack. */
export const STACK = "pulumi:pulumi:Stack";

/** A resource as the program asks for it, in the form of `npx engine-room render`. */
export interface CheckedResource {
  readonly type: string;
  readonly name: string;
  readonly urn: string;
  /** With {@link UNKNOWN} for values that only `up` knows. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** URNs of the resources that an input depends on. */
  readonly propertyDependencies: Readonly<Record<string, readonly string[]>>;
  /** `retainOnDelete: null`: unknown, since policy packs are not told. */
  readonly options: {
    readonly protect?: boolean | undefined;
    readonly retainOnDelete?: boolean | null | undefined;
  };
}

/** Facts from the stack file that rules need in addition to the resources. */
export interface StackFacts {
  readonly platform: string;
  /** Whether documents outlive the stack: `retain` names the stacks whose do; without it all do. */
  readonly keepsDocuments: boolean;
  /** US dollars; null: no cap. */
  readonly hourlyUsdCap: number | null;
  /** Whether the gateway requires an API key. */
  readonly hasApiKeys: boolean;
  /** `gateway.exposure`; null: not set. */
  readonly exposure: string | null;
  /** Whether TLS ends at the listener of the Gateway (Gateway API) that the stack's route uses. */
  readonly listenerEndsTls: boolean;
  /**
   * References of the stack's own images that images.lock.json has no digest of yet, as its pods name them; null: those of another
   * commit, whose images are told by their form.
   */
  readonly awaitedImages: readonly string[] | null;
}

export interface CheckedStack {
  readonly resources: readonly CheckedResource[];
  readonly facts: StackFacts;
}

export interface Finding {
  /** With numbers if they decide. */
  readonly reason: string;
  readonly fix: string;
  /**
   * The deciding value is unknown before `up`, or to a policy pack, or before an image is built. Reported as advice, whatever the level
   * of the rule.
   */
  readonly isUndecided?: true;
}

/** Checks one resource. Only rules of scope `stack` see the other resources. */
export type Check = (resource: CheckedResource, stack: CheckedStack) => readonly Finding[];

export interface Rule {
  readonly description: string;
  /** On lasting stacks; on this machine (`platform: local`) every rule is advisory. @default mandatory */
  readonly level?: PolicyLevel;
  /** On stacks of pull requests. @default level */
  readonly previewLevel?: PolicyLevel;
  /**
   * `resource`: each resource can be checked by itself, so that a violation stops an update before the resource is created.
   * `stack`: needs several resources or the outputs, so that a policy pack checks them at the end of a preview.
   */
  readonly scope: "resource" | "stack";
  /** By type of resource; `aws:*` is for all types of a provider that are not listed. */
  readonly checks: Readonly<Record<string, Check>>;
}

/** A finding if a rule is broken. */
export function violatedIf(isViolated: boolean, reason: string, fix: string): readonly Finding[] {
  return isViolated ? [{ reason, fix }] : [];
}

/** @param what - The deciding value. */
export function undecided(what: string): readonly Finding[] {
  const reason = `${what} is known only after \`up\`, so the rule can't be judged before.`;
  return [
    { reason, fix: "Look at it again after `up`, or give the value in the program.", isUndecided: true },
  ];
}

/** `at(inputs, "spec", "template", "spec")`; undefined if a key is missing, {@link UNKNOWN} inside an unknown value. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (isMapping(inner) ? inner[key] : inner === UNKNOWN ? UNKNOWN : undefined),
    value,
  );
}

/** Empty if there is no list. */
export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" ? found : undefined;
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
