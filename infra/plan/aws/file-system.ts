/** The file system of the engine store: a new one, or one that is there. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { USER_ID } from "../kubernetes/pod.ts";
import type { AwsContext, FileSystemPlan } from "./types.ts";

/** Stacks that share a file system share its engines: they are named by their content, and a build locks its own. */
const STORE_PATH = "/engine-room";

export function fileSystemPlan({ engineStore }: AwsConfig, { isRetained }: AwsContext): FileSystemPlan {
  const { existing, throughput, provisionedMiBPerSecond, backups } = engineStore;
  const isProvisioned = throughput === "provisioned" && provisionedMiBPerSecond !== undefined;
  return {
    kind: existing === undefined ? "create" : "existing",
    fileSystemId: existing?.fileSystemId ?? null,
    securityGroupId: existing?.securityGroupId ?? null,
    throughput: isProvisioned ? { mode: "provisioned", mibps: provisionedMiBPerSecond } : { mode: "elastic" },
    hasBackups: backups ?? existing === undefined,
    userId: USER_ID,
    permissions: "0750",
    path: STORE_PATH,
    isProtected: isRetained,
  };
}

/**
 * Who may mount a file system, as JSON: whoever reaches a mount target, which security groups decide, and over TLS only.
 * Nobody is root there. https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
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
