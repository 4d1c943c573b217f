/** Names of the stack file that stand for something else. */
import type { GpuStackConfig } from "../../config/config.ts";
import { nearestName } from "../../nearest-name.ts";
import { type Finding, finding, type Key, type Remark } from "../checks/finding.ts";

/** Takes what can't be resolved. `keys` are those that decide it, besides that of its path. */
export type Report = (scope: Finding["scope"], keys: readonly Key[], remark: Remark) => void;

/** Where findings are gathered while a stack is resolved. */
export function findingsOf(config: GpuStackConfig): {
  readonly findings: Finding[];
  readonly report: Report;
} {
  const findings: Finding[] = [];
  return {
    findings,
    report: (scope, keys, remark) => void findings.push(finding(config, scope, keys, remark)),
  };
}

/** A row by name; own members only, so that `constructor` is no row. */
export function rowOf<T>(rows: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(rows, name) ? rows[name] : undefined;
}

/**
 * A name that nothing has, with the nearest one and all that exist.
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
): Remark {
  const nearest = nearestName(name, names);
  const exist = names.length === 0 ? "There is none." : `There are ${names.join(", ")}.`;
  return {
    path,
    reason: `${name} is not the name of ${kind}.`,
    fix: [nearest === undefined ? "" : `Did you mean \`${nearest}\`?`, exist, otherwise]
      .filter((sentence) => sentence !== "")
      .join(" "),
  };
}
