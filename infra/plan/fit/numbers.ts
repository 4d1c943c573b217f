/** Numbers as the plan's tables and sentences show them. */

/** Three decimals: what tables show, and what sums are made of, so that people can add them up. */
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
