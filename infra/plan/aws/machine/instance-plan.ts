/** One machine of EC2 that runs the containers of a stack. Pure: same plan and images, same bytes. */
import type { DockerStack } from "../../docker/types.ts";
import type { Ec2Plan } from "../../gpu-stack.ts";
import { instanceZone } from "../network.ts";
import type { AwsContext, InstancePlan } from "../types.ts";
import { egressPorts } from "./egress.ts";
import { instanceRole } from "./instance-role.ts";
import { machineDiskGiB } from "./root-disk.ts";
import { instanceSecrets } from "./secrets.ts";
import { instanceTasks } from "./tasks.ts";
import { userData } from "./user-data.ts";

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

/**
 * @param stack - The same plan's containers, with the images that they run.
 * @throws ConfigError where a command is larger than Systems Manager takes.
 */
export function instancePlan(plan: Ec2Plan, stack: DockerStack, context: AwsContext): InstancePlan {
  const { config, gateway } = plan;
  const [pool] = plan.spec.pools;
  if (pool?.instanceType == null)
    throw new Error("A planned stack on an instance has one pool with an instance type.");
  const secrets = instanceSecrets(plan, stack, context);
  const databaseDiskGiB = config.databaseStorage.sizeGiB;
  return {
    instanceType: pool.instanceType,
    zone: instanceZone(config),
    amiParameter: AMI_PARAMETER,
    rootDiskGiB: machineDiskGiB(pool),
    databaseDisk: { sizeGiB: databaseDiskGiB, deviceName: DATABASE_DEVICE },
    isSpot: pool.capacity === "spot",
    capacityReservationId: config.pools[0]?.capacityReservationId ?? null,
    isProtected: context.isRetained,
    egressPorts: egressPorts(config),
    userData: userData(pool.machine),
    role: instanceRole(stack, secrets, context),
    tasks: instanceTasks(
      {
        ...{ stack, secrets, databaseDiskGiB },
        instanceType: pool.instanceType,
        gatewayPort: gateway.port,
      },
      context,
    ),
    secrets,
    stackSecrets: secrets.flatMap(({ name, secretName }) => (secretName === null ? [] : [name])),
  };
}
