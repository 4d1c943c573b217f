/**
 * Dashboards and rules as data files: JSON that Grafana imports, YAML that Prometheus reads, with placeholders `${name}`.
 *
 * An object in a list is left out if the stack has no value of a placeholder of it. `${list.field}` repeats the object, and
 * its neighbours of the same list, for each entry of the list. A panel without queries is left out, and so is a heading
 * without panels. An `expr` of a rule may be a list, which `or` joins.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { Labels } from "../objects.ts";

interface RuleGroup {
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/#rule */
interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Labels;
  readonly annotations?: Labels;
}

/** Values of placeholders by name; null for a value that the stack lacks. */
export type Values = Readonly<Record<string, string | number | null>>;

export interface Fillings {
  readonly values: Values;
  /** By the first part of a placeholder's name: `image` of `${image.reference}`. */
  readonly lists: Readonly<Record<string, readonly Values[]>>;
}

/** Parts of Grafana's JSON that depend on the panels. */
interface Dashboard {
  readonly panels: readonly Panel[];
}

interface Panel {
  readonly type: string;
  readonly gridPos: { readonly w: number; readonly h: number };
  /** Absent from headings of rows. */
  readonly targets?: readonly object[];
}

/** Groups of rules with the values of a stack. */
export function ruleGroups(fillings: Fillings): readonly RuleGroup[] {
  // All values are text, so that no other type of YAML has to be looked for.
  const { groups } = parse(fileText("rules.yaml"), { schema: "failsafe" }) as { groups: RuleGroup[] };
  return (filled(groups, fillings) ?? []).map(({ name, rules }) => ({
    name,
    rules: rules.map((rule) => ({ ...rule, expr: [rule.expr].flat().join(" or ") })),
  }));
}

/** A dashboard with the values of a stack; null without panels for the stack. */
export function dashboard(name: string, fillings: Fillings): Dashboard | null {
  const result = filled(JSON.parse(fileText(`dashboards/${name}.json`)) as Dashboard, fillings);
  const panels = laidOut(result?.panels ?? []);
  return result === undefined || panels.length === 0 ? null : { ...result, panels };
}

function fileText(path: string): string {
  return readFileSync(join(import.meta.dirname, path), "utf8");
}

/** @returns undefined if the stack lacks a value. */
function filled<T>(template: T, fillings: Fillings): T | undefined;
function filled(template: unknown, fillings: Fillings): unknown {
  if (typeof template === "string") return filledText(template, fillings.values);
  if (Array.isArray(template)) return filledItems(template, fillings);
  if (typeof template !== "object" || template === null) return template;
  const entries = Object.entries(template).map(([key, value]) => [key, filled(value, fillings)] as const);
  return entries.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(entries);
}

const PLACEHOLDER = /\$\{([\w.]+)\}/g;

/** A regular expression without special characters. */
const MATCHER_OF_ONE = /=~"([\w-]+)"/g;

function filledText(template: string, values: Values): string | undefined {
  const names = [...template.matchAll(PLACEHOLDER)].map(([, name = ""]) => name);
  const unknown = names.find((name) => values[name] === undefined);
  if (unknown !== undefined) throw new Error(`The placeholder \${${unknown}} has no value.`);
  if (names.some((name) => values[name] === null)) return undefined;
  return template
    .replace(PLACEHOLDER, (_, name: string) => String(values[name]))
    .replace(MATCHER_OF_ONE, '="$1"');
}

function filledItems(items: readonly unknown[], { values, lists }: Fillings): readonly unknown[] {
  const names = items.map((item) => listOf(item, lists));
  return items
    .flatMap((item, at) => {
      const list = names[at];
      if (list === undefined) return [filled(item, { values, lists })];
      if (names[at - 1] === list) return [];
      const end = names.findIndex((name, index) => index > at && name !== list);
      const neighbours = items.slice(at, end < 0 ? undefined : end);
      return (lists[list] ?? []).flatMap((entry) => {
        const fields = Object.entries(entry).map(([field, value]) => [`${list}.${field}`, value]);
        const scope = { ...values, ...Object.fromEntries(fields) };
        return neighbours.map((neighbour) => filled(neighbour, { values: scope, lists }));
      });
    })
    .filter((value) => value !== undefined);
}

/** Name of the list that an object mentions outside of its own lists, which repeat their objects themselves. */
function listOf(item: unknown, lists: Fillings["lists"]): string | undefined {
  const own = JSON.stringify(item, (_, value: unknown) => (Array.isArray(value) ? [] : value));
  return Object.keys(lists).find((name) => own.includes(`\${${name}.`));
}

const COLUMNS = 24;

/** Panels in reading order, without gaps, numbered from 1. */
function laidOut(panels: readonly Panel[]): readonly Panel[] {
  const kept = panels
    .filter(({ targets }) => targets?.length !== 0)
    .filter(({ type }, index, all) => type !== "row" || (all[index + 1]?.type ?? "row") !== "row");
  let [x, y, rowHeight] = [0, 0, 0];
  return kept.map((panel, index) => {
    const { w, h } = panel.gridPos;
    if (x + w > COLUMNS) {
      x = 0;
      y += rowHeight;
    }
    const gridPos = { x, y, w, h };
    x += w;
    rowHeight = h;
    const targets = panel.targets?.map((target, at) => ({
      ...target,
      refId: String.fromCharCode("A".charCodeAt(0) + at),
    }));
    return { ...panel, id: index + 1, gridPos, ...(targets === undefined ? {} : { targets }) };
  });
}
