/** The file system of the engine store: a new one or an existing one. */
import type { AccessPointArgs } from "@pulumi/aws/efs/accessPoint.js";
import type { FileSystemArgs } from "@pulumi/aws/efs/fileSystem.js";
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { IMAGE_USER_ID } from "../containers/container.ts";
import type { AwsContext } from "./types.ts";

export type FileSystemPlan = ReturnType<typeof fileSystemPlan>;

export function fileSystemPlan({ engineStore }: AwsConfig, { isRetained }: AwsContext) {
  const { existing = null, throughput, provisionedMiBPerSecond, backups } = engineStore;
  const isProvisioned = throughput === "provisioned" && provisionedMiBPerSecond !== undefined;
  return {
    /** The file system, and the security group of its mount targets. */
    existing,
    isProtected: isRetained,
    fileSystem: {
      encrypted: true,
      performanceMode: "generalPurpose",
      throughputMode: isProvisioned ? "provisioned" : "elastic",
      ...(isProvisioned ? { provisionedThroughputInMibps: provisionedMiBPerSecond } : {}),
      // An engine without readers costs little; its first reader moves it back to the fast class.
      lifecyclePolicies: [
        { transitionToIa: "AFTER_30_DAYS" },
        { transitionToPrimaryStorageClass: "AFTER_1_ACCESS" },
      ],
    } satisfies FileSystemArgs,
    backupPolicy: { status: (backups ?? existing === null) ? "ENABLED" : "DISABLED" },
    accessPoint: {
      // User of builders and servers.
      posixUser: { uid: IMAGE_USER_ID, gid: IMAGE_USER_ID },
      rootDirectory: {
        // Stacks that share a file system share its engines: names contain the key of their content, and a build locks its own.
        path: "/engine-room",
        creationInfo: { ownerUid: IMAGE_USER_ID, ownerGid: IMAGE_USER_ID, permissions: "0750" },
      },
    } satisfies Partial<AccessPointArgs>,
  };
}

/**
 * JSON of who may mount a file system: everybody who reaches a mount target, which security groups decide, over TLS only, and
 * without root access. https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
 *
 * @param arn - Of the file system.
 */
export function fileSystemPolicy(arn: string): string {
  return JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Sid: "MountFromTheNetwork",
        Effect: "Allow",
        Principal: { AWS: "*" },
        Action: ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
        Resource: arn,
        Condition: { Bool: { "elasticfilesystem:AccessedViaMountTarget": "true" } },
      },
      {
        Sid: "OverTlsOnly",
        Effect: "Deny",
        Principal: { AWS: "*" },
        Action: "*",
        Resource: arn,
        Condition: { Bool: { "aws:SecureTransport": "false" } },
      },
    ],
  });
}
