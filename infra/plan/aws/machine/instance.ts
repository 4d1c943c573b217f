/** One machine of EC2 that runs the containers of a stack. Pure: same plan and images, same bytes. */
import type { VolumeArgs } from "@pulumi/aws/ebs/volume.js";
import type { InstanceArgs } from "@pulumi/aws/ec2/instance.js";
import type { LaunchTemplateArgs } from "@pulumi/aws/ec2/launchTemplate.js";
import type { Ec2Config } from "../../../config/aws-stacks.ts";
import type { MachineType } from "../../catalogue/types.ts";
import type { DockerStack } from "../../docker/docker-stack.ts";
import type { SecretName } from "../../docker/types.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import type { Plain } from "../../plain.ts";
import { pulledFrom } from "../context.ts";
import { instanceZone } from "../network.ts";
import { machineDiskGiB } from "../node-pools.ts";
import type { AwsContext, RolePlan } from "../types.ts";
import { type InstanceSecret, instanceRole, instanceSecrets } from "./instance-role.ts";
import { type InstanceTask, instanceTasks, machineFile, shellVariables } from "./tasks.ts";

/** Arguments of the provider without those that are known when something is made; components add tags. */
export interface InstancePlan {
  readonly template: Pick<Plain<LaunchTemplateArgs>, "imageId" | "blockDeviceMappings">;
  readonly machine: Plain<InstanceArgs> & { readonly instanceType: string };
  /** The databases' disk, which another machine of the stack gets with all documents. */
  readonly databaseVolume: Plain<VolumeArgs> & { readonly size: number };
  readonly databaseDevice: string;
  /** Letter of its zone. */
  readonly zone: string;
  /** Whether neither the console nor a command ends it by accident, and the databases' disk outlives the stack. */
  readonly isProtected: boolean;
  /** TCP ports that it may connect to, wherever they are, by what answers there. */
  readonly egressPorts: Readonly<Record<string, number>>;
  readonly userData: UserData;
  readonly role: RolePlan;
  /** Each behind all that it comes after. */
  readonly tasks: readonly InstanceTask[];
  readonly secrets: readonly InstanceSecret[];
  /** Secrets whose values the stack file has. */
  readonly stackSecrets: readonly SecretName[];
}

interface UserData {
  /** Shell variables, to which the component adds FILE_SYSTEM_ID, ACCESS_POINT_ID and DATABASE_VOLUME_ID. */
  readonly variables: Readonly<Record<string, string | number>>;
  /** Bash that comes after them. */
  readonly script: string;
}

/**
 * Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023): driver, Docker with NVIDIA's runtime, AWS CLI and the
 * agent of Systems Manager, for g5 and p4d. https://docs.aws.amazon.com/dlami/latest/devguide/aws-deep-learning-base-gpu-ami-amazon-linux-2023.html
 * Release notes of 2026-05-20 and 2026-09-04 name both among its machines, and the agent among its packages.
 */
const AMI_PARAMETER =
  "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id";

/** Root disk of Amazon Linux 2023. */
const ROOT_DEVICE = "/dev/xvda";

/**
 * As EC2 calls it, of the names that are for disks with data; the machine finds it by its volume.
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
 */
const DATABASE_DEVICE = "/dev/sdf";

/** Where the AMI's `dlami-nvme.service` mounts the local disks at each start, striped into one volume. */
const LOCAL_DISKS = "/opt/dlami/nvme";

/**
 * @param stack - The same plan's containers, with the images that they run.
 * @throws ConfigError where a command is larger than Systems Manager takes.
 */
export function instancePlan(plan: Ec2Plan, stack: DockerStack, context: AwsContext): InstancePlan {
  const { config, gateway } = plan;
  const [pool] = plan.spec.pools;
  if (pool?.instanceType == null)
    throw new Error("A planned stack on an instance has one pool with an instance type.");
  const { instanceType } = pool;
  const secrets = instanceSecrets(plan, stack, context);
  const databaseDiskGiB = config.databaseStorage.sizeGiB;
  const capacityReservationId = config.pools[0]?.capacityReservationId;
  const zone = instanceZone(config);
  return {
    template: {
      imageId: `resolve:ssm:${AMI_PARAMETER}`,
      blockDeviceMappings: [
        {
          deviceName: ROOT_DEVICE,
          ebs: {
            volumeType: "gp3",
            volumeSize: machineDiskGiB(pool),
            encrypted: "true",
            // Nothing is on it that the next machine does not make again.
            deleteOnTermination: "true",
          },
        },
      ],
    },
    machine: {
      instanceType,
      associatePublicIpAddress: false,
      // One hop: what a container asks ends at the machine, so that no container has its role.
      metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
      disableApiTermination: context.isRetained,
      instanceInitiatedShutdownBehavior: "stop",
      ...(pool.capacity === "spot" ? { instanceMarketOptions: { marketType: "spot" } } : {}),
      ...(capacityReservationId === undefined
        ? {}
        : { capacityReservationSpecification: { capacityReservationTarget: { capacityReservationId } } }),
    },
    databaseVolume: {
      // A disk is of one zone: in another one it is a new, empty one.
      availabilityZone: `${context.region}${zone}`,
      type: "gp3",
      size: databaseDiskGiB,
      encrypted: true,
    },
    databaseDevice: DATABASE_DEVICE,
    zone,
    isProtected: context.isRetained,
    egressPorts: egressPorts(config),
    userData: userData(pool.machine),
    role: instanceRole(stack, secrets, context),
    tasks: instanceTasks(
      {
        ...{ stack, secrets, databaseDiskGiB, instanceType },
        stackName: context.stack,
        gatewayPort: gateway.port,
      },
      context,
    ),
    secrets,
    stackSecrets: secrets.flatMap(({ name, secretName }) => (secretName === null ? [] : [name])),
  };
}

/** Files that user-data.sh puts in their places. */
const FIRST_FILES = [
  "format-databases.sh",
  "engine-room.format-databases.service",
  "srv-databases.mount",
] as const;

function userData({ gpus, localDiskGB }: MachineType): UserData {
  const files = FIRST_FILES.map((name) => {
    const text = machineFile(name).trimEnd();
    return `install -D -m 0600 /dev/stdin /root/engine-room/${name} <<'END_OF_FILE'\n${text}\nEND_OF_FILE\n`;
  });
  return {
    variables: { GPUS: gpus, LOCAL_DISKS: localDiskGB > 0 ? LOCAL_DISKS : "" },
    script: [...files, machineFile("user-data.sh")].join(""),
  };
}

/**
 * A shell script of less than 16 KiB (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html).
 *
 * @param ids - Further variables.
 */
export function userDataText({ variables, script }: UserData, ids: Readonly<Record<string, string>>): string {
  return `#!/bin/bash\nset -euo pipefail\n${shellVariables({ ...variables, ...ids })}${script}`;
}

/** A model hub, registries and AWS itself answer on 443, mount targets of EFS on 2049. */
const ALWAYS = { https: 443, nfs: 2049 } as const;

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** TCP ports, each once, by what is first reached there. */
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
  return port === "" ? (DEFAULT_PORTS[protocol] as number) : Number(port);
}
