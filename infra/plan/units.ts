/** Units of memory and disks: GiB, as machines and GPUs are described, and GB, as downloads are. */

/** Bytes of a GiB. */
export const GIB = 2 ** 30;

export const GIB_PER_GB = 1e9 / GIB;

export const GB_PER_GIB = GIB / 1e9;

export const MIB_PER_GIB = 1024;
