/** One machine of EC2 that runs the containers of a stack. Pure: same plan and images, same bytes. */
import type { VolumeArgs } from "@pulumi/aws/ebs/volume.js";
import type { InstanceArgs } from "@pulumi/aws/ec2/instance.js";
import type { LaunchTemplateArgs } from "@pulumi/aws/ec2/launchTemplate.js";
import type { Ec2Config } from "../../../config/aws-stacks.ts";
import type { MachineType } from "../../catalogue/types.ts";
import type { DockerStack } from "../../docker/docker-stack.ts";
import { SECRET_NAMES, SECRET_PATHS, type SecretName } from "../../docker/host.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import { type AwsContext, containerLogGroup, pulledFrom } from "../context.ts";
import { fileText, placeholder } from "../data-files.ts";
import { METADATA_OPTIONS, machineDiskGiB, ROOT_DEVICE, ROOT_DISK, reservedCapacity } from "../machines.ts";
import { instanceZone } from "../network.ts";
import { rolePlan } from "../roles.ts";
import { type InstanceSecret, instanceTasks, shellVariables } from "./tasks.ts";

/** Arguments of the provider without those that are known when something is made; components add tags. */
export type InstancePlan = ReturnType<typeof instancePlan>;

/**
 * Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023): driver, Docker with NVIDIA's runtime, AWS CLI and the
 * agent of Systems Manager, for g5 and p4d. https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-base-gpu-ami-amazon-linux-2023.html
 * Release notes of 2026-05-20 and 2026-09-04 name both among its machines, and the agent among its packages.
 */
const AMI_PARAMETER =
  "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id";

/**
 * As EC2 calls it, of the names that are for disks with data; the machine finds it by its volume.
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
 */
const DATABASE_DEVICE = "/dev/sdf";

/** Where the AMI's `dlami-nvme.service` mounts the local disks at each start, striped into one volume. */
const LOCAL_DISKS = "/opt/dlami/nvme";

/**
 * @param stack - The same plan's containers, with the images that they run.
 * @throws ConfigError if a command is larger than Systems Manager takes.
 */
export function instancePlan(plan: Ec2Plan, stack: DockerStack, context: AwsContext) {
  const { config } = plan;
  const [pool] = plan.spec.pools;
  if (pool?.instanceType == null)
    throw new Error("A planned stack on an instance has one pool with an instance type.");
  const { instanceType } = pool;
  const secrets = instanceSecrets(config, stack, context);
  const zone = instanceZone(config);
  const { partition, region, account } = context;
  const logs = containerLogGroup(config, context);
  const availabilityZone = `${region}${zone}`;
  return {
    template: {
      imageId: `resolve:ssm:${AMI_PARAMETER}`,
      blockDeviceMappings: [
        {
          deviceName: ROOT_DEVICE,
          // Nothing is on it that the next machine does not make again.
          ebs: { ...ROOT_DISK, volumeSize: machineDiskGiB(pool), kmsKeyId: context.kmsKeyArn },
        },
      ],
    } satisfies LaunchTemplateArgs,
    machine: {
      instanceType,
      associatePublicIpAddress: false,
      metadataOptions: METADATA_OPTIONS,
      disableApiTermination: context.isRetained,
      instanceInitiatedShutdownBehavior: "stop",
      ...(pool.capacity === "spot" ? { instanceMarketOptions: { marketType: "spot" } } : {}),
      ...reservedCapacity(pool),
    } satisfies InstanceArgs,
    /** The databases' disk, which another machine of the stack gets with all documents. */
    databaseVolume: {
      availabilityZone,
      type: "gp3",
      size: config.databaseStorage.sizeGiB,
      encrypted: true,
      kmsKeyId: context.kmsKeyArn,
    } satisfies VolumeArgs,
    /** Values that EBS cannot change: another value would replace the disk by an empty disk. */
    databasePlace: {
      what: "The databases' disk",
      values: {
        availabilityZone,
        ...(context.kmsKeyArn === undefined ? {} : { kmsKeyId: context.kmsKeyArn }),
      },
      fix: "Write the old value in the stack file. To leave the disk, take a snapshot of it if its documents matter, then destroy the stack and bring it up again.",
    },
    databaseDevice: DATABASE_DEVICE,
    /** By letter. */
    zone,
    egressPorts: egressPorts(config),
    userData: userData(pool.machine),
    role: rolePlan(context, "instance", {
      ...imageRights(stack, context),
      secretArns: secrets.map(({ arn }) => arn),
      logArns: logs === null ? [] : [`arn:${partition}:logs:${region}:${account}:log-group:${logs.name}:*`],
      fileSystemId: placeholder("fileSystemId"),
    }),
    tasks: instanceTasks({ plan, stack, secrets, context }),
    secrets,
  };
}

