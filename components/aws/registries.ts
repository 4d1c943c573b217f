/**
 * Repositories of ECR for the images of a stack. A retained stack's go only once they are empty; those of another go with
 * their images. Cost: 0.10 USD a GB and month (us-east-1); scans on push are free.
 */
import { LifecyclePolicy } from "@pulumi/aws/ecr/lifecyclePolicy.js";
import { Repository } from "@pulumi/aws/ecr/repository.js";
import * as pulumi from "@pulumi/pulumi";
import { lifecyclePolicy } from "../../infra/plan/aws/registries.ts";
import type { AwsContext, RepositoryPlan } from "../../infra/plan/aws/types.ts";
import { namedTags } from "./tags.ts";

interface RegistriesArgs {
  readonly context: AwsContext;
  readonly repositories: readonly RepositoryPlan[];
}

export class Registries extends pulumi.ComponentResource {
  constructor(
    name: string,
    { context, repositories }: RegistriesArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Registries", name, {}, opts);

    for (const plan of repositories) this.#createRepository(`${name}-${plan.image}`, plan, context);
    this.registerOutputs({});
  }

  #createRepository(name: string, plan: RepositoryPlan, context: AwsContext): void {
    const repository = new Repository(
      name,
      {
        name: plan.name,
        imageTagMutability: "IMMUTABLE",
        imageScanningConfiguration: { scanOnPush: true },
        forceDelete: !context.isRetained,
        tags: namedTags(context, plan.image),
      },
      { parent: this },
    );
    new LifecyclePolicy(
      `${name}-lifecycle`,
      { repository: repository.name, policy: lifecyclePolicy(plan) },
      { parent: this },
    );
  }
}
