/** What a rule looks at and what it says. A rule is a plain function: it needs neither Pulumi's CLI nor a cloud. */

/** What stands for a value that only `up` knows; `npm run render` writes the same. */
export const UNKNOWN = "[unknown]";

/** A resource as the program asked for it: what `npm run render` prints of it is one. */
export interface CheckedResource {
  /** `kubernetes:apps/v1:Deployment` */
  readonly type: string;
  /** In the program. */
  readonly name: string;
  readonly urn: string;
  /** URN; empty for the stack. */
  readonly parent: string;
  /** With {@link UNKNOWN} for what only `up` knows, and some placeholder for secrets. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** URNs of the resources that an input comes from. */
  readonly propertyDependencies: Readonly<Record<string, readonly string[]>>;
  readonly options: ResourceOptions;
}

interface ResourceOptions {
  readonly protect?: boolean;
  /** null: who asks is not told, as a policy pack. */
  readonly retainOnDelete?: boolean | null;
}

/** What rules need to know besides the resources, from the stack file. */
export interface StackFacts {
  readonly platform: string;
  /** US dollars; null: no cap. */
  readonly hourlyUsdCap: number | null;
  /** Whether the gateway wants an API key. */
  readonly hasApiKeys: boolean;
  /** `gateway.exposure`; null: not said. */
  readonly exposure: string | null;
  /** Whether the listener of a Gateway of the Gateway API, to which the stack has a route, ends TLS. */
  readonly listenerEndsTls: boolean;
}

/** All that a rule about the stack as a whole sees. */
export interface CheckedStack {
  readonly resources: readonly CheckedResource[];
  readonly facts: StackFacts;
  /** Outputs of the stack: infra/outputs.ts. */
  readonly outputs: Readonly<Record<string, unknown>>;
}

export type CheckedOutputs = Omit<CheckedStack, "resources">;

export interface Finding {
  /** null: the stack as a whole. */
  readonly resource: CheckedResource | null;
  /** What and why, with numbers where they decide. */
  readonly reason: string;
  readonly fix: string;
  /**
   * What decides is not known before `up`, or not to who looks. It is no violation, and must not pass in silence either: it
   * is said as advice, however much the rule matters.
   */
  readonly isUndecided?: true;
}

/** What a rule about single resources finds in one. */
export type ResourceFinding = Omit<Finding, "resource">;

/**
 * A rule about single resources stops an update before the resource is made; one that looks at several, or at outputs, can
 * only be checked at the end of a preview. What looks at outputs alone needs no resources: the plan knows them.
 */
export type Rule = { readonly description: string } & (
  | { readonly scope: "resource"; readonly check: (resource: CheckedResource) => readonly ResourceFinding[] }
  | { readonly scope: "stack"; readonly check: (stack: CheckedStack) => readonly Finding[] }
  | { readonly scope: "outputs"; readonly check: (stack: CheckedOutputs) => readonly Finding[] }
);

/** That a value which decides is not known. */
export function undecided(what: string): ResourceFinding {
  return {
    reason: `${what} is known only after \`up\`, so the rule can't be judged before.`,
    fix: "Look at it again after `up`, or give the value in the program.",
    isUndecided: true,
  };
}
