/** Who may talk to whom in the namespace. Cost: none. Needs a network plugin that enforces policies. */
import { NetworkPolicy } from "@pulumi/kubernetes/networking/v1/networkPolicy.js";
import * as pulumi from "@pulumi/pulumi";
import type { Labels, PodRole } from "../../infra/plan/kubernetes/pod-types.ts";
import type { NetworkEdge } from "../../infra/plan/kubernetes/types.ts";
import { networkPolicies } from "./network-policy-args.ts";

interface NetworkPoliciesArgs {
  readonly edges: readonly NetworkEdge[];
  readonly labels: Labels;
  /** Of all pods of the stack. */
  readonly selector: Labels;
  readonly namespace: pulumi.Input<string>;
}

export class NetworkPolicies extends pulumi.ComponentResource {
  readonly #policies: readonly { readonly role: PodRole | null; readonly policy: NetworkPolicy }[];

  constructor(name: string, args: NetworkPoliciesArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:kubernetes:NetworkPolicies", name, {}, opts);

    const { edges, labels, selector, namespace } = args;
    // The namespace may be somebody else's, with policies of its own.
    this.#policies = networkPolicies(edges, selector).map(({ name: policyName, role, spec }) => ({
      role,
      policy: new NetworkPolicy(
        `${name}-${policyName}`,
        { metadata: { name: `engine-room-${policyName}`, namespace, labels: { ...labels } }, spec },
        { parent: this },
      ),
    }));
    this.registerOutputs({});
  }

  /** What must be there before a pod of a role starts. */
  of(role: PodRole): readonly NetworkPolicy[] {
    return this.#policies.filter((one) => one.role === null || one.role === role).map(({ policy }) => policy);
  }
}
