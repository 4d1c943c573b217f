/**
 * One machine that runs the containers of a stack by Docker Compose, and the disk of its databases, which outlives it. Cost: its
 * instance type's hours, its two disks, the GiB that it reads from the engine store, and 0.40 USD a month for each secret; a stopped
 * machine costs its disks and secrets.
 */
import { Volume } from "@pulumi/aws/ebs/volume.js";
import { Instance as Ec2Instance } from "@pulumi/aws/ec2/instance.js";
import { LaunchTemplate } from "@pulumi/aws/ec2/launchTemplate.js";
import { VolumeAttachment } from "@pulumi/aws/ec2/volumeAttachment.js";
import { InstanceProfile } from "@pulumi/aws/iam/instanceProfile.js";
import { Secret } from "@pulumi/aws/secretsmanager/secret.js";
import { SecretVersion } from "@pulumi/aws/secretsmanager/secretVersion.js";
import { Association } from "@pulumi/aws/ssm/association.js";
import { Document } from "@pulumi/aws/ssm/document.js";
import { SecurityGroupEgressRule } from "@pulumi/aws/vpc/securityGroupEgressRule.js";
import * as pulumi from "@pulumi/pulumi";
import { type AwsContext, DATABASE_DISK, namedTags } from "../../infra/plan/aws/context.ts";
import { type InstancePlan, userDataText } from "../../infra/plan/aws/machine/instance.ts";
import { SECRET_VERSIONS } from "../../infra/plan/aws/machine/tasks.ts";
import type { SecretName } from "../../infra/plan/docker/host.ts";
import { FixedValues } from "../local/resources.ts";
import { securityGroup, tcp } from "./network.ts";
import { WorkloadRole } from "./workload-role.ts";

interface InstanceSecurityArgs extends Pick<InstancePlan, "egressPorts"> {
  readonly context: AwsContext;
  readonly vpcId: pulumi.Input<string>;
}

/** The security group of an instance, with its outgoing rules. The load balancer adds the incoming rule. */
export class InstanceSecurity extends pulumi.ComponentResource {
  readonly securityGroupId: pulumi.Output<string>;

  constructor(
    name: string,
    { context, vpcId, egressPorts }: InstanceSecurityArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:InstanceSecurity", name, {}, opts);

    const description = "The machine that runs the stack";
    const group = { context, subject: "instance", description, vpcId };
    const { id: securityGroupId } = securityGroup(`${name}-group`, group, this);
    for (const [subject, port] of Object.entries(egressPorts))
      new SecurityGroupEgressRule(
        `${name}-egress-${subject}`,
        {
          ...tcp(port),
          securityGroupId,
          cidrIpv4: "0.0.0.0/0",
          tags: namedTags(context, `instance-${subject}`),
        },
        { parent: this },
      );
    this.securityGroupId = securityGroupId;
    this.registerOutputs({ securityGroupId });
  }
}

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
  /** Values of the secrets that the stack makes. */
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

export class Instance extends pulumi.ComponentResource {
  readonly instanceId: pulumi.Output<string>;
  /** Ids of the commands' associations, by name. */
  readonly commands: Readonly<Record<string, pulumi.Output<string>>>;

  constructor(
    name: string,
    { context, plan, subnet, securityGroupId, fileSystem, secrets }: InstanceArgs,
    opts?: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:Instance", name, {}, opts);

    const own = { parent: this };
    const tags = namedTags(context, "instance");
    const { path } = context.iam;
    const { fileSystemId, accessPointId, mountTargets } = fileSystem;
    const role = new WorkloadRole(
      `${name}-role`,
      { context, plan: plan.role, inputs: { fileSystemId } },
      own,
    );
    const profile = new InstanceProfile(
      `${name}-profile`,
      { name: tags.Name, role: role.role.name, tags, ...(path === undefined ? {} : { path }) },
      own,
    );
    // EC2 reads a launch template only once. An image parameter on the instance itself would replace it at each `up`, with a root disk for
    // which the provider looks up the image (issue 43364 of terraform-provider-aws).
    const template = new LaunchTemplate(
      `${name}-template`,
      {
        name: tags.Name,
        ...plan.template,
        // `volumeTags` of the instance would also change the databases' disk, which has its own tags.
        tagSpecifications: [{ resourceType: "volume", tags }],
        updateDefaultVersion: true,
        tags,
      },
      own,
    );
    // Every stack has it, even with external databases: AWS would refuse to delete a disk that is attached to a running machine, and a
    // stack that changes back has its documents.
    const place = new FixedValues(`${name}-databases-place`, plan.databasePlace, own);
    const volume = new Volume(
      `${name}-databases`,
      { ...plan.databaseVolume, tags: namedTags(context, DATABASE_DISK) },
      { ...own, protect: context.isRetained, retainOnDelete: context.isRetained, dependsOn: [place] },
    );
    const userData = pulumi
      .all([fileSystemId, accessPointId, volume.id])
      .apply(([FILE_SYSTEM_ID, ACCESS_POINT_ID, DATABASE_VOLUME_ID]) =>
        userDataText(plan.userData, { FILE_SYSTEM_ID, ACCESS_POINT_ID, DATABASE_VOLUME_ID }),
      );
    const machine = new Ec2Instance(
      `${name}-machine`,
      {
        ...plan.machine,
        launchTemplate: { id: template.id, version: "$Default" },
        subnetId: subnet.id,
        vpcSecurityGroupIds: [securityGroupId],
        iamInstanceProfile: profile.name,
        userData,
        tags,
      },
      {
        ...own,
        protect: context.isRetained,
        // One disk has one machine: the old attachment is deleted before another is created. Quotas and reservations often are for one
        // machine, too. The cost: if AWS has no other machine, the stack has no machine until the next `up`.
        deleteBeforeReplace: true,
        // The agent asks for its rights when it starts, and the store is mounted then. The disk goes after the machine.
        dependsOn: [role, volume, ...mountTargets],
        // Used at the first start: a newer image or another disk comes with another machine, not with the next `up`.
        ignoreChanges: ["launchTemplate", "userData"],
        replacementTrigger: pulumi.all([fileSystemId, volume.id]),
      },
    );
    const instanceId = machine.id;
    // Ending the machine detaches the disk, after its containers have stopped and its file system is unmounted: EC2 can't detach a disk in
    // use. `stopInstanceBeforeDetaching` fails for a spot machine, which can't be stopped.
    const attachment = new VolumeAttachment(
      `${name}-databases-attachment`,
      { volumeId: volume.id, instanceId, deviceName: plan.databaseDevice, skipDestroy: true },
      { ...own, deleteBeforeReplace: true },
    );
    const { versions } = new InstanceSecrets(`${name}-secrets`, { context, plan, secrets }, own);
    const { commands } = new InstanceTasks(
      `${name}-tasks`,
      { context, tasks: plan.tasks, instanceId, secretVersions: versions },
      // The first task starts the program on the disk.
      { ...own, dependsOn: [attachment] },
    );
    this.instanceId = instanceId;
    this.commands = commands;
    this.registerOutputs({ instanceId, privateIp: machine.privateIp });
  }
}

