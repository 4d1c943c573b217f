/**
 * Daily copies of the disk with the documents. Cost: 0.05 USD a GB and month (us-east-1) for the disk's data once, and for daily changes.
 */
import { Plan } from "@pulumi/aws/backup/plan.js";
import { Selection } from "@pulumi/aws/backup/selection.js";
import { Vault } from "@pulumi/aws/backup/vault.js";
import * as pulumi from "@pulumi/pulumi";
import type { BackupPlan } from "../../infra/plan/aws/backups.ts";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";
import { WorkloadRole } from "./workload-role.ts";

interface DatabaseBackupsArgs {
  readonly context: AwsContext;
  readonly plan: BackupPlan;
}

export class DatabaseBackups extends pulumi.ComponentResource {
  constructor(name: string, { context, plan }: DatabaseBackupsArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:DatabaseBackups", name, {}, opts);

    const own = { parent: this };
    const tags = namedTags(context, "backups");
    // AWS does not delete a vault with copies. It remains until they expire, so the stack's next vault needs another name, which Pulumi
    // chooses.
    const vault = new Vault(
      `${name}-vault`,
      { kmsKeyArn: context.kmsKeyArn, tags },
      { ...own, retainOnDelete: true },
    );
    const role = new WorkloadRole(`${name}-role`, { context, plan: plan.role }, own);
    const daily = new Plan(
      `${name}-plan`,
      { name: plan.name, rules: [{ ...plan.rule, targetVaultName: vault.name }], tags },
      own,
    );
    new Selection(
      `${name}-selection`,
      { ...plan.selection, planId: daily.id, iamRoleArn: role.arn },
      { ...own, dependsOn: [role] },
    );
    this.registerOutputs({});
  }
}
