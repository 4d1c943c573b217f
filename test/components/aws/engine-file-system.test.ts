import type { Output } from "@pulumi/pulumi";
import { expect, test } from "vitest";
import { EngineFileSystem } from "../../../components/aws/engine-file-system.ts";
import { fileSystemPlan } from "../../../infra/plan/aws/file-system.ts";
import type { FileSystemPlan } from "../../../infra/plan/aws/types.ts";
import { awsPlan, eksValues } from "../../infra/plan/aws/stacks.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

function planOf(engineStore: object, isRetained = false): FileSystemPlan {
  return fileSystemPlan(awsPlan({ ...eksValues, engineStore }).config, { ...CONTEXT, isRetained });
}

async function made(plan: FileSystemPlan) {
  const seen: Record<string, unknown> = {};
  const see = (key: string, output: Output<string>) => {
    output.apply((value) => {
      seen[key] = value;
    });
  };
  const found = await registeredBy(() => {
    const store = new EngineFileSystem("store", {
      context: CONTEXT,
      plan,
      vpcId: "vpc-1",
      subnets: [
        { zone: "a", id: "subnet-a" },
        { zone: "b", id: "subnet-b" },
      ],
      clients: [{ name: "machines", securityGroupId: "sg-machines" }],
    });
    see("volumeHandle", store.volumeHandle);
    seen.mountTargets = store.mountTargets.length;
  });
  return { found, seen };
}

test("a file system of its own is encrypted, closed but for its clients, and keeps cold engines cheaply", async () => {
  const { found, seen } = await made(planOf({}));
  expect(treeOf(found)).toEqual([
    "aws:ec2/securityGroup:SecurityGroup store-mounts < store",
    "aws:efs/accessPoint:AccessPoint store-access < store",
    "aws:efs/backupPolicy:BackupPolicy store-backups < store",
    "aws:efs/fileSystem:FileSystem store-files < store",
    "aws:efs/fileSystemPolicy:FileSystemPolicy store-policy < store",
    "aws:efs/mountTarget:MountTarget store-a < store",
    "aws:efs/mountTarget:MountTarget store-b < store",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule store-from-machines < store",
    "engine-room:aws:EngineFileSystem store < engine-room-demo",
  ]);
  expect(byName(found, "store-files").inputs).toEqual({
    encrypted: true,
    performanceMode: "generalPurpose",
    throughputMode: "elastic",
    lifecyclePolicies: [
      { transitionToIa: "AFTER_30_DAYS" },
      { transitionToPrimaryStorageClass: "AFTER_1_ACCESS" },
    ],
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-engine-store" },
  });
  expect(byName(found, "store-from-machines").inputs).toMatchObject({
    securityGroupId: "store-mounts",
    referencedSecurityGroupId: "sg-machines",
    ipProtocol: "tcp",
    fromPort: 2049,
    toPort: 2049,
  });
  expect(byName(found, "store-b").inputs).toEqual({
    fileSystemId: "store-files",
    subnetId: "subnet-b",
    securityGroups: ["store-mounts"],
  });
  expect(byName(found, "store-policy").inputs.policy).toContain('"aws:SecureTransport":"false"');
  expect(byName(found, "store-policy").inputs.policy).toContain('"arn:of:store-files"');
  expect(byName(found, "store-backups").inputs.backupPolicy).toEqual({ status: "ENABLED" });
  expect(byName(found, "store-access").inputs).toMatchObject({
    fileSystemId: "store-files",
    posixUser: { uid: 1000, gid: 1000 },
    rootDirectory: {
      path: "/engine-room",
      creationInfo: { ownerUid: 1000, ownerGid: 1000, permissions: "0750" },
    },
  });
  expect(seen).toEqual({ volumeHandle: "store-files::store-access", mountTargets: 2 });
});

test("throughput that is paid for is as large as the stack file says, and backups can be left out", async () => {
  const { found } = await made(
    planOf({ throughput: "provisioned", provisionedMiBPerSecond: 256, backups: false }),
  );
  expect(byName(found, "store-files").inputs).toMatchObject({
    throughputMode: "provisioned",
    provisionedThroughputInMibps: 256,
  });
  expect(byName(found, "store-backups").inputs.backupPolicy).toEqual({ status: "DISABLED" });
});

test("a retained stack's file system outlives it with its policies; a preview's goes with it", async () => {
  const optionsOf = async (isRetained: boolean) => {
    const { found } = await made(planOf({}, isRetained));
    return ["store-files", "store-policy", "store-backups", "store-access"].map((name) => {
      const { protect = false, retainOnDelete = false } = byName(found, name).options;
      return { name, protect, retainOnDelete };
    });
  };
  expect(await optionsOf(true)).toEqual([
    { name: "store-files", protect: true, retainOnDelete: true },
    { name: "store-policy", protect: false, retainOnDelete: true },
    { name: "store-backups", protect: false, retainOnDelete: true },
    { name: "store-access", protect: false, retainOnDelete: false },
  ]);
  for (const { protect, retainOnDelete } of await optionsOf(false))
    expect({ protect, retainOnDelete }).toEqual({ protect: false, retainOnDelete: false });
});

test("of a file system that is there, the access point is made and its security group lets the machines in", async () => {
  const { found, seen } = await made(
    planOf({ existing: { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" } }),
  );
  expect(treeOf(found)).toEqual([
    "aws:efs/accessPoint:AccessPoint store-access < store",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule store-from-machines < store",
    "engine-room:aws:EngineFileSystem store < engine-room-demo",
  ]);
  expect(byName(found, "store-from-machines").inputs).toMatchObject({
    securityGroupId: "sg-01234567",
    referencedSecurityGroupId: "sg-machines",
  });
  expect(byName(found, "store-access").inputs.fileSystemId).toBe("fs-01234567");
  expect(seen).toEqual({ volumeHandle: "fs-01234567::store-access", mountTargets: 0 });
});
