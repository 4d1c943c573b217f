/** Add-ons of EKS, each with a role of its own where it calls AWS. Cost: none but the machines that they run on. */
import { Addon } from "@pulumi/aws/eks/addon.js";
import * as pulumi from "@pulumi/pulumi";
import type { AddOnPlan, AwsContext } from "../../infra/plan/aws/types.ts";
import { namedTags } from "./tags.ts";
import { WorkloadRole } from "./workload-role.ts";

interface AddOnsArgs {
  readonly context: AwsContext;
  readonly addOns: readonly AddOnPlan[];
  readonly clusterName: pulumi.Input<string>;
  /** What must be there before: machines, for those whose pods EKS waits for. */
  readonly after: readonly pulumi.Resource[];
}

export class AddOns extends pulumi.ComponentResource {
  constructor(name: string, args: AddOnsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:AddOns", name, {}, opts);

    for (const addOn of args.addOns) this.#createAddOn(`${name}-${addOn.name}`, addOn, args);
    this.registerOutputs({});
  }

  #createAddOn(name: string, plan: AddOnPlan, { context, clusterName, after }: AddOnsArgs): Addon {
    const role = this.#createRole(name, plan, context);
    return new Addon(
      name,
      {
        clusterName,
        addonName: plan.name,
        addonVersion: plan.version,
        ...(plan.configuration === null ? {} : { configurationValues: JSON.stringify(plan.configuration) }),
        ...(role === null ? {} : { podIdentityAssociations: [role.association] }),
        // What somebody changed by hand is put right again.
        resolveConflictsOnCreate: "OVERWRITE",
        resolveConflictsOnUpdate: "OVERWRITE",
        tags: namedTags(context, plan.name),
      },
      { parent: this, dependsOn: [...after, ...(role === null ? [] : [role.component])] },
    );
  }

  #createRole(name: string, { role: plan }: AddOnPlan, context: AwsContext) {
    if (plan === null) return null;
    const { serviceAccount } = plan;
    if (serviceAccount === null)
      throw new Error(`The role ${plan.subject} of an add-on names no ServiceAccount`);
    const component = new WorkloadRole(`${name}-role`, { context, plan }, { parent: this });
    return { component, association: { roleArn: component.arn, serviceAccount: serviceAccount.name } };
  }
}
