/** Instance types that the catalogue does not have: a slip of the fingers, or one that a stack file describes itself. */
import { nearestName } from "../../nearest-name.ts";
import { machineTypes } from "../catalogue/machines.ts";
import type { MachineType } from "../catalogue/types.ts";
import type { Finding } from "../checks/check.ts";

/** `g5` of `g5.xlarge`, `m7i-flex` of `m7i-flex.large`: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html */
const FAMILY = /^[a-z]+\d+[a-z]*(-[a-z0-9]+)?$/;

const SIZE = /^(nano|micro|small|medium|\d*x?large|metal(-\d+xl)?)$/;

const TYPES: readonly string[] = Object.keys(machineTypes);
const FAMILIES: readonly string[] = [...new Set(TYPES.map(familyOf))];

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
    fix: `${meant === undefined ? existing(name) : `Did you mean \`${meant}\`?`} ${otherwise}`,
  };
}

function meantType(name: string): string | undefined {
  const typed = name.toLowerCase();
  const [family, size] = [familyOf(typed), typed.slice(familyOf(typed).length + 1)];
  if (FAMILY.test(family) && SIZE.test(size)) return TYPES.find((type) => type === typed);
  // Letters and number of a family are short, and one stroke away from those of another machine.
  const generation = /^[a-z]+\d+/.exec(typed)?.[0] ?? "";
  const begin = size !== "" && FAMILY.test(family) ? `${family}.` : generation;
  return nearestName(
    typed,
    TYPES.filter((type) => type.startsWith(begin)),
  );
}

function existing(name: string): string {
  const own = TYPES.filter((type) => familyOf(type) === familyOf(name.toLowerCase()));
  if (own.length > 0) return `The catalogue has ${own.join(", ")}.`;
  const families = FAMILIES.map((family) => `${family} (${gpuOf(family)})`);
  return `The catalogue has sizes of ${families.join(", ")}.`;
}

function gpuOf(family: string): string {
  const type = Object.entries<MachineType>(machineTypes).find(([name]) => familyOf(name) === family);
  return type === undefined || type[1].gpu === "" ? "no GPU" : type[1].gpu;
}

/** What stands before the point. */
function familyOf(name: string): string {
  return name.split(".")[0] ?? "";
}
