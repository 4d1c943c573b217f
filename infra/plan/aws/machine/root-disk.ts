/** Root disk of the machine of a stack without a cluster. Pure. */
import type { PoolSpec } from "../../spec.ts";

/**
 * Of the snapshot in the image that the machine starts from: EC2 refuses a root disk that is smaller (InvalidBlockDeviceMapping,
 * "expect size >= 75GB"). Read from public stacks that use this image, the newest of them of its build of 2026-09-25; AWS's pages
 * on it do not say.
 */
const SNAPSHOT_GIB = 75;

/** What `diskGiB` asks for, or as much as the image takes. In GiB. */
export function machineDiskGiB({ diskGiB }: Pick<PoolSpec, "diskGiB">): number {
  return Math.max(diskGiB, SNAPSHOT_GIB);
}
