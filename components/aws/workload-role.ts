/** An IAM role of one workload: what AWS's own policies give it, and what is its own. Cost: none. */
import { PodIdentityAssociation } from "@pulumi/aws/eks/podIdentityAssociation.js";
import { Role } from "@pulumi/aws/iam/role.js";
import { RolePolicy } from "@pulumi/aws/iam/rolePolicy.js";
import { RolePolicyAttachment } from "@pulumi/aws/iam/rolePolicyAttachment.js";
import * as pulumi from "@pulumi/pulumi";
import { placeholderNames, requireValues } from "../../infra/plan/aws/placeholders.ts";
import { policyDocument, roleName, trustPolicy } from "../../infra/plan/aws/roles.ts";
import type { AwsContext, RolePlan } from "../../infra/plan/aws/types.ts";
import { namedTags } from "./tags.ts";

interface WorkloadRoleArgs {
  readonly context: AwsContext;
  readonly plan: RolePlan;
  /** Values of `${name}` in the plan's statements. */
  readonly inputs?: Readonly<Record<string, pulumi.Input<string>>>;
  /**
   * Cluster whose pods take it, where the plan names their ServiceAccount. Absent: what makes the pods says so itself, as
   * an add-on of EKS does.
   */
  readonly clusterName?: pulumi.Input<string>;
}

/** What needs its rights depends on the component, not on the role: a role is there before its policies. */
export class WorkloadRole extends pulumi.ComponentResource {
  readonly role: Role;
  readonly arn: pulumi.Output<string>;

  constructor(name: string, args: WorkloadRoleArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:WorkloadRole", name, {}, opts);

    this.role = this.#createRole(name, args);
    this.arn = this.role.arn;
    for (const arn of args.plan.managedPolicies) this.#attachPolicy(name, arn);
    this.#createPolicy(name, args);
    this.#createAssociation(name, args);
    this.registerOutputs({ arn: this.arn });
  }

  #createRole(name: string, { context, plan }: WorkloadRoleArgs): Role {
    return new Role(
      `${name}-role`,
      {
        name: roleName(context, plan.subject),
        assumeRolePolicy: trustPolicy(plan, context),
        // A policy that somebody attached by hand is no reason to keep it.
        forceDetachPolicies: true,
        tags: namedTags(context, plan.subject),
      },
      { parent: this },
    );
  }

  #attachPolicy(name: string, policyArn: string): void {
    const policyName = policyArn.slice(policyArn.lastIndexOf("/") + 1);
    new RolePolicyAttachment(`${name}-${policyName}`, { role: this.role.name, policyArn }, { parent: this });
  }

  #createPolicy(name: string, { plan: { statements }, inputs = {} }: WorkloadRoleArgs): void {
    if (statements.length === 0) return;
    requireValues(statements, inputs);
    const isKnown = placeholderNames(statements).length === 0;
    new RolePolicy(
      `${name}-policy`,
      {
        name: "own",
        role: this.role.name,
        policy: isKnown
          ? policyDocument(statements)
          : pulumi.output(inputs).apply((values) => policyDocument(statements, values)),
      },
      { parent: this },
    );
  }

  #createAssociation(name: string, { context, plan, clusterName }: WorkloadRoleArgs): void {
    if (plan.serviceAccount === null || clusterName === undefined) return;
    new PodIdentityAssociation(
      `${name}-association`,
      {
        clusterName,
        namespace: plan.serviceAccount.namespace,
        serviceAccount: plan.serviceAccount.name,
        roleArn: this.arn,
        tags: namedTags(context, plan.subject),
      },
      { parent: this },
    );
  }
}