/** Secrets of a stack file in Secrets Manager. */
class InstanceSecrets extends pulumi.ComponentResource {
  /** Text that changes with a value, and reveals nothing of it. */
  readonly versions: pulumi.Output<string>;

  constructor(
    name: string,
    { context, plan, secrets }: Pick<InstanceArgs, "context" | "plan" | "secrets">,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:InstanceSecrets", name, {}, opts);

    const versions = plan.secrets.flatMap(({ name: subject, secretName }) => {
      if (secretName === null) return [];
      const value = secrets[subject];
      if (value === undefined) throw new Error(`No value for the secret ${subject} of the instance`);
      const secret = new Secret(
        `${name}-${subject}`,
        {
          name: secretName,
          description: "Read by the instance when it starts",
          // The stack file has the value: the next `up` after a `down` needs the name, which a deleted secret would keep.
          recoveryWindowInDays: 0,
          kmsKeyId: context.kmsKeyArn,
          tags: { ...context.tags, Name: secretName },
        },
        { parent: this },
      );
      const args = { secretId: secret.id, secretString: pulumi.secret(value) };
      return [new SecretVersion(`${name}-${subject}-version`, args, { parent: this }).versionId];
    });
    // Systems Manager refuses an empty text.
    this.versions = pulumi.all(versions).apply((ids) => ids.join(" ") || "none");
    this.registerOutputs({});
  }
}

interface InstanceTasksArgs extends Pick<InstancePlan, "tasks"> {
  readonly context: AwsContext;
  readonly instanceId: pulumi.Input<string>;
  /** Text that changes with a secret's value. */
  readonly secretVersions: pulumi.Input<string>;
}

/** Commands of an instance, one after the other: the last command ends when the gateway answers there. */
class InstanceTasks extends pulumi.ComponentResource {
  readonly commands: Readonly<Record<string, pulumi.Output<string>>>;

  constructor(
    name: string,
    { context, tasks, instanceId, secretVersions }: InstanceTasksArgs,
    opts: pulumi.ComponentResourceOptions,
  ) {
    super("engine-room:aws:InstanceTasks", name, {}, opts);

    let before: readonly Association[] = [];
    const commands: Record<string, pulumi.Output<string>> = {};
    for (const { name: task, document, waitSeconds, readsSecrets } of tasks) {
      const tags = { ...context.tags, Name: document.name };
      const { name: documentName } = new Document(
        `${name}-${task}-document`,
        {
          ...document,
          documentType: "Command",
          documentFormat: "JSON",
          targetType: "/AWS::EC2::Instance",
          tags,
        },
        { parent: this },
      );
      const association = new Association(
        `${name}-${task}`,
        {
          name: documentName,
          targets: [{ key: "InstanceIds", values: [instanceId] }],
          ...(readsSecrets ? { parameters: { [SECRET_VERSIONS]: secretVersions } } : {}),
          waitForSuccessTimeoutSeconds: waitSeconds,
          tags,
        },
        // The provider waits only for an association that it creates. The last property is the engine's name for a command that failed, or
        // did not end in time: the next `up` runs it again.
        { parent: this, dependsOn: [...before], replaceOnChanges: ["parameters", "targets", "#initerror"] },
      );
      before = [association];
      commands[task] = association.id;
    }
    this.commands = commands;
    this.registerOutputs({});
  }
}
