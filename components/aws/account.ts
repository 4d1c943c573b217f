/** The budget of a stack, which belongs to the account. Cost: none. */
import { Budget, type BudgetArgs } from "@pulumi/aws/budgets/budget.js";
import * as pulumi from "@pulumi/pulumi";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";

interface GuardArgs {
  readonly context: AwsContext;
  readonly budget: BudgetArgs;
}

/**
 * A budget of the stack by its tag, which has to be activated once an account as a cost allocation tag. AWS mails at four fifths of the
 * amount, and when it forecasts more than all of it.
 */
export class Guard extends pulumi.ComponentResource {
  constructor(name: string, { context, budget }: GuardArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Guard", name, {}, opts);

    new Budget(`${name}-budget`, { ...budget, tags: namedTags(context, "budget") }, { parent: this });
    this.registerOutputs({});
  }
}

interface ProtectionArgs {
  readonly context: AwsContext;
  /** All other resources of the stack. */
  readonly resources: readonly pulumi.Resource[];
}

/**
 * Fails `pulumi destroy` of a retained stack before anything is deleted: this resource is protected, and depends on all others, so the
 * engine would delete it first. Without it the engine deletes everything up to the first protected resource, such as the load balancer.
 */
export class Protection extends pulumi.ComponentResource {
  constructor(name: string, { context, resources }: ProtectionArgs, opts?: pulumi.ComponentResourceOptions) {
    const dependsOn = [...resources];
    super("engine-room:aws:Protection", name, {}, { ...opts, protect: context.isRetained, dependsOn });

    this.registerOutputs({});
  }
}
