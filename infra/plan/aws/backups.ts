/** Daily copies of the disk with a stack's documents, by AWS Backup: vectors are made from documents, and engines from weights. */
import type { PlanArgs } from "@pulumi/aws/backup/plan.js";
import type { SelectionArgs } from "@pulumi/aws/backup/selection.js";
import type { AwsConfig } from "../../config/aws-stacks.ts";
import type { AwsPlan } from "../gpu-stack.ts";
import { type AwsContext, DATABASE_DISK, namedTags, plainName, STACK_TAG } from "./context.ts";
import { rolePlan } from "./roles.ts";

export type BackupPlan = NonNullable<ReturnType<typeof backupPlan>>;

/** Days of a copy if the stack file says none; those of EFS's own backups. */
const KEPT_DAYS = 35;

/** https://docs.aws.amazon.com/aws-backup/latest/devguide/API_BackupSelection.html */
const LONGEST_NAME = 50;

/** Whether the stack itself keeps documents. */
export function hasDatabases({ encoders, databases }: AwsConfig): boolean {
  return encoders !== false && databases !== "external";
}

/** @returns Days that a copy is kept; 0 without copies. */
export function backupDays(config: AwsConfig, isRetained: boolean): number {
  if (!hasDatabases(config)) return 0;
  return config.databaseStorage.backupDays ?? (isRetained ? KEPT_DAYS : 0);
}

/** @returns null for a stack without copies. */
export function backupPlan(plan: AwsPlan, context: AwsContext) {
  const days = backupDays(plan.config, context.isRetained);
  if (days === 0) return null;
  const { partition, region, account, stack } = context;
  const tags = { [STACK_TAG]: stack, ...diskTags(plan, context) };
  return {
    role: rolePlan(context, "backup"),
    name: plainName(context.name, LONGEST_NAME),
    rule: {
      ruleName: "daily",
      // In UTC; it begins within the hour.
      schedule: "cron(0 3 * * ? *)",
      lifecycle: { deleteAfter: days },
      recoveryPointTags: context.lastingTags,
    } satisfies Partial<Extract<PlanArgs["rules"], readonly unknown[]>[number]>,
    selection: {
      name: "documents",
      resources: [`arn:${partition}:ec2:${region}:${account}:volume/*`],
      // All of them.
      conditions: [
        {
          stringEquals: Object.entries(tags).map(([key, value]) => ({
            key: `aws:ResourceTag/${key}`,
            value,
          })),
        },
      ],
    } satisfies Partial<SelectionArgs>,
  };
}

/** By which the disk is found: the driver of EBS gives a claim's disk the names of the claim and of its namespace. */
function diskTags(plan: AwsPlan, context: AwsContext): Readonly<Record<string, string>> {
  if (plan.compute === "ec2") return { Name: namedTags(context, DATABASE_DISK).Name ?? "" };
  const { databases, namespace } = plan.cluster;
  return {
    "kubernetes.io/created-for/pvc/namespace": namespace.name,
    "kubernetes.io/created-for/pvc/name": `${databases?.kind}-data-mongo-0`,
  };
}