/** Secrets that the containers of a stack read, in the order of the table of secrets. */
function instanceSecrets(
  { hub: { tokenSecretArn } }: Ec2Config,
  { containers }: DockerStack,
  { name: stackName, partition, region, account }: AwsContext,
): readonly InstanceSecret[] {
  const read = new Set(containers.flatMap(({ container }) => Object.values(container.secretFiles)));
  const names = (Object.keys(SECRET_PATHS) as SecretName[]).filter((name) => read.has(name));
  return names.map((name) => {
    if (name === "hubToken" && tokenSecretArn !== undefined)
      // `arn:aws:secretsmanager:REGION:…`
      return { name, secretName: null, arn: tokenSecretArn, region: tokenSecretArn.split(":")[3] ?? "" };
    const secretName = `${stackName}/${SECRET_NAMES[name]}`;
    // Secrets Manager ends the ARN in six characters that it chooses.
    const arn = `arn:${partition}:secretsmanager:${region}:${account}:secret:${secretName}-??????`;
    return { name, secretName, arn, region };
  });
}

/** `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME@sha256:…`, or with a tag. */
const ECR_IMAGE = /^(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com\/([^@:]+)/;

/** Resources of the rights by which the machine pulls its images from ECR. */
function imageRights({ images }: DockerStack, { partition }: AwsContext) {
  const arns = images.flatMap((image) => {
    const [, account, region, name] = (image.kind === "locked" && ECR_IMAGE.exec(image.reference)) || [];
    return name === undefined ? [] : [`arn:${partition}:ecr:${region}:${account}:repository/${name}`];
  });
  return { registries: arns.length === 0 ? [] : ["*"], repositoryArns: [...new Set(arns)].sort() };
}

/** Files that user-data.sh puts in their places. */
const FIRST_FILES = [
  "format-databases.sh",
  "engine-room.format-databases.service",
  "srv-databases.mount",
] as const;

function userData({ gpus, localDiskGB }: MachineType) {
  const files = FIRST_FILES.map((name) => {
    const text = fileText(`machine/${name}`).trimEnd();
    return `install -D -m 0600 /dev/stdin /root/engine-room/${name} <<'END_OF_FILE'\n${text}\nEND_OF_FILE\n`;
  });
  return {
    /** Variables of the shell. The component adds FILE_SYSTEM_ID, ACCESS_POINT_ID and DATABASE_VOLUME_ID. */
    variables: { GPUS: gpus, LOCAL_DISKS: localDiskGB > 0 ? LOCAL_DISKS : "" },
    script: [...files, fileText("machine/user-data.sh")].join(""),
  };
}

/**
 * A shell script of less than 16 KiB (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html).
 *
 * @param ids - Further variables.
 */
export function userDataText(
  { variables, script }: InstancePlan["userData"],
  ids: Readonly<Record<string, string>>,
): string {
  return `#!/bin/bash\nset -euo pipefail\n${shellVariables({ ...variables, ...ids })}${script}`;
}

/** A model hub, registries and AWS itself answer on 443, mount targets of EFS on 2049. */
const ALWAYS = { https: 443, nfs: 2049 } as const;

/** Distinct TCP ports by the first service that uses them. */
function egressPorts(config: Ec2Config): Readonly<Record<string, number>> {
  const { databases, externalDatabases } = config;
  const registry = new URL(`https://${pulledFrom(config).registry}`);
  const external =
    databases === "external" && externalDatabases !== undefined
      ? { mongo: externalDatabases.mongo.port, vector: urlPort(new URL(externalDatabases.vector.url)) }
      : {};
  const ports = Object.entries({ ...ALWAYS, ...external, registry: urlPort(registry) });
  return Object.fromEntries(
    ports.filter(([, port], index) => ports.findIndex(([, other]) => other === port) === index),
  );
}

function urlPort({ port, protocol }: URL): number {
  return Number(port) || (protocol === "http:" ? 80 : 443);
}
