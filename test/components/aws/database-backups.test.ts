import { expect, test } from "vitest";
import { DatabaseBackups } from "../../../components/aws/database-backups.ts";
import { backupPlan } from "../../../infra/plan/aws/backups.ts";
import { awsPlan, ec2Values, eksValues } from "../../infra/plan/aws/stacks.ts";
import { byName, registeredBy, treeOf } from "./registered.ts";

type Values = Readonly<Record<string, unknown>>;

function planOf(values: Values) {
  const { plan, context } = awsPlan(values);
  return { plan: backupPlan(plan, context), context };
}

async function made(values: Values) {
  const { plan, context } = planOf(values);
  if (plan === null) throw new Error("The stack has no copies.");
  return registeredBy(
    () => {
      new DatabaseBackups("backups", { context, plan });
    },
    { "aws:backup/vault:Vault": () => ({ name: "backups-vault-1" }) },
  );
}

test("copies have a vault of their own that outlives the stack, a plan, a selection and a role", async () => {
  const found = await made({ ...eksValues, databaseStorage: { backupDays: 14 } });
  expect(treeOf(found)).toEqual([
    "aws:backup/plan:Plan backups-plan < backups",
    "aws:backup/selection:Selection backups-selection < backups",
    "aws:backup/vault:Vault backups-vault < backups",
    "aws:iam/role:Role backups-role-role < backups-role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment backups-role-AWSBackupServiceRolePolicyForBackup < backups-role",
    "engine-room:aws:DatabaseBackups backups < engine-room-demo",
    "engine-room:aws:WorkloadRole backups-role < backups",
  ]);
  const vault = byName(found, "backups-vault");
  expect(vault.options.retainOnDelete).toBe(true);
  // A vault outlives its stack, so another stack of the same name must not need that name.
  expect(vault.inputs).not.toHaveProperty("name");
  expect(byName(found, "backups-plan").inputs).toMatchObject({
    name: "engine-room-demo",
    rules: [
      {
        ruleName: "daily",
        targetVaultName: "backups-vault-1",
        schedule: "cron(0 3 * * ? *)",
        lifecycle: { deleteAfter: 14 },
      },
    ],
  });
  const selection = byName(found, "backups-selection");
  expect(selection.inputs).toMatchObject({
    planId: "backups-plan",
    iamRoleArn: "arn:of:backups-role-role",
    resources: ["arn:aws:ec2:us-east-1:111122223333:volume/*"],
  });
  // AWS Backup tries the role when the selection is made.
  const attachment = byName(found, "backups-role-AWSBackupServiceRolePolicyForBackup");
  expect(selection.dependencies).toContain(attachment.urn);
});

test.each<readonly [string, Values, number | undefined]>([
  ["is not retained", {}, undefined],
  ["is retained", { retain: ["demo"] }, 35],
  ["is retained under another name", { retain: ["other"] }, undefined],
  ["is retained and wants none", { retain: ["demo"], databaseStorage: { backupDays: 0 } }, undefined],
  ["wants some", { databaseStorage: { backupDays: 3 } }, 3],
  ["is retained and keeps no documents", { retain: ["demo"], encoders: false }, undefined],
])("a stack that %s has copies of the days that it should", (_name, values, days) => {
  for (const compute of [eksValues, ec2Values])
    expect(planOf({ ...compute, ...values }).plan?.rule.lifecycle.deleteAfter).toBe(days);
});
