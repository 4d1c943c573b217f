/**
 * One machine that runs the containers of a stack by Docker Compose, and the disk of its databases, which outlives it. Cost: its
 * instance type's hours, its two disks, and the GiB that it reads from the engine store; a stopped machine costs its disks.
 */
import { Volume } from "@pulumi/aws/ebs/volume.js";
import { Instance as Ec2Instance } from "@pulumi/aws/ec2/instance.js";
import { LaunchTemplate } from "@pulumi/aws/ec2/launchTemplate.js";
import { VolumeAttachment } from "@pulumi/aws/ec2/volumeAttachment.js";
import { InstanceProfile } from "@pulumi/aws/iam/instanceProfile.js";
import * as pulumi from "@pulumi/pulumi";
import { namedTags } from "../../infra/plan/aws/context.ts";
import { type InstancePlan, userDataText } from "../../infra/plan/aws/machine/instance.ts";
import { DATABASE_DISK } from "../../infra/plan/aws/names.ts";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import type { SecretName } from "../../infra/plan/docker/types.ts";
import { InstanceSecrets } from "./instance-secrets.ts";
import { InstanceTasks } from "./instance-tasks.ts";
import { WorkloadRole } from "./workload-role.ts";

interface InstanceArgs {
  readonly context: AwsContext;
  readonly plan: InstancePlan;
  /** In the plan's zone. */
  readonly subnet: { readonly id: pulumi.Input<string> };
  readonly securityGroupId: pulumi.Input<string>;
  readonly fileSystem: {
    readonly fileSystemId: pulumi.Input<string>;
    readonly accessPointId: pulumi.Input<string>;
    /** The machine mounts it when it starts. */
    readonly mountTargets: readonly pulumi.Resource[];
  };
  /** Values of the plan's `stackSecrets`. */
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

export class Instance extends pulumi.ComponentResource {
  readonly instanceId: pulumi.Output<string>;
  readonly privateIp: pulumi.Output<string>;

  constructor(name: string, args: InstanceArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:aws:Instance", name, {}, opts);

    const { context, plan, fileSystem } = args;
    const inputs = { fileSystemId: fileSystem.fileSystemId };
    const role = new WorkloadRole(`${name}-role`, { context, plan: plan.role, inputs }, { parent: this });
    const profile = this.#createProfile(name, context, role);
    const template = this.#createTemplate(name, args);
    const volume = this.#createVolume(name, args);
    const machine = this.#createMachine(name, args, { role, profile, template, volume });
    const attachment = this.#attach(name, plan, volume, machine);
    this.instanceId = machine.id;
    this.privateIp = machine.privateIp;

    const { versions } = new InstanceSecrets(
      `${name}-secrets`,
      { context, secrets: plan.secrets, values: args.secrets },
      { parent: this },
    );
    new InstanceTasks(
      `${name}-tasks`,
      { context, tasks: plan.tasks, instanceId: machine.id, secretVersions: versions },
      // The first of them starts what lies on the disk.
      { parent: this, dependsOn: [attachment] },
    );
    this.registerOutputs({ instanceId: this.instanceId, privateIp: this.privateIp });
  }

  #createProfile(name: string, context: AwsContext, { role }: WorkloadRole): InstanceProfile {
    const tags = namedTags(context, "instance");
    return new InstanceProfile(
      `${name}-profile`,
      { name: tags.Name, role: role.name, tags },
      { parent: this },
    );
  }

  /**
   * What EC2 looks at only once. The instance itself takes an image by a parameter too, and is then made anew at each `up`,
   * with a root disk for which the provider looks up the image (issue 43364 of terraform-provider-aws).
   */
  #createTemplate(name: string, { context, plan }: InstanceArgs): LaunchTemplate {
    const tags = namedTags(context, "instance");
    return new LaunchTemplate(
      `${name}-template`,
      {
        name: tags.Name,
        ...plan.template,
        // `volumeTags` of the instance would be those of the databases' disk too, which has its own.
        tagSpecifications: [{ resourceType: "volume", tags }],
        updateDefaultVersion: true,
        tags,
      },
      { parent: this },
    );
  }

  /**
   * Every stack has it, with external databases too: it stays attached to a machine that runs, so AWS would refuse to delete it
   * where a stack changes to other databases; a stack that changes back has its documents.
   */
  #createVolume(name: string, { context, plan }: InstanceArgs): Volume {
    return new Volume(
      `${name}-databases`,
      {
        ...plan.databaseVolume,
        tags: namedTags(context, DATABASE_DISK),
      },
      { parent: this, protect: plan.isProtected, retainOnDelete: plan.isProtected },
    );
  }

  /**
   * The end of the machine detaches the disk, after its containers have stopped and its file system is unmounted: EC2 can't detach
   * a disk that is in use. `stopInstanceBeforeDetaching` would do for others, but a spot machine can't be stopped.
   */
  #attach(
    name: string,
    { databaseDevice }: InstancePlan,
    volume: Volume,
    machine: Ec2Instance,
  ): VolumeAttachment {
    return new VolumeAttachment(
      `${name}-databases-attachment`,
      {
        volumeId: volume.id,
        instanceId: machine.id,
        deviceName: databaseDevice,
        skipDestroy: true,
      },
      { parent: this, deleteBeforeReplace: true },
    );
  }

  #createMachine(
    name: string,
    { context, plan, subnet, securityGroupId, fileSystem }: InstanceArgs,
    made: { role: WorkloadRole; profile: InstanceProfile; template: LaunchTemplate; volume: Volume },
  ): Ec2Instance {
    const tags = namedTags(context, "instance");
    return new Ec2Instance(
      `${name}-machine`,
      {
        ...plan.machine,
        launchTemplate: { id: made.template.id, version: "$Default" },
        subnetId: subnet.id,
        vpcSecurityGroupIds: [securityGroupId],
        iamInstanceProfile: made.profile.name,
        userData: userData(plan, fileSystem, made.volume),
        tags,
      },
      {
        parent: this,
        protect: plan.isProtected,
        // One disk has one machine: the attachment goes with the old one before the new one can have it. Quotas and reservations
        // often are for one machine, too. The cost: where AWS has no other one, there is none until the next `up`.
        deleteBeforeReplace: true,
        // The agent asks for its rights when it starts, and the store is mounted then. The disk goes after the machine.
        dependsOn: [made.role, made.volume, ...fileSystem.mountTargets],
        // Of the first start: a newer image or another disk comes with another machine, not with the next `up`.
        ignoreChanges: ["launchTemplate", "userData"],
        replacementTrigger: pulumi.all([fileSystem.fileSystemId, made.volume.id]),
      },
    );
  }
}

function userData(plan: InstancePlan, store: InstanceArgs["fileSystem"], { id }: Volume) {
  return pulumi
    .all([store.fileSystemId, store.accessPointId, id])
    .apply(([fileSystemId, accessPointId, volumeId]) =>
      userDataText(plan.userData, {
        FILE_SYSTEM_ID: fileSystemId,
        ACCESS_POINT_ID: accessPointId,
        DATABASE_VOLUME_ID: volumeId,
      }),
    );
}
