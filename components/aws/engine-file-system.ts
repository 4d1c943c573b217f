/**
 * The file system that keeps weights and engines, with the one way into it: an access point as the user of builders and
 * servers. Of a file system that is there only the access point is made, and its security group let the machines in.
 *
 * Cost: 0.30 USD a GB and month, a small part of that after 30 days without a reader; elastic throughput 0.03 USD a GB read
 * and 0.06 USD a GB written; backups by the GB besides (us-east-1).
 */
import { SecurityGroup } from "@pulumi/aws/ec2/securityGroup.js";
import { AccessPoint } from "@pulumi/aws/efs/accessPoint.js";
import { BackupPolicy } from "@pulumi/aws/efs/backupPolicy.js";
import { FileSystem } from "@pulumi/aws/efs/fileSystem.js";
import { FileSystemPolicy } from "@pulumi/aws/efs/fileSystemPolicy.js";
import { MountTarget } from "@pulumi/aws/efs/mountTarget.js";
import { SecurityGroupIngressRule } from "@pulumi/aws/vpc/securityGroupIngressRule.js";
import * as pulumi from "@pulumi/pulumi";
import { fileSystemPolicy } from "../../infra/plan/aws/file-system.ts";
import type { AwsContext, FileSystemPlan } from "../../infra/plan/aws/types.ts";
import { GROUP_OPTIONS } from "./security-group.ts";
import { namedTags } from "./tags.ts";

interface EngineFileSystemArgs {
  readonly context: AwsContext;
  readonly plan: FileSystemPlan;
  readonly vpcId: pulumi.Input<string>;
  /** One a zone: each gets a mount target, unless the file system is there. */
  readonly subnets: readonly { readonly zone: string; readonly id: pulumi.Input<string> }[];
  /** Who mounts it. */
  readonly clients: readonly { readonly name: string; readonly securityGroupId: pulumi.Input<string> }[];
}

const NFS_PORT = 2049;

export class EngineFileSystem extends pulumi.ComponentResource {
  readonly fileSystemId: pulumi.Output<string>;
  readonly accessPointId: pulumi.Output<string>;
  /** As the EFS CSI driver has it: `fs-…::fsap-…`. */
  readonly volumeHandle: pulumi.Output<string>;
  /** What must be there before a machine of a zone mounts it; none where it was there before. */
  readonly mountTargets: readonly pulumi.Resource[];
  readonly #name: string;
  readonly #context: AwsContext;

  constructor(name: string, args: EngineFileSystemArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:EngineFileSystem", name, {}, opts);
    this.#name = name;
    this.#context = args.context;

    const { fileSystemId, securityGroupId } = args.plan;
    if (fileSystemId !== null && securityGroupId !== null) {
      this.fileSystemId = pulumi.output(fileSystemId);
      this.#letIn(securityGroupId, args);
      this.mountTargets = [];
    } else {
      const fileSystem = this.#createFileSystem(args);
      this.fileSystemId = fileSystem.id;
      this.#createPolicies(fileSystem, args);
      const group = this.#createGroup(args);
      this.#letIn(group.id, args);
      this.mountTargets = this.#createMountTargets(fileSystem, group, args);
    }
    this.accessPointId = this.#createAccessPoint(args).id;
    this.volumeHandle = pulumi.interpolate`${this.fileSystemId}::${this.accessPointId}`;
    this.registerOutputs({ fileSystemId: this.fileSystemId, accessPointId: this.accessPointId });
  }

  #createFileSystem({ plan }: EngineFileSystemArgs): FileSystem {
    const { throughput } = plan;
    return new FileSystem(
      `${this.#name}-files`,
      {
        encrypted: true,
        performanceMode: "generalPurpose",
        throughputMode: throughput.mode,
        ...(throughput.mode === "provisioned" ? { provisionedThroughputInMibps: throughput.mibps } : {}),
        // An engine that nobody loads costs little; the first who does brings it back, and the second reads as ever.
        lifecyclePolicies: [
          { transitionToIa: "AFTER_30_DAYS" },
          { transitionToPrimaryStorageClass: "AFTER_1_ACCESS" },
        ],
        tags: this.#tags("engine-store"),
      },
      { parent: this, protect: plan.isProtected, retainOnDelete: plan.isProtected },
    );
  }

  /** They stay with a file system that stays. */
  #createPolicies(fileSystem: FileSystem, { plan }: EngineFileSystemArgs): void {
    const opts = { parent: this, retainOnDelete: plan.isProtected };
    new FileSystemPolicy(
      `${this.#name}-policy`,
      { fileSystemId: fileSystem.id, policy: fileSystem.arn.apply(fileSystemPolicy) },
      opts,
    );
    new BackupPolicy(
      `${this.#name}-backups`,
      {
        fileSystemId: fileSystem.id,
        backupPolicy: { status: plan.hasBackups ? "ENABLED" : "DISABLED" },
      },
      opts,
    );
  }

  #createGroup({ vpcId }: EngineFileSystemArgs): SecurityGroup {
    return new SecurityGroup(
      `${this.#name}-mounts`,
      {
        name: `${this.#context.name}-engine-store`,
        description: "Mount targets of the engine store",
        vpcId,
        tags: this.#tags("engine-store"),
      },
      { parent: this, ...GROUP_OPTIONS },
    );
  }

  #letIn(securityGroupId: pulumi.Input<string>, { clients }: EngineFileSystemArgs): void {
    for (const client of clients)
      new SecurityGroupIngressRule(
        `${this.#name}-from-${client.name}`,
        {
          securityGroupId,
          description: `NFS from ${client.name} of ${this.#context.name}`,
          referencedSecurityGroupId: client.securityGroupId,
          ipProtocol: "tcp",
          fromPort: NFS_PORT,
          toPort: NFS_PORT,
          tags: this.#tags(`engine-store-from-${client.name}`),
        },
        { parent: this },
      );
  }

  #createMountTargets(
    fileSystem: FileSystem,
    group: SecurityGroup,
    { subnets }: EngineFileSystemArgs,
  ): readonly MountTarget[] {
    return subnets.map(
      ({ zone, id }) =>
        new MountTarget(
          `${this.#name}-${zone}`,
          { fileSystemId: fileSystem.id, subnetId: id, securityGroups: [group.id] },
          // A zone has one mount target of a file system: that of another subnet can't be made before it is gone.
          { parent: this, deleteBeforeReplace: true },
        ),
    );
  }

  /** It is remade without harm: the folder stays, and so does whose it is. */
  #createAccessPoint({ plan }: EngineFileSystemArgs): AccessPoint {
    const { userId, path, permissions } = plan;
    return new AccessPoint(
      `${this.#name}-access`,
      {
        fileSystemId: this.fileSystemId,
        posixUser: { uid: userId, gid: userId },
        rootDirectory: { path, creationInfo: { ownerUid: userId, ownerGid: userId, permissions } },
        tags: this.#tags("engine-store"),
      },
      { parent: this },
    );
  }

  #tags(subject: string): Record<string, string> {
    return namedTags(this.#context, subject);
  }
}
