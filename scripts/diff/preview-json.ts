/** The true difference against a stack's state, out of `pulumi preview --json`: `pkg/backend/display/json.go` of Pulumi. */
import { z } from "zod";
import { jsonDigest } from "../../infra/plan/plain-data.ts";
import { UserError } from "../errors.ts";
import { isSecret, leafDifferences, type PropertyKeys, propertyPath } from "../program/changes.ts";
import {
  secretMark,
  UNKNOWN_PLACEHOLDER,
  UNKNOWN_VALUE,
  urnParts,
  withoutMarks,
} from "../program/serialized.ts";
import { byPath, type GraphChanges, keptBy, shownDifference } from "./graph-changes.ts";
import { deletesFirst } from "./replacements.ts";
import { resourceDifferences, resourceLabel } from "./resource-names.ts";
import { type ChangeKind, type PropertyDifference, type ResourceChange, sortedChanges } from "./types.ts";

const state = z.object({
  type: z.string(),
  custom: z.boolean().default(false),
  /** Read, and not made by the stack. */
  external: z.boolean().default(false),
  inputs: z.record(z.string(), z.unknown()).default({}),
  protect: z.boolean().default(false),
  retainOnDelete: z.boolean().default(false),
});

const step = z.object({
  op: z.string(),
  urn: z.string(),
  oldState: state.optional(),
  newState: state.optional(),
  replaceReasons: z.array(z.string()).nullish(),
  detailedDiff: z.record(z.string(), z.object({ kind: z.string() })).nullish(),
});

type Step = z.infer<typeof step>;
type State = z.infer<typeof state>;

/** Steps are missing where nothing is to be done. */
const digest = z.object({
  steps: z.array(step).default([]),
  changeSummary: z.record(z.string(), z.number()),
});

/** Of an engine's operations, those that change a resource; a replacement may come in three steps. */
const KINDS: Readonly<Record<string, Exclude<ChangeKind, "may-replace">>> = {
  create: "create",
  import: "create",
  update: "update",
  delete: "delete",
  replace: "replace",
  "create-replacement": "replace",
  "import-replacement": "replace",
  "delete-replaced": "replace",
};

/**
 * @param text - What `pulumi preview --json` printed, with `--show-sames` where the number of unchanged resources is to
 * leave out components.
 * @throws UserError where it is something else.
 */
export function previewChanges(text: string): GraphChanges {
  const { steps, changeSummary } = parseDigest(text);
  const own = steps.filter(({ oldState, newState }) => {
    const { custom, external } = newState ?? oldState ?? { custom: false, external: false };
    return custom && !external;
  });
  const acting = own.filter(({ op }) => op in KINDS);
  const changes = [...new Set(acting.map(({ urn }) => urn))].map((urn) =>
    changeOf(
      urn,
      acting.filter((one) => one.urn === urn),
    ),
  );
  const same = steps.some(({ op }) => op === "same")
    ? own.filter(({ op }) => op === "same").length
    : (changeSummary.same ?? 0);
  return { changes: sortedChanges(changes), unchanged: same };
}

function parseDigest(text: string): z.infer<typeof digest> {
  try {
    return digest.parse(JSON.parse(text));
  } catch {
    throw new UserError(
      "This is no output of `pulumi preview --json`: it has no change summary, or is no JSON.",
    );
  }
}

function changeOf(urn: string, steps: readonly Step[]): ResourceChange {
  const before = steps.find(({ oldState }) => oldState !== undefined)?.oldState;
  const after = steps.find(({ newState }) => newState !== undefined)?.newState;
  const kinds = steps.map(({ op }) => KINDS[op]);
  const kind = kinds.includes("replace") ? "replace" : (kinds[0] ?? "update");
  const [was, is] = [
    inputsOf(kind === "create" ? undefined : before),
    inputsOf(kind === "delete" ? undefined : after),
  ];
  const type = (after ?? before)?.type ?? "";
  const { name } = urnParts(urn);
  const reasons = steps.find(({ replaceReasons }) => replaceReasons)?.replaceReasons ?? [];
  const detailed = steps.find(({ detailedDiff }) => detailedDiff)?.detailedDiff ?? {};
  return {
    kind,
    type,
    name,
    urn,
    label: resourceLabel({ type, name, inputs: is ?? was ?? {} }),
    properties: differences({ type, kind, before: was ?? {}, after: is ?? {}, reasons, detailed }),
    before: was === null ? null : (withoutMarks(was) as ResourceChange["before"]),
    after: is === null ? null : (withoutMarks(is) as ResourceChange["after"]),
    kept: before === undefined ? null : keptBy(before),
    deletedFirst: kind === "replace" ? goesFirst(steps, type, { before: was ?? {}, after: is ?? {} }) : null,
  };
}

type Inputs = Readonly<Record<string, unknown>>;

/** The engine's order where it is there (`--show-replacement-steps`), else what the provider is known to do. */
function goesFirst(
  steps: readonly Step[],
  type: string,
  states: { readonly before: Inputs; readonly after: Inputs },
): boolean {
  const order = steps.map(({ op }) => op);
  const [deletion, creation] = [order.indexOf("delete-replaced"), order.indexOf("create-replacement")];
  if (deletion >= 0 && creation >= 0) return deletion < creation;
  return deletesFirst(type, states);
}

interface Compared {
  readonly type: string;
  readonly kind: ChangeKind;
  readonly before: Inputs;
  readonly after: Inputs;
  /** Properties at the top that force a replacement. */
  readonly reasons: readonly string[];
  readonly detailed: NonNullable<Step["detailedDiff"]>;
}

/** Leaves of the inputs that differ, and what the provider says differs though both sides are secret. */
function differences({
  type,
  kind,
  before,
  after,
  reasons,
  detailed,
}: Compared): readonly PropertyDifference[] {
  const isWhole = kind === "create" || kind === "delete";
  const replacing = [
    ...reasons,
    ...Object.entries(detailed).flatMap(([path, { kind: how }]) => (how.endsWith("-replace") ? [path] : [])),
  ];
  const effect = (path: string): PropertyDifference["effect"] => {
    if (isWhole) return null;
    return replacing.some((reason) => isWithin(path, reason) || isWithin(reason, path))
      ? "replace"
      : "update";
  };
  // The provider knows elements by where they stand, which is what its own words are compared with.
  const places = leafDifferences(before, after).map(({ keys }) => propertyPath(keys));
  const seen = resourceDifferences(type, before, after).map((difference) =>
    shownDifference(difference, effect(placePath(difference.keys))),
  );
  const unseen = Object.keys(detailed)
    .filter((path) => !places.some((one) => isWithin(one, path) || isWithin(path, one)))
    .map((path): PropertyDifference => {
      const hidden = "(not in the inputs)";
      return { path, kind: "update", before: hidden, after: hidden, effect: effect(path) };
    });
  return [...seen, ...unseen].toSorted(byPath);
}

function placePath(keys: PropertyKeys): string {
  return propertyPath(keys.map((key) => (typeof key === "object" ? key.index : key)));
}

function isWithin(path: string, parent: string): boolean {
  return path === parent || path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}

function inputsOf(found: State | undefined): Inputs | null {
  return found === undefined ? null : (readable(found.inputs) as Inputs);
}

/** Masked, and without what providers note for themselves (`__defaults`). */
function readable(value: unknown): unknown {
  if (isSecret(value)) return secretMark(jsonDigest(value));
  if (value === UNKNOWN_VALUE) return UNKNOWN_PLACEHOLDER;
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !key.startsWith("__"))
      .map(([key, inner]) => [key, readable(inner)]),
  );
}
