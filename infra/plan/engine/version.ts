/** Versions of TensorRT-LLM, in their order. */

/** A value that changes with the version, as data: each entry holds from its version on, the oldest first. */
export type SinceVersion<T> = readonly { readonly since: string; readonly value: T }[];

/** Negative when `a` is the older one. Numbers decide, part by part; a suffix such as `post1` or `rc2` does not. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [numbers(a), numbers(b)];
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** What holds at a version; undefined before the first entry. */
export function valueAt<T>(table: SinceVersion<T>, version: string): T | undefined {
  return table.findLast((entry) => compareVersions(entry.since, version) <= 0)?.value;
}

function numbers(version: string): readonly number[] {
  const leading = /^\d+(\.\d+)*/.exec(version)?.[0] ?? "0";
  return leading.split(".").map(Number);
}
