/** How much room each part of a text gets. */

/**
 * The largest sizes that fit a budget together: parts that are shorter than the same limit for all stay whole, and only
 * the longest are cut.
 *
 * @returns In the order of the parts.
 */
export function shares(sizes: readonly number[], budget: number): readonly number[] {
  const result = [...sizes];
  let left = Math.max(0, budget);
  const bySize = sizes.map((_, index) => index).toSorted((a, b) => (sizes[a] ?? 0) - (sizes[b] ?? 0));
  bySize.forEach((part, position) => {
    const share = Math.min(sizes[part] ?? 0, Math.floor(left / (bySize.length - position)));
    result[part] = share;
    left -= share;
  });
  return result;
}
