/** What keeps data, keys, rights and accounts on AWS; `aws-row.ts` says where the rows come from. */
import { awsRow } from "./aws-row.ts";
import type { ReplacementRow } from "./types.ts";

export const awsStorageRows: Readonly<Record<string, ReplacementRow>> = {
  "aws:ebs/volume:Volume": awsRow(
    ["availabilityZone", "encrypted", "kmsKeyId", "multiAttachEnabled", "outpostArn", "snapshotId"],
    // Its data stay, and its machine runs on; AWS refuses a smaller size.
    ["finalSnapshot", "iops", "size", "throughput", "type"],
  ),
  "aws:efs/fileSystem:FileSystem": awsRow(
    ["availabilityZoneName", "creationToken", "encrypted", "kmsKeyId", "performanceMode"],
    ["lifecyclePolicies", "protection", "provisionedThroughputInMibps", "throughputMode"],
  ),
  // A file system has one in a zone.
  "aws:efs/mountTarget:MountTarget": awsRow(["fileSystemId", "ipAddress", "subnetId"], ["securityGroups"], {
    deletesFirst: () => true,
  }),
  "aws:efs/accessPoint:AccessPoint": awsRow(["fileSystemId", "posixUser", "rootDirectory"], []),
  "aws:efs/backupPolicy:BackupPolicy": awsRow(["fileSystemId"], ["backupPolicy"]),
  "aws:efs/fileSystemPolicy:FileSystemPolicy": awsRow(
    ["fileSystemId"],
    ["bypassPolicyLockoutSafetyCheck", "policy"],
  ),
  "aws:ecr/repository:Repository": awsRow(
    ["encryptionConfigurations", "name"],
    ["forceDelete", "imageScanningConfiguration", "imageTagMutability"],
  ),
  // A repository has one: the old one's end would be the new one's.
  "aws:ecr/lifecyclePolicy:LifecyclePolicy": awsRow(["policy", "repository"], [], {
    deletesFirst: () => true,
  }),
  "aws:iam/role:Role": awsRow(
    ["name", "path"],
    ["assumeRolePolicy", "description", "forceDetachPolicies", "maxSessionDuration", "permissionsBoundary"],
  ),
  "aws:iam/rolePolicy:RolePolicy": awsRow(["name", "role"], ["policy"]),
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": awsRow(["policyArn", "role"], [], {
    deletesFirst: () => true,
  }),
  "aws:iam/instanceProfile:InstanceProfile": awsRow(["name", "path"], ["role"]),
  "aws:kms/key:Key": awsRow(
    ["customKeyStoreId", "customerMasterKeySpec", "keyUsage", "multiRegion"],
    [
      "bypassPolicyLockoutSafetyCheck",
      "deletionWindowInDays",
      "description",
      "enableKeyRotation",
      "isEnabled",
      "policy",
      "rotationPeriodInDays",
    ],
  ),
  "aws:kms/alias:Alias": awsRow(["name"], ["targetKeyId"]),
  "aws:cloudwatch/logGroup:LogGroup": awsRow(
    ["logGroupClass", "name"],
    ["kmsKeyId", "retentionInDays", "skipDestroy"],
  ),
  "aws:secretsmanager/secret:Secret": awsRow(
    ["name"],
    ["description", "forceOverwriteReplicaSecret", "kmsKeyId", "recoveryWindowInDays"],
  ),
  "aws:secretsmanager/secretVersion:SecretVersion": awsRow(
    ["secretBinary", "secretId", "secretString"],
    ["versionStages"],
  ),
  "aws:budgets/budget:Budget": awsRow(
    ["accountId", "name"],
    ["budgetType", "costFilters", "limitAmount", "limitUnit", "notifications", "timePeriodStart", "timeUnit"],
  ),
};
