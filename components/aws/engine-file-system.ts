/**
 * The file system of weights and engines, with an access point as the user of builders and servers. An existing file system gets the
 * access point, and its security group a rule for the machines.
 *
 * Cost: 0.30 USD a GB and month, a small part of that after 30 days without a reader; elastic throughput 0.03 USD a GB read
 * and 0.06 USD a GB written; and backups by the GB (us-east-1).
 */
import { AccessPoint } from "@pulumi/aws/efs/accessPoint.js";
import { BackupPolicy } from "@pulumi/aws/efs/backupPolicy.js";
import { FileSystem } from "@pulumi/aws/efs/fileSystem.js";
import { FileSystemPolicy } from "@pulumi/aws/efs/fileSystemPolicy.js";
import { MountTarget } from "@pulumi/aws/efs/mountTarget.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import type { FileSystemPlan } from "../../infra/plan/aws/account.ts";
import { type AwsContext, namedTags } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { FixedValues } from "../local/resources.ts";
import { securityGroup, tcp, type ZoneSubnet } from "./network.ts";

interface EngineFileSystemArgs {
  readonly context: AwsContext;
  readonly plan: FileSystemPlan;
  readonly vpcId: pulumi.Input<string>;
  /** Each gets a mount target, unless the file system exists. */
  readonly subnets: readonly ZoneSubnet[];
  /** Machines that mount it. */
  readonly client: { readonly name: string; readonly securityGroupId: pulumi.Input<string> };
}

const NFS_PORT = 2049;

export class EngineFileSystem extends pulumi.ComponentResource {
  readonly fileSystemId: pulumi.Output<string>;
  readonly accessPointId: pulumi.Output<string>;
  /** Form of the EFS CSI driver: `fs-…::fsap-…`. */
  readonly volumeHandle: pulumi.Output<string>;
  /** Dependencies of a machine that mounts the file system; empty for an existing file system. */
  readonly mountTargets: readonly pulumi.Resource[];

  constructor(
    name: string,
    { context, plan, vpcId, subnets, client }: EngineFileSystemArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:EngineFileSystem", name, {}, opts);

    const { existing } = plan;
    const isProtected = context.isRetained;
    const own = { parent: this };
    const tags = namedTags(context, "engine-store");
    let mounts: pulumi.Input<string>;
    if (existing === null) {
      const key = new FixedValues(`${name}-key`, plan.fixedValues, own);
      const fileSystem = new FileSystem(
        `${name}-files`,
        { ...plan.fileSystem, tags },
        { ...own, protect: isProtected, retainOnDelete: isProtected, dependsOn: [key] },
      );
      const fileSystemId = fileSystem.id;
      const kept = { ...own, retainOnDelete: isProtected };
      const policy = fileSystem.arn.apply((arn) => documentText("fileSystemPolicy", { arn }));
      new FileSystemPolicy(`${name}-policy`, { fileSystemId, policy }, kept);
      new BackupPolicy(`${name}-backups`, { fileSystemId, backupPolicy: plan.backupPolicy }, kept);
      const description = "Mount targets of the engine store";
      const group = securityGroup(
        `${name}-mounts`,
        { context, subject: "engine-store", description, vpcId },
        this,
      );
      mounts = group.id;
      this.fileSystemId = fileSystemId;
      this.mountTargets = subnets.map(
        ({ zone, id }) =>
          new MountTarget(
            `${name}-${zone}`,
            { fileSystemId, subnetId: id, securityGroups: [group.id] },
            // A file system has one mount target in a zone, which is deleted before that of another subnet is created.
            { ...own, deleteBeforeReplace: true },
          ),
      );
    } else {
      mounts = existing.securityGroupId;
      this.fileSystemId = pulumi.output(existing.fileSystemId);
      this.mountTargets = [];
    }
    new SecurityGroupIngressRule(
      `${name}-from-${client.name}`,
      {
        ...tcp(NFS_PORT),
        securityGroupId: mounts,
        description: `NFS from ${client.name} of ${context.name}`,
        referencedSecurityGroupId: client.securityGroupId,
        tags: namedTags(context, `engine-store-from-${client.name}`),
      },
      own,
    );
    // A replacement is harmless: the folder and its owner stay.
    const args = { ...plan.accessPoint, fileSystemId: this.fileSystemId, tags };
    this.accessPointId = new AccessPoint(`${name}-access`, args, own).id;
    this.volumeHandle = pulumi.interpolate`${this.fileSystemId}::${this.accessPointId}`;
    this.registerOutputs({ fileSystemId: this.fileSystemId, accessPointId: this.accessPointId });
  }
}
