/** Looks up names of the stack file. */
import { meantNames, nearestName } from "../../problems.ts";
import { machineTypes } from "../catalogue/machines.ts";
import type { MachineType } from "../catalogue/types.ts";
import type { Finding } from "../checks/check.ts";

/** Takes what can't be resolved. */
export type Report = (finding: Finding) => void;

/** A row by name; own members only, so that `constructor` is not a row. */
export function rowOf<T>(rows: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(rows, name) ? rows[name] : undefined;
}

/**
 * Problem of an unknown name; its fix has the names that may be meant, or all names.
 *
 * @param kind - Kind of the names, with its article: `a release`.
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
  const meant = meantNames(name, different);
  return {
    path,
    reason: `${name} is not the name of ${kind}.`,
    fix: `${meant.length === 1 ? `Did you mean \`${meant[0]}\`?` : existing(meant.length === 0 ? different : meant)} ${otherwise}`.trimEnd(),
  };
}

/** A release that nothing has: the nearest in time, and from when to when there are any. */
export function unknownRelease(tag: string, tags: readonly string[]): Finding {
  const [month = 0, ...months] = [tag, ...tags].map((text) => {
    const [years = 0, rest = 0] = text.split(".").map(Number);
    return years * 12 + rest;
  });
  const distances = months.map((other) => Math.abs(other - month));
  const nearest = tags[distances.indexOf(Math.min(...distances))];
  return {
    path: "release",
    reason: `${tag} is not the name of a release of the catalogue, which has ${tags[0]} to ${tags.at(-1)}.`,
    fix: `The nearest is ${nearest}: write \`release: "${nearest}"\`.`,
  };
}

function existing(names: readonly string[]): string {
  if (names.length === 0) return "The list is empty.";
  return names.length === 1 ? `The only name is ${names[0]}.` : `Choose from ${names.join(", ")}.`;
}

/** `g5` of `g5.xlarge`, `m7i-flex` of `m7i-flex.large`: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html */
const FAMILY = /^[a-z]+\d+[a-z]*(-[a-z0-9]+)?$/;

const SIZE = /^(nano|micro|small|medium|\d*x?large|metal(-\d+xl)?)$/;

const TYPES: readonly string[] = Object.keys(machineTypes);

/**
 * A type that the catalogue does not have. The nearest one is named only for a name that is misspelt, and never one of another
 * family: a well-formed name is that of a machine, and the nearest one is of another.
 *
 * @param isRented - On AWS: its name stays, beside its parts.
 */
export function unknownInstanceType(path: string, name: string, isRented: boolean): Finding {
  const otherwise = isRented
    ? "Any other stays in instanceType, with its parts under `machine` and its price as `hourlyUsd`, such as `machine: { vcpus: 4, memoryGiB: 16 }, hourlyUsd: 0.2`."
    : "Any other can be described by its parts under `machine`, such as `machine: { gpu: A10G, vcpus: 16, memoryGiB: 64 }`.";
  const meant = meantType(name);
  return {
    path,
    reason: `${name} is not an instance type of the catalogue.`,
    fix: `${meant === undefined ? existingTypes(name) : `Did you mean \`${meant}\`?`} ${otherwise}`,
  };
}

function meantType(name: string): string | undefined {
  const typed = name.toLowerCase();
  const [family = "", size = ""] = typed.split(/\.(.*)/);
  if (FAMILY.test(family) && SIZE.test(size)) return TYPES.find((type) => type === typed);
  // Family names are short, and a single typing error gives another family.
  const generation = /^[a-z]+\d+/.exec(typed)?.[0] ?? "";
  const begin = size !== "" && FAMILY.test(family) ? `${family}.` : generation;
  return nearestName(
    typed,
    TYPES.filter((type) => type.startsWith(begin)),
  );
}

function existingTypes(name: string): string {
  const own = TYPES.filter((type) => familyOf(type) === familyOf(name.toLowerCase()));
  if (own.length > 0) return `The catalogue has ${own.join(", ")}.`;
  const families = Object.entries<MachineType>(machineTypes).map(
    ([type, { gpu }]) => `${familyOf(type)} (${gpu === "" ? "no GPU" : gpu})`,
  );
  return `The catalogue has sizes of ${[...new Set(families)].join(", ")}.`;
}

/** `g5` of `g5.xlarge`. */
function familyOf(name: string): string {
  return name.split(".")[0] ?? "";
}
