/** Names of the stack file that stand for something else. */
import { editDistance, nearestName } from "../../nearest-name.ts";
import type { Finding } from "../checks/check.ts";

/** Takes what can't be resolved. */
export type Report = (finding: Finding) => void;

/** A row by name; own members only, so that `constructor` is no row. */
export function rowOf<T>(rows: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(rows, name) ? rows[name] : undefined;
}

/**
 * A name that nothing has, with the nearest one, or all that exist where none is near.
 *
 * @param kind - What it would name, with its article: `a release`.
 * @param otherwise - Another way out, as a sentence.
 */
export function unknownName(
  path: string,
  name: string,
  kind: string,
  names: readonly string[],
  otherwise = "",
): Finding {
  const different = [...new Set(names)];
  const nearest = nearestName(name, different);
  // Two names of one letter are one change apart, and have nothing in common.
  const isMeant =
    nearest !== undefined && editDistance(name.toLowerCase(), nearest.toLowerCase()) < name.length;
  return {
    path,
    reason: `${name} is not the name of ${kind}.`,
    fix: [isMeant ? `Did you mean \`${nearest}\`?` : existing(different), otherwise]
      .filter((sentence) => sentence !== "")
      .join(" "),
  };
}

/** A release that nothing has: the nearest in time, and from when to when there are any. */
export function unknownRelease(tag: string, tags: readonly string[]): Finding {
  const distance = (one: string) => Math.abs(monthOf(one) - monthOf(tag));
  const nearest = tags.reduce((best, one) => (distance(one) < distance(best) ? one : best));
  return {
    path: "release",
    reason: `${tag} is not the name of a release of the catalogue, which has ${tags[0]} to ${tags.at(-1)}.`,
    fix: `The nearest is ${nearest}: write \`release: "${nearest}"\`.`,
  };
}

/** Months since 2000 of a tag such as `25.07`. */
function monthOf(tag: string): number {
  const [year, month] = tag.split(".").map(Number);
  return (year ?? 0) * 12 + (month ?? 0);
}

function existing(names: readonly string[]): string {
  if (names.length === 0) return "There is none.";
  return names.length === 1 ? `There is ${names[0]} alone.` : `There are ${names.join(", ")}.`;
}
