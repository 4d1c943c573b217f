/** Units of memory and disks: GiB, as machines and GPUs are described, and GB, as downloads are. */

/** Bytes of a GiB. */
export const GIB = 2 ** 30;

export const GIB_PER_GB = 1e9 / GIB;

export const GB_PER_GIB = GIB / 1e9;

export const MIB_PER_GIB = 1024;

/** Three decimals: tables show them, and sums are made of rounded numbers, so that people can add them up. */
export function round3(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** `6738415616` as `6,738,415,616`; whole numbers only. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `22.35 GiB` */
export function showGiB(gib: number): string {
  return `${gib.toFixed(2)} GiB`;
}
