/** A history of a stack that has each kind of change once. */
import type { ThingConfig } from "./program.ts";

const a: ThingConfig = { name: "a", value: "1" };
const b: ThingConfig = { name: "b", value: "1", from: "a" };
const c: ThingConfig = { name: "c", value: "1", from: "b", group: "g" };

export const steps: readonly { readonly title: string; readonly things: readonly ThingConfig[] }[] = [
  { title: "three new things, each on the one before, one in a component", things: [a, b, c] },
  { title: "nothing changed", things: [a, b, c] },
  { title: "an input changed, its output the same", things: [{ ...a, value: "2" }, b, c] },
  { title: "one added", things: [{ ...a, value: "2" }, b, c, { name: "d", value: "1" }] },
  { title: "one removed", things: [{ ...a, value: "2" }, b, c] },
  { title: "one replaced, whose output changes", things: [{ ...a, value: "2", kind: "fancy" }, b, c] },
  {
    title: "one replaced that must go first",
    things: [{ ...a, value: "2", kind: "fancy" }, b, { ...c, slot: "left" }],
  },
  {
    title: "one renamed",
    things: [{ ...a, value: "2", kind: "fancy" }, b, { ...c, name: "e", slot: "left" }],
  },
  { title: "component removed with what it holds", things: [{ ...a, value: "2", kind: "fancy" }] },
  { title: "everything removed", things: [] },
];
