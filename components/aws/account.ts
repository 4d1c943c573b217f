/**
 * What a stack makes for the account rather than for its machines: repositories of images, and a budget. Cost: 0.10 USD a GB and month of
 * images (us-east-1); scans on push and budgets are free.
 */
import { Budget, type BudgetArgs } from "@pulumi/aws/budgets/budget.js";
import { LifecyclePolicy } from "@pulumi/aws/ecr/lifecyclePolicy.js";
import { Repository } from "@pulumi/aws/ecr/repository.js";
import * as pulumi from "@pulumi/pulumi";
import type { RepositoryPlan } from "../../infra/plan/aws/account.ts";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";

interface RegistriesArgs {
  readonly context: AwsContext;
  readonly repositories: readonly RepositoryPlan[];
}

/** Repositories of ECR. Those of a retained stack are deleted only when empty, others with their images. */
export class Registries extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, repositories }: RegistriesArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Registries", name, {}, opts);

    for (const { image, args, policy } of repositories) {
      const repository = new Repository(
        `${name}-${image}`,
        { ...args, tags: namedTags(context, image) },
        { parent: this },
      );
      new LifecyclePolicy(
        `${name}-${image}-lifecycle`,
        { repository: repository.name, policy },
        { parent: this },
      );
    }
    this.registerOutputs({});
  }
}

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
  /** Everything else of the stack. */
  readonly resources: readonly pulumi.Resource[];
}

/**
 * The end of `pulumi destroy` of a retained stack before anything is deleted: the engine deletes first what depends on all else, and
 * this is protected. Without it the engine deletes all that comes before the first protected resource, such as the load balancer.
 */
export class Protection extends pulumi.ComponentResource {
  constructor(name: string, { context, resources }: ProtectionArgs, opts?: pulumi.ComponentResourceOptions) {
    const dependsOn = [...resources];
    super("engine-room:aws:Protection", name, {}, { ...opts, protect: context.isRetained, dependsOn });

    this.registerOutputs({});
  }
}
