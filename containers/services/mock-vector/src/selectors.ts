/** Which parts of a point an answer holds. */
import { z } from "zod";
import { type Collection, type LivePoint, UNNAMED } from "./collection.ts";
import type { Payload } from "./filter.ts";
import { vectorName } from "./points.ts";

const keys = z.array(z.string().min(1).max(200)).max(1000);

/** All, none, or some keys; `a.b` is a key within an object. */
export const payloadSelector = z
  .union([z.boolean(), keys, z.strictObject({ include: keys }), z.strictObject({ exclude: keys })], {
    error: "must be true, false, a list of keys, { include: [...] } or { exclude: [...] }",
  })
  .nullish();
type PayloadSelector = z.infer<typeof payloadSelector>;

/** All, none, or some names. */
export const vectorSelector = z.union([z.boolean(), z.array(vectorName).max(100)]).nullish();
type VectorSelector = z.infer<typeof vectorSelector>;

export interface Selection {
  readonly payload: PayloadSelector;
  readonly vector: VectorSelector;
}

/** A point as an answer has it. */
export function recordOf(collection: Collection, { id, payload }: LivePoint, selection: Selection): object {
  const selected = selectPayload(payload, selection.payload);
  const vector = selectVector(collection.vectors.bind(collection, id), selection.vector);
  return {
    id,
    ...(selected !== undefined && { payload: selected }),
    ...(vector !== undefined && { vector }),
  };
}

/** The part of a payload that was asked for; undefined for none. */
export function selectPayload(payload: Payload, selector: PayloadSelector): Payload | undefined {
  if (selector === false || selector === null || selector === undefined) return undefined;
  if (selector === true) return payload;
  if (Array.isArray(selector)) return pruned(payload, "", (path) => isWithin(path, selector));
  if ("include" in selector) return pruned(payload, "", (path) => isWithin(path, selector.include));
  return pruned(payload, "", (path) => (selector.exclude.includes(path) ? "drop" : "look inside"));
}

type Verdict = "keep" | "drop" | "look inside";

function isWithin(path: string, included: readonly string[]): Verdict {
  if (included.includes(path)) return "keep";
  return included.some((one) => one.startsWith(`${path}.`)) ? "look inside" : "drop";
}

function pruned(payload: Payload, prefix: string, judge: (path: string) => Verdict): Payload {
  const kept: [string, unknown][] = [];
  for (const [key, value] of Object.entries(payload)) {
    const path = `${prefix}${key}`;
    const verdict = judge(path);
    if (verdict === "drop") continue;
    kept.push([key, verdict === "keep" ? value : prunedWithin(value, `${path}.`, judge)]);
  }
  return Object.fromEntries(kept);
}

function prunedWithin(value: unknown, prefix: string, judge: (path: string) => Verdict): unknown {
  if (Array.isArray(value)) return value.map((one) => prunedWithin(one, prefix, judge));
  return typeof value === "object" && value !== null ? pruned(value as Payload, prefix, judge) : value;
}

function selectVector(
  read: () => Readonly<Record<string, readonly number[]>>,
  wanted: VectorSelector,
): unknown {
  if (wanted === undefined || wanted === null || wanted === false) return undefined;
  const { [UNNAMED]: unnamed, ...named } = read();
  if (unnamed !== undefined) return unnamed;
  if (wanted === true) return named;
  return Object.fromEntries(Object.entries(named).filter(([name]) => wanted.includes(name)));
}
