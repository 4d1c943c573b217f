/** What a difference between two forms of a resource does to it. */
import type { PropertyKeys } from "../../program/changes.ts";
import type { PropertyDifference } from "../types.ts";
import { awsComputeRows } from "./aws-compute.ts";
import { awsNetworkRows } from "./aws-network.ts";
import { awsStorageRows } from "./aws-storage.ts";
import { dockerRows } from "./docker.ts";
import { kubernetesRows } from "./kubernetes.ts";
import { localRows } from "./local.ts";
import { providerRows } from "./providers.ts";
import type { ReplacementContext, ReplacementRow } from "./types.ts";

export type Effect = Exclude<PropertyDifference["effect"], null>;

const rows: Readonly<Record<string, ReplacementRow>> = {
  ...kubernetesRows,
  ...dockerRows,
  ...localRows,
  ...awsNetworkRows,
  ...awsComputeRows,
  ...awsStorageRows,
  ...providerRows,
};

/** What is known of a type of resource; undefined: nothing, so that any change of it may replace it. */
export function replacementRow(type: string): ReplacementRow | undefined {
  return rows[type];
}

const SEVERITY: Readonly<Record<Effect, number>> = { update: 0, "may-replace": 1, replace: 2 };

export function worstEffect(effects: readonly Effect[]): Effect {
  return effects.reduce((worst, effect) => (SEVERITY[effect] > SEVERITY[worst] ? effect : worst), "update");
}

/**
 * @param value - What is there or was there: where a whole part comes or goes, the worst of its leaves counts.
 * @returns null where the provider sees no difference.
 */
export function propertyEffect(
  row: ReplacementRow | undefined,
  keys: PropertyKeys,
  value: unknown,
  context: ReplacementContext,
): Effect | null {
  const effects = leafPaths(
    keys.filter((key) => typeof key === "string"),
    value,
  ).map((path) => pathEffect(row, path, context));
  const known = effects.filter((effect) => effect !== null);
  return known.length === 0 ? null : worstEffect(known);
}

function pathEffect(
  row: ReplacementRow | undefined,
  path: readonly string[],
  context: ReplacementContext,
): Effect | null {
  if (row === undefined) return "may-replace";
  if (isBelow(path, row.replaces)) return "replace";
  if (row.replacesWhen !== undefined && isBelow(path, row.replacesWhen.paths))
    return row.replacesWhen.is(context) ? "replace" : "update";
  if (isBelow(path, row.updates)) return "update";
  return isBelow(path, row.ignores ?? []) ? null : "may-replace";
}

function isBelow(path: readonly string[], parents: readonly string[]): boolean {
  return parents.some((parent) => parent.split(".").every((name, index) => path[index] === name));
}

/** Names only: elements of a list count alike. */
function leafPaths(path: readonly string[], value: unknown): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) return [path];
  if (Array.isArray(value)) return value.flatMap((inner) => leafPaths(path, inner));
  return Object.entries(value).flatMap(([key, inner]) => leafPaths([...path, key], inner));
}
