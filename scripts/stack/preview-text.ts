/** Changes of an `up`, in the words of the stack file. Pure. */
import { isSecure } from "../../infra/problems.ts";
import { type PropertyChange, propertyChanges } from "../program/changes.ts";

/** As the engine names them; `delete-replaced` is the second half of a replacement. */
export type Operation = "same" | "create" | "update" | "replace" | "delete" | "delete-replaced";

/** A step that is done, or, in a preview, planned. */
export interface Step {
  readonly operation: Operation;
  readonly urn: string;
  readonly type: string;
  readonly name: string;
  readonly changes: readonly PropertyChange[];
  /** Properties that force a replacement. */
  readonly replaceReasons: readonly string[];
}

/** Values of a stack file by key, as the program takes them. */
export type StackValues = Readonly<Record<string, unknown>>;

/** Replaces a secret, as in `pulumi stack history`. */
const SECRET = "(secret)";

/** Types whose update or replacement ends the program that they run. */
const PROGRAMS = /^(local:index:Process|docker:index\/container:Container|kubernetes:apps\/v1:\w+)$/;

/**
 * One line for each key of the stack file that differs from the last `up`, without secrets, with the programs that restart for it; then
 * programs that restart for another reason.
 */
export function changeLines(before: StackValues, after: StackValues, steps: readonly Step[] = []): string[] {
  const restarted = steps
    .filter(
      ({ operation, type }) => (operation === "update" || operation === "replace") && PROGRAMS.test(type),
    )
    .map(({ name }) => name);
  const told = new Set<string>();
  const changes = propertyChanges(withoutSecrets(before), withoutSecrets(after));
  const lines = changes.map(({ path, before: was = "(absent)", after: is = "(absent)" }) => {
    const part = partOf(path, after);
    const names = restarted.filter((name) => name === part || name.startsWith(`${part}-`));
    for (const name of names) told.add(name);
    return `${path} ${was} → ${is}${names.length === 0 ? "" : `: ${restarts([part])}`}`;
  });
  const others = restarted.filter((name) => !told.has(name));
  return others.length === 0 ? lines : [...lines, `${lines.length === 0 ? "" : "also "}${restarts(others)}`];
}

function restarts(names: readonly string[]): string {
  return `${names.join(", ")} ${names.length === 1 ? "restarts" : "restart"}`;
}

/** Program of a key: `smollm2` for `models[0].parallelRequests`, `gateway` for `gateway.port`. */
function partOf(path: string, { models }: StackValues): string {
  const [, index] = /^models\[(\d+)\]/.exec(path) ?? [];
  if (index === undefined) return path.split(/[.[]/)[0] ?? path;
  const model = (models as readonly { readonly name?: unknown }[] | undefined)?.[Number(index)];
  return String(model?.name ?? "");
}

/** Derived values: triggers and hashes. */
const DERIVED_PATH = /^(triggers|replacementTrigger)\b/;
const HASH = /[0-9a-f]{32,}/;

/** Properties of a step below it. @param isFull - Whether derived properties, and all properties of new resources, are shown. */
export function propertyLines({ operation, changes, replaceReasons }: Step, isFull: boolean): string[] {
  if (operation === "create" && !isFull) return [];
  return changes.flatMap(({ path, kind, before, after, lines = [] }) => {
    if (!isFull && (DERIVED_PATH.test(path) || HASH.test(before ?? after ?? ""))) return [];
    const forced = replaceReasons.includes(path.split(/[.[]/)[0] ?? "") ? "  (forces replacement)" : "";
    const [sign, values] = {
      add: ["+", `${after}`],
      delete: ["-", `${before}`],
      update: ["~", `${before} → ${after}`],
    }[kind];
    const shown = lines.length > 0 ? "" : ` ${values}`;
    return [`      ${sign} ${path}:${shown}${forced}`, ...lines.map((line) => `          ${line}`)];
  });
}

/** Values with marks in place of secrets; numbers, which the program accepts as text, become numbers. */
export function withoutSecrets(values: StackValues): Record<string, unknown> {
  return JSON.parse(JSON.stringify(values), (_key, value: unknown) => {
    if (isSecure(value)) return SECRET;
    return typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  });
}
