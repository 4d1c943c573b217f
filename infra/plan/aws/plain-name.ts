/** Names that AWS bounds more narrowly than Pulumi bounds those of stacks. */
import { jsonDigest } from "../canonical-json.ts";

const HASH_DIGITS = 8;

/**
 * A name of lower-case letters, digits and single hyphens, which every service takes. One that is something else, or too
 * long, ends in a hash of its whole: two stacks never meet in a name.
 *
 * @param longest - Characters; more than {@link HASH_DIGITS} and a hyphen.
 */
export function plainName(name: string, longest: number): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  if (plain === name && !name.endsWith("-") && name.length <= longest) return name;
  const kept = plain.slice(0, longest - HASH_DIGITS - 1).replace(/-$/, "");
  return `${kept}-${digest(name)}`;
}

/**
 * The same, and another name whenever one of the values changes: what is replaced for them is made anew before the old one
 * goes, and both can't have one name.
 */
export function keyedName(name: string, longest: number, values: Readonly<Record<string, unknown>>): string {
  return `${plainName(name, longest - HASH_DIGITS - 1)}-${digest(values)}`;
}

function digest(value: unknown): string {
  return jsonDigest(value).slice(0, HASH_DIGITS);
}
