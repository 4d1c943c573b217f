/** Storage, keys, permissions and accounts. */
import { by, type OperationRow, own } from "./row.ts";

/** https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html */
const RETENTION_DAYS = [
  ...[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288],
  3653,
];

export const storageOperations: Readonly<Record<string, OperationRow>> = {
  "aws:ebs/volume:Volume": {
    operation: "ec2:CreateVolume",
    properties: {
      type: "VolumeType",
      tags: "TagSpecifications[].Tags",
      finalSnapshot: own("whether the provider makes a snapshot before it deletes it"),
    },
    filled: ["ClientToken"],
  },
  "aws:efs/fileSystem:FileSystem": {
    operation: "efs:CreateFileSystem",
    properties: {
      lifecyclePolicies: by("efs:PutLifecycleConfiguration", "LifecyclePolicies"),
      protection: by("efs:UpdateFileSystemProtection", ""),
      "protection.replicationOverwrite": "ReplicationOverwriteProtection",
    },
    // The provider makes one.
    filled: ["CreationToken"],
  },
  "aws:efs/mountTarget:MountTarget": { operation: "efs:CreateMountTarget" },
  "aws:efs/accessPoint:AccessPoint": { operation: "efs:CreateAccessPoint", filled: ["ClientToken"] },
  "aws:efs/backupPolicy:BackupPolicy": { operation: "efs:PutBackupPolicy" },
  "aws:efs/fileSystemPolicy:FileSystemPolicy": { operation: "efs:PutFileSystemPolicy" },
  "aws:backup/vault:Vault": {
    operation: "backup:CreateBackupVault",
    properties: {
      name: "BackupVaultName",
      kmsKeyArn: "EncryptionKeyArn",
      tags: "BackupVaultTags",
      forceDestroy: own("whether its copies go with it"),
    },
    // Pulumi makes one.
    filled: ["BackupVaultName"],
  },
  "aws:backup/plan:Plan": {
    operation: "backup:CreateBackupPlan",
    base: "BackupPlan",
    properties: {
      name: "BackupPlan.BackupPlanName",
      tags: "BackupPlanTags",
      "rules.targetVaultName": "TargetBackupVaultName",
      "rules.schedule": "ScheduleExpression",
      "rules.startWindow": "StartWindowMinutes",
      "rules.completionWindow": "CompletionWindowMinutes",
      "rules.lifecycle.deleteAfter": "DeleteAfterDays",
    },
  },
  "aws:backup/selection:Selection": {
    operation: "backup:CreateBackupSelection",
    base: "BackupSelection",
    properties: {
      planId: "BackupPlanId",
      name: "BackupSelection.SelectionName",
      conditions: "BackupSelection.Conditions",
      "conditions.stringEquals.key": "ConditionKey",
      "conditions.stringEquals.value": "ConditionValue",
      selectionTags: "BackupSelection.ListOfTags",
    },
  },
  "aws:ecr/repository:Repository": {
    operation: "ecr:CreateRepository",
    properties: {
      name: "repositoryName",
      encryptionConfigurations: "encryptionConfiguration",
      forceDelete: own("whether its images go with it"),
    },
  },
  "aws:ecr/lifecyclePolicy:LifecyclePolicy": {
    operation: "ecr:PutLifecyclePolicy",
    properties: { repository: "repositoryName", policy: "lifecyclePolicyText" },
  },
  "aws:iam/role:Role": {
    operation: "iam:CreateRole",
    properties: {
      name: "RoleName",
      assumeRolePolicy: "AssumeRolePolicyDocument",
      forceDetachPolicies: own("whether policies of others are taken off before it goes"),
    },
  },
  "aws:iam/rolePolicy:RolePolicy": {
    operation: "iam:PutRolePolicy",
    properties: { name: "PolicyName", role: "RoleName", policy: "PolicyDocument" },
  },
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {
    operation: "iam:AttachRolePolicy",
    properties: { role: "RoleName" },
  },
  "aws:iam/instanceProfile:InstanceProfile": {
    operation: "iam:CreateInstanceProfile",
    properties: { name: "InstanceProfileName", role: by("iam:AddRoleToInstanceProfile", "RoleName") },
  },
  "aws:kms/key:Key": {
    operation: "kms:CreateKey",
    properties: {
      deletionWindowInDays: by("kms:ScheduleKeyDeletion", "PendingWindowInDays"),
      enableKeyRotation: own("true is a call of EnableKeyRotation"),
      rotationPeriodInDays: by("kms:EnableKeyRotation", "RotationPeriodInDays"),
    },
    // https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html has the lower bound of the window.
    allowed: { PendingWindowInDays: Array.from({ length: 24 }, (_, index) => 7 + index) },
  },
  "aws:s3/bucket:Bucket": {
    operation: "s3:CreateBucket",
    properties: { tags: by("s3:PutBucketTagging", "Tagging.TagSet") },
  },
  "aws:s3/bucketPolicy:BucketPolicy": { operation: "s3:PutBucketPolicy" },
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": {
    operation: "s3:PutPublicAccessBlock",
    base: "PublicAccessBlockConfiguration",
    properties: { bucket: "Bucket" },
  },
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": {
    operation: "s3:PutBucketEncryption",
    base: "ServerSideEncryptionConfiguration",
    properties: {
      bucket: "Bucket",
      "rules.applyServerSideEncryptionByDefault.kmsMasterKeyId": "KMSMasterKeyID",
    },
  },
  "aws:s3/bucketVersioning:BucketVersioning": { operation: "s3:PutBucketVersioning" },
  "aws:iam/openIdConnectProvider:OpenIdConnectProvider": {
    operation: "iam:CreateOpenIDConnectProvider",
    properties: { clientIdLists: "ClientIDList", thumbprintLists: "ThumbprintList" },
  },
  "aws:iam/policy:Policy": {
    operation: "iam:CreatePolicy",
    properties: { name: "PolicyName", policy: "PolicyDocument" },
  },
  "aws:cloudwatch/logGroup:LogGroup": {
    operation: "logs:CreateLogGroup",
    properties: {
      name: "logGroupName",
      retentionInDays: by("logs:PutRetentionPolicy", "retentionInDays"),
      skipDestroy: own("whether it outlives the stack"),
    },
    allowed: { retentionInDays: RETENTION_DAYS },
  },
  "aws:secretsmanager/secret:Secret": {
    operation: "secretsmanager:CreateSecret",
    properties: { recoveryWindowInDays: by("secretsmanager:DeleteSecret", "RecoveryWindowInDays") },
  },
  "aws:secretsmanager/secretVersion:SecretVersion": { operation: "secretsmanager:PutSecretValue" },
  "aws:budgets/budget:Budget": {
    operation: "budgets:CreateBudget",
    base: "Budget",
    properties: {
      accountId: "AccountId",
      name: "Budget.BudgetName",
      limitAmount: "Budget.BudgetLimit.Amount",
      limitUnit: "Budget.BudgetLimit.Unit",
      tags: "ResourceTags",
      notifications: "NotificationsWithSubscribers",
      timePeriodStart: own("as `2026-11-01_00:00`, of which the provider makes a time"),
      "notifications.comparisonOperator": "Notification.ComparisonOperator",
      "notifications.notificationType": "Notification.NotificationType",
      "notifications.threshold": "Notification.Threshold",
      "notifications.thresholdType": "Notification.ThresholdType",
      "notifications.subscriberEmailAddresses": "Subscribers[*].Address",
    },
    // The account is that of the credentials if the resource has no account.
    filled: ["AccountId", "NotificationsWithSubscribers.Subscribers.SubscriptionType"],
  },
};
