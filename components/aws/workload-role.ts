/** An IAM role with its policies, and the pods that assume it. Cost: none. */
import { PodIdentityAssociation } from "@pulumi/aws/eks/podIdentityAssociation.js";
import { Role } from "@pulumi/aws/iam/role.js";
import { RolePolicy } from "@pulumi/aws/iam/rolePolicy.js";
import { RolePolicyAttachment } from "@pulumi/aws/iam/rolePolicyAttachment.js";
import * as pulumi from "@pulumi/pulumi";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";
import { filled } from "../../infra/plan/aws/data-files.ts";
import { policyDocument, type RolePlan } from "../../infra/plan/aws/roles.ts";

interface WorkloadRoleArgs {
  readonly context: AwsContext;
  readonly plan: RolePlan;
  /** Values of the placeholders in the plan's statements. */
  readonly inputs?: Readonly<Record<string, pulumi.Input<string>>>;
  /** Cluster of the pods; absent for a role of an AWS service. */
  readonly clusterName?: pulumi.Input<string>;
}

/** A resource that needs the role's rights depends on this component: the role exists before its policies. */
export class WorkloadRole extends pulumi.ComponentResource {
  readonly role: Role;
  readonly arn: pulumi.Output<string>;

  constructor(
    name: string,
    { context, plan, inputs = {}, clusterName }: WorkloadRoleArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:WorkloadRole", name, {}, opts);

    const own = { parent: this };
    const tags = namedTags(context, plan.subject);
    this.role = new Role(`${name}-role`, { ...plan.args, tags }, own);
    this.arn = this.role.arn;
    const role = this.role.name;
    for (const policyArn of plan.managedPolicies) {
      const policyName = policyArn.slice(policyArn.lastIndexOf("/") + 1);
      new RolePolicyAttachment(`${name}-${policyName}`, { role, policyArn }, own);
    }
    if (plan.statements.length > 0) {
      const document = policyDocument(plan.statements);
      // A preview does not know all values: without this check only `up` would find a missing value.
      filled(document, Object.fromEntries(Object.keys(inputs).map((key) => [key, ""])));
      const policy = pulumi.output(inputs).apply((values) => filled(document, values));
      new RolePolicy(`${name}-policy`, { name: "own", role, policy }, own);
    }
    if (plan.serviceAccount !== null && clusterName !== undefined)
      new PodIdentityAssociation(
        `${name}-association`,
        { ...plan.serviceAccount, clusterName, roleArn: this.arn, tags },
        own,
      );
    this.registerOutputs({ arn: this.arn });
  }
}
