/** Phrases that messages of several checks share. */
import { showValue } from "../../problems.ts";
import type { Finding } from "./check.ts";

/** `1, 2 or 4` */
export function oneOf(values: readonly (string | number)[]): string {
  const others = values.slice(0, -1);
  const last = String(values.at(-1));
  return others.length === 0 ? last : `${others.join(", ")} or ${last}`;
}

/** `Use 4 or less`; if nothing is less than 1: `Use 1`. */
export function atMost(number: number): string {
  return number <= 1 ? `Use ${number}` : `Use ${number} or less`;
}

/** Mebibytes in GiB. */
export function gib(mebibytes: number): string {
  return `${(mebibytes / 1024).toFixed(1)} GiB`;
}

interface Entry {
  readonly value: string | number;
  readonly path: string;
}

/** Every value that an earlier entry has already. @param explain - Gets the path of the earlier one. */
export function repeated(
  entries: readonly Entry[],
  explain: (firstPath: string) => Pick<Finding, "reason" | "fix">,
): readonly Finding[] {
  return entries.flatMap((entry, index) => {
    const first = entries.findIndex(({ value }) => value === entry.value);
    const firstPath = entries[first]?.path ?? "";
    return first === index
      ? []
      : [{ path: entry.path, value: showValue(entry.value), ...explain(firstPath) }];
  });
}

/**
 * @param path - Path of the list: `models`.
 * @param kind - `model`
 * @param use - Use of the names, as the end of a sentence.
 */
export function repeatedNames(
  list: readonly { readonly name: string }[],
  path: string,
  kind: string,
  use: string,
): readonly Finding[] {
  return repeated(
    list.map(({ name }, index) => ({ value: name, path: `${path}[${index}].name` })),
    (first) => ({
      reason: `The name is taken by ${first}; ${use}.`,
      fix: `Give each ${kind} a name of its own.`,
    }),
  );
}
