/**
 * An approval: the changes of a stack as in a preview against its state. `up` makes its own preview, and applies nothing if that has
 * other changes. An update plan (`pulumi up --plan`) does not serve: it is experimental, has the stack's secrets, encrypted, and stops
 * half-way if it is not kept (https://www.pulumi.com/docs/iac/operations/stack-management/update-plans/).
 */

import { readFileSync } from "node:fs";
import { z } from "zod";
import { jsonDigest } from "../../infra/plan/plain-data.ts";
import { counted } from "../../infra/problems.ts";
import { previewChanges } from "../diff/preview.ts";
import { resourceDifferences } from "../diff/resource-names.ts";
import type { ResourceChange, StackDiff } from "../diff/types.ts";
import { UserError } from "../errors.ts";
import { propertyPath } from "../program/changes.ts";
import { withoutMarks } from "../program/serialized.ts";

const digest = z.string().regex(/^[0-9a-f]{64}$/);

const approvedChange = z.strictObject({
  /** `Deployment engine-room/llava` */
  label: z.string(),
  kind: z.string(),
  /** Digest of the whole change: inputs before and after, kept values, and the order of a replacement. */
  digest,
  /** Digest of each property that changes, by path. */
  properties: z.record(z.string(), digest),
});

const approvedPreviewSchema = z.strictObject({
  version: z.literal(1),
  stack: z.string(),
  /** Over all changes. */
  digest,
  /** By URN. */
  changes: z.record(z.string(), approvedChange),
});
export type ApprovedPreview = z.infer<typeof approvedPreviewSchema>;

/**
 * Same changes, same digest, in whatever order the engine found them. Values are hashed; only the places of secrets count.
 *
 * @param preview - Output of `pulumi preview --json`.
 * @throws UserError if it is other text, or a preview that failed.
 */
export function approvedPreview(stack: string, preview: string): ApprovedPreview {
  const { changes } = previewChanges(preview);
  const sorted = changes.map((change) => [change.urn, approvedChangeOf(change)] as const).toSorted();
  const byUrn = Object.fromEntries(sorted);
  return { version: 1, stack, digest: jsonDigest(byUrn), changes: byUrn };
}

/** @param path - Absolute. @throws UserError for a file that {@link approvedPreview} did not create. */
export function readApprovedPreview(path: string): ApprovedPreview {
  try {
    const found = approvedPreviewSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    if (found.digest !== jsonDigest(found.changes))
      throw new Error("its digest does not match its changes: the file was truncated or edited.");
    return found;
  } catch (error) {
    throw new UserError(
      `${path} is not what \`npx engine-room ci approved-preview\` printed: ${error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message}`,
    );
  }
}

function approvedChangeOf(change: ResourceChange): z.infer<typeof approvedChange> {
  const { label, kind, before, after, kept, deletedFirst, properties } = change;
  const effects = properties.map(({ path, kind: how, effect }) => [path, how, effect]);
  // Whole values: a report cuts them around differences.
  const leaves = resourceDifferences(before ?? {}, after ?? {}).map(({ keys, ...values }) => [
    propertyPath(keys),
    jsonDigest(withoutMarks(values)),
  ]);
  return {
    label,
    kind,
    digest: jsonDigest(withoutMarks([before, after, kept, deletedFirst, effects])),
    properties: Object.fromEntries(leaves),
  };
}

/**
 * Whether an `up` would change nothing after the last `up`, which ran with the commit that is the base of `diff`: a preview lacks the
 * protection of resources and the stack file's keys at the last `up`.
 */
export function changesNothing({ changes }: ApprovedPreview, diff: StackDiff): boolean {
  const { base, head, secrets, settings, levels, protections, providers } = diff;
  const isKnown = base.commit !== null && base.hasStack && base.failure === null && head.failure === null;
  // Another version of the SDK does not change resources.
  const makers = providers.filter(({ resources }) => resources.length > 0);
  const others = [secrets, settings, levels, protections, makers];
  return isKnown && Object.keys(changes).length === 0 && others.every(({ length }) => length === 0);
}

/** A sentence for each resource whose change is not the approved one, sorted by URN. */
export function previewDifferences(approved: ApprovedPreview, now: ApprovedPreview): readonly string[] {
  const urns = [...new Set([...Object.keys(approved.changes), ...Object.keys(now.changes)])].toSorted();
  return urns.flatMap((urn) => {
    const [was, is] = [approved.changes[urn], now.changes[urn]];
    const { label = urn } = is ?? was ?? {};
    if (was?.kind !== is?.kind)
      return [
        `${label}: ${was?.kind ?? "unchanged"} in the approved preview, ${is?.kind ?? "unchanged"} now`,
      ];
    if (was?.digest === is?.digest) return [];
    const paths = Object.keys({ ...was?.properties, ...is?.properties }).filter(
      (path) => was?.properties[path] !== is?.properties[path],
    );
    return [`${label}: other values at ${paths.join(", ") || "properties that stay as they are"}`];
  });
}

/** Limit for a list in a log. */
const MOST_LINES = 20;

/** @throws UserError if the changes are not the approved ones. */
export function requireApproved(approved: ApprovedPreview, now: ApprovedPreview): void {
  if (approved.stack !== now.stack)
    throw new UserError(`The approved preview belongs to the stack ${approved.stack}, not to ${now.stack}.`);
  const differences = previewDifferences(approved, now);
  if (differences.length === 0) return;
  const more = differences.length - MOST_LINES;
  const lines = [...differences.slice(0, MOST_LINES), ...(more > 0 ? [`${more} more`] : [])];
  throw new UserError(
    `Nothing of the stack ${now.stack} was changed, because its preview differs from the approved preview: ${counted(differences.length, "resource")} ${differences.length === 1 ? "differs" : "differ"}.\n${lines.map((line) => `- ${line}`).join("\n")}\nChoose "Re-run all jobs" in the newest run of \`deploy\`: it previews the current state, which can then be approved. "Re-run failed jobs" asks for this one again.`,
  );
}
