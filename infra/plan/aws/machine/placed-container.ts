/** A container of the stack with its unit on the instance. */
import type { DockerContainer, DockerStack } from "../../docker/types.ts";
import type { UnitPlan } from "../types.ts";
import { containerUnit } from "./container-units.ts";
import { UNIT_FOLDER } from "./names.ts";
import { readSecrets } from "./secrets.ts";

export interface PlacedContainer {
  readonly container: DockerContainer;
  readonly unit: UnitPlan;
}

/** All containers of one lifecycle, in the order of the stack. */
export function placedContainers(
  stack: DockerStack,
  lifecycle: DockerContainer["lifecycle"],
): readonly PlacedContainer[] {
  return stack.containers
    .filter((container) => container.lifecycle === lifecycle)
    .map((container) => ({ container, unit: containerUnit(container, stack) }));
}

export function unitNames(placed: readonly PlacedContainer[]): readonly string[] {
  return placed.map(({ unit }) => unit.name);
}

/** Arguments of the shell's `is_current` and `applied`: the unit, and all that it reads. */
export function stateArguments({ container, unit }: PlacedContainer): string {
  const files = [`${UNIT_FOLDER}/${unit.name}`, ...Object.keys(unit.files), ...readSecrets(container)];
  return [unit.name, ...files].join(" ");
}
