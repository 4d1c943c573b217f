/** Reads output of `pulumi preview --json`: `pkg/backend/display/json.go` of Pulumi. */
import { stripVTControlCharacters } from "node:util";
import { z } from "zod";
import { jsonDigest } from "../../infra/plan/plain-data.ts";
import { counted, withoutCredentials } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { clipped, visible } from "../markdown.ts";
import { isSecret, leafDifferences } from "../program/changes.ts";
import { redacted, secretMark, UNKNOWN_PLACEHOLDER, UNKNOWN_VALUE, urnParts } from "../program/serialized.ts";
import { describedChange, type GraphChanges, shownDifference } from "./graph-changes.ts";
import { deletesFirst } from "./replacements.ts";
import { isAtOrBelow, keySegments, pathSegments, resourceDifferences } from "./resource-names.ts";
import { type ChangeKind, type PropertyDifference, type ResourceChange, sortedChanges } from "./types.ts";

const state = z.object({
  type: z.string(),
  custom: z.boolean().default(false),
  /** Read, but not created by the stack. */
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
  diffReasons: z.array(z.string()).nullish(),
  detailedDiff: z.record(z.string(), z.object({ kind: z.string() })).nullish(),
});
export type PreviewStep = z.infer<typeof step>;
type State = z.infer<typeof state>;

/**
 * Steps are missing without a change. A preview that fails has a summary as well: only its diagnostics tell,
 * whose severity is `error`, and `info#err` if a program prints to standard error.
 */
const digest = z.object({
  steps: z.array(step).default([]),
  diagnostics: z.array(z.object({ severity: z.string(), message: z.string().default("") })).default([]),
  changeSummary: z.record(z.string(), z.number()).optional(),
});

/** Limits of the output of a failed preview: its program may print anything. */
const MOST_ERROR_LINES = 40;
const LONGEST_ERROR_LINE = 300;

/** Lines of errors, without colours. */
function errorLines(messages: readonly string[], secrets: Iterable<string>): readonly string[] {
  const lines = messages
    .flatMap((message) =>
      withoutCredentials(redacted(stripVTControlCharacters(message), secrets))
        .trim()
        .split("\n"),
    )
    .map((line) => `  ${visible(clipped(line, LONGEST_ERROR_LINE))}`.trimEnd());
  const more = lines.length - MOST_ERROR_LINES;
  return more > 0 ? [...lines.slice(0, MOST_ERROR_LINES), `  … ${counted(more, "line")} more`] : lines;
}

/**
 * @param secrets - Secrets of the stack file, which no error may show. @throws UserError for other output, or a failed
 *   preview.
 */
export function parsePreview(
  text: string,
  secrets: Iterable<string> = [],
): { steps: readonly PreviewStep[]; unchanged: number } {
  let found: z.infer<typeof digest> | undefined;
  try {
    found = digest.parse(JSON.parse(text));
  } catch {
    // Reported below.
  }
  const errors = found?.diagnostics.filter(({ severity }) => severity === "error") ?? [];
  if (errors.length > 0) {
    const lines = errorLines(
      errors.map(({ message }) => message),
      secrets,
    );
    throw new UserError(`The preview failed:\n${lines.join("\n")}`);
  }
  if (found === undefined || (found.steps.length === 0 && found.changeSummary === undefined))
    throw new UserError(
      "This is not the output of `pulumi preview --json`: it has no steps and no change summary, or is not JSON.",
    );
  return { steps: found.steps, unchanged: found.changeSummary?.same ?? 0 };
}

/** Operations of the engine that change a resource; a replacement may come in three steps. */
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

/** Differences against a stack's state. @param secrets - As of {@link parsePreview}, which throws a UserError. */
export function previewChanges(text: string, secrets?: Iterable<string>): GraphChanges {
  const { steps, unchanged } = parsePreview(text, secrets);
  const byUrn = new Map<string, PreviewStep[]>();
  for (const found of steps) {
    const { custom, external } = found.newState ?? found.oldState ?? { custom: false, external: false };
    if (custom && !external && found.op in KINDS)
      byUrn.set(found.urn, [...(byUrn.get(found.urn) ?? []), found]);
  }
  return { changes: sortedChanges([...byUrn].map(([urn, own]) => changeOf(urn, own))), unchanged };
}

function changeOf(urn: string, steps: readonly PreviewStep[]): ResourceChange {
  const kinds = steps.map(({ op }) => KINDS[op]);
  const kind = kinds.includes("replace") ? "replace" : (kinds[0] ?? "update");
  const { type, name } = urnParts(urn);
  const side = (found: State | undefined) =>
    found === undefined
      ? null
      : {
          type,
          name,
          urn,
          inputs: readable(found.inputs) as Record<string, unknown>,
          options: { protect: found.protect, retainOnDelete: found.retainOnDelete },
        };
  const before = kind === "create" ? null : side(steps.find(({ oldState }) => oldState)?.oldState);
  const after = kind === "delete" ? null : side(steps.find(({ newState }) => newState)?.newState);
  const order = steps.map(({ op }) => op);
  const [deletion, creation] = [order.indexOf("delete-replaced"), order.indexOf("create-replacement")];
  const [was, is] = [before?.inputs ?? {}, after?.inputs ?? {}];
  return describedChange({
    kind,
    before,
    after,
    properties: differences(kind, was, is, steps),
    // The engine's order if available (`--show-replacement-steps`), else the known order of the provider.
    deletedFirst: deletion >= 0 && creation >= 0 ? deletion < creation : deletesFirst(type, was, is),
  });
}

/** Leaves of the inputs that differ, and those that differ by the provider although no input does. */
function differences(
  kind: ChangeKind,
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  steps: readonly PreviewStep[],
): readonly PropertyDifference[] {
  const found = resourceDifferences(before, after);
  if (kind === "create" || kind === "delete") return found.map((leaf) => shownDifference(leaf, null));
  const detailed = Object.entries(steps.find(({ detailedDiff }) => detailedDiff)?.detailedDiff ?? {});
  const replacing = [
    ...(steps.find(({ replaceReasons }) => replaceReasons)?.replaceReasons ?? []),
    ...detailed.flatMap(([path, { kind: how }]) => (how.endsWith("-replace") ? [path] : [])),
  ].map(pathSegments);
  const seen = found.map((leaf) =>
    shownDifference(
      leaf,
      replacing.some((path) => meets(path, keySegments(leaf.keys))) ? "replace" : "update",
    ),
  );
  // The provider identifies elements by their index.
  const places = leafDifferences(before, after).map(({ keys }) => keySegments(keys));
  const unseen = detailed.flatMap(([path, { kind: how }]): PropertyDifference[] => {
    if (places.some((place) => meets(place, pathSegments(path)))) return [];
    const hidden = "(not in the inputs)";
    const effect = how.endsWith("-replace") ? "replace" : "update";
    return [{ path, kind: "update", before: hidden, after: hidden, effect }];
  });
  return [...seen, ...unseen];
}

/** Whether one of two places is at, below or above the other. */
function meets(one: readonly string[], other: readonly string[]): boolean {
  return isAtOrBelow(one, other) || isAtOrBelow(other, one);
}

/** Masked, and without the provider's own notes (`__defaults`). */
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
