/** Machines on AWS, of a node group or standalone: their disks and start parameters. */
import { GP3_INCLUDED_MIBPS } from "../catalogue/prices.ts";
import type { PoolSpec } from "../spec.ts";
import { GB_PER_GIB } from "../units.ts";
import { SYSTEM_POOL } from "./context.ts";

/** Properties of a pool that a node group needs. */
export type Pool = Omit<PoolSpec, "machine" | "path"> & {
  readonly machine: Pick<PoolSpec["machine"], "gpus" | "localDiskGB">;
};

/** Least size of a root disk: the system and its logs. */
const SYSTEM_DISK_GIB = 50;

/**
 * Machines for what runs while all other pools are at zero: DNS, drivers, the autoscaler, Prometheus. Two, so that one may end; the
 * pools of the stack file can't do it, because they sleep.
 */
export const systemPool = {
  name: SYSTEM_POOL,
  instanceType: "m7i.large",
  machine: { gpus: 0, localDiskGB: 0 },
  gpu: null,
  sharing: { mode: "none" },
  nodes: { min: 2, max: 4 },
  capacity: "onDemand",
  diskGiB: SYSTEM_DISK_GIB,
} satisfies Pool;

/** gp3 as it is without a surcharge. https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
const GP3_IOPS = 3000;
/** Assumed to be enough for a root disk with images of tens of GB, whose layers are unpacked one by one. */
const IMAGES_THROUGHPUT_MIBPS = 250;

/** Root disk of a pool's machines, in GiB, operations a second and MiB/s. */
export function rootDisk(pool: Pool) {
  const hasImages = localDiskUse(pool) !== "all";
  return {
    volumeSize: hasImages ? Math.max(pool.diskGiB, SYSTEM_DISK_GIB) : SYSTEM_DISK_GIB,
    iops: GP3_IOPS,
    throughput: hasImages && pool.gpu !== null ? IMAGES_THROUGHPUT_MIBPS : GP3_INCLUDED_MIBPS,
  };
}

/**
 * `all`: local disks hold images, scratch and logs, if they have the room that the stack file asks for. `scratch`: images stay on
 * the root disk. `none`: there are no local disks.
 */
export function localDiskUse({ machine, diskGiB }: Pick<Pool, "machine" | "diskGiB">) {
  if (machine.localDiskGB === 0) return "none";
  return localDiskGiB(machine) >= diskGiB ? "all" : "scratch";
}

export function localDiskGiB({ localDiskGB }: Pool["machine"]): number {
  return Math.floor(localDiskGB / GB_PER_GIB);
}

/**
 * Size of the snapshot in the machine image of a stack on one EC2 instance: EC2 refuses a smaller root disk
 * (InvalidBlockDeviceMapping, "expect size >= 75GB"). Read from public stacks that use this image, the newest of them of its
 * build of 2026-09-25; AWS's pages on it do not say.
 */
const SNAPSHOT_GIB = 75;

/** Root disk of that machine in GiB: `diskGiB`, or as much as the image takes. */
export function machineDiskGiB({ diskGiB }: Pick<PoolSpec, "diskGiB">): number {
  return Math.max(diskGiB, SNAPSHOT_GIB);
}

/** Root device of Amazon Linux 2023. */
export const ROOT_DEVICE = "/dev/xvda";

/** Without its size. */
export const ROOT_DISK = { volumeType: "gp3", encrypted: "true", deleteOnTermination: "true" } as const;

/**
 * One hop, so that containers do not get the machine's role: pods have roles by their ServiceAccounts. The EBS driver asks Kubernetes
 * instead, and the EFS driver is in the machine's own network.
 */
export const METADATA_OPTIONS = {
  httpEndpoint: "enabled",
  httpTokens: "required",
  httpPutResponseHopLimit: 1,
} as const;

/** Arguments of a machine that takes a pool's capacity reservation. */
export function reservedCapacity({ capacityReservationId }: Pick<PoolSpec, "capacityReservationId">) {
  if (capacityReservationId === undefined) return {};
  return { capacityReservationSpecification: { capacityReservationTarget: { capacityReservationId } } };
}

/**
 * Instance types of a node group. EKS requires the type and market of a Capacity Block in the launch template.
 * https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
 */
export function startedTypes({ capacity, otherInstanceTypes = [] }: Pool, instanceType: string) {
  return capacity === "capacityBlock"
    ? { group: {}, template: { instanceType, instanceMarketOptions: { marketType: "capacity-block" } } }
    : { group: { instanceTypes: [instanceType, ...otherInstanceTypes] }, template: {} };
}
