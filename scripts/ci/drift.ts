/** Where what is deployed is no longer what the program says: from `pulumi preview --refresh`. */
import { z } from "zod";
import { code, counted, markdownInline } from "../markdown.ts";
import { urnParts } from "../program/serialized.ts";
import type { GitHub } from "./github.ts";
import { keepIssue } from "./threads.ts";

/** A field that a controller writes into an object of the stack, and that the program does not set. */
interface IgnoredDrift {
  /** As in a URN: `kubernetes:apps/v1:Deployment`. */
  readonly types: readonly string[];
  /** As the CLI writes it. */
  readonly path: string;
  readonly reason: string;
}

const SCALED = ["kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet"];
const CLAIM = ["kubernetes:core/v1:PersistentVolumeClaim"];

/** Everything else is drift, and so is another value of what the program does set. */
const IGNORED_DRIFT: readonly IgnoredDrift[] = [
  { types: SCALED, path: "spec.replicas", reason: "KEDA's autoscaler writes it" },
  {
    types: SCALED,
    path: 'spec.template.metadata.annotations["kubectl.kubernetes.io/restartedAt"]',
    reason: "`kubectl rollout restart` writes it: the pods are newer, and nothing else",
  },
  {
    types: ["kubernetes:apps/v1:Deployment"],
    path: 'metadata.annotations["deployment.kubernetes.io/revision"]',
    reason: "the Deployment controller counts its roll-outs there",
  },
  ...[
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
  ].map((annotation) => ({
    types: CLAIM,
    path: `metadata.annotations["${annotation}"]`,
    reason: "whoever binds and provisions the volume notes what was chosen",
  })),
  {
    types: CLAIM,
    path: "spec.volumeName",
    reason: "whoever binds the claim writes which volume it got",
  },
];

const previewSchema = z.object({
  steps: z.array(
    z.object({
      op: z.string(),
      urn: z.string(),
      detailedDiff: z.record(z.string(), z.object({ kind: z.string() })).nullish(),
      diffReasons: z.array(z.string()).nullish(),
    }),
  ),
});

interface DriftedResource {
  /** `update`, `create`, `delete`, `replace` and what else the CLI calls it. */
  readonly operation: string;
  readonly urn: string;
  /** Sorted; empty for what is there too much or too little. */
  readonly paths: readonly string[];
}

interface Drift {
  readonly resources: readonly DriftedResource[];
  readonly ignored: readonly { readonly urn: string; readonly path: string; readonly reason: string }[];
}

/** Neither changes anything: `read` looks, `refresh` brings the state up to what there is. */
const HARMLESS = ["same", "read", "refresh"];
/** Halves of a replacement, which has a step `replace` as well. */
const HALVES = ["create-replacement", "delete-replaced"];

/**
 * Values are left out: they may be secret.
 *
 * @param preview - What `pulumi preview --refresh --show-sames --json` prints. A refresh comes first, and shows what it found
 *   as an update too, so the last step of a resource is what the program would do; only with `--show-sames` has each one.
 * @throws Error where it is something else.
 */
export function readDrift(preview: unknown, table: readonly IgnoredDrift[] = IGNORED_DRIFT): Drift {
  const { steps } = previewSchema.parse(preview);
  const resources: DriftedResource[] = [];
  const ignored: Drift["ignored"][number][] = [];
  const last = new Map(steps.filter(({ op }) => !HALVES.includes(op)).map((step) => [step.urn, step]));
  for (const { op, urn, detailedDiff, diffReasons } of last.values()) {
    if (HARMLESS.includes(op)) continue;
    const changed = changedPaths({ detailedDiff, diffReasons });
    const reasons = changed.map(({ path, isUnset }) => ({
      path,
      reason: isUnset ? ignoredReason(urnParts(urn).type, path, table) : undefined,
    }));
    for (const { path, reason } of reasons) if (reason !== undefined) ignored.push({ urn, path, reason });
    const left = reasons.flatMap(({ path, reason }) => (reason === undefined ? [path] : []));
    // One that has to be made, deleted or replaced is drift whatever the paths say.
    if (left.length > 0 || changed.length === 0 || op !== "update")
      resources.push({ operation: op, urn, paths: left });
  }
  return { resources, ignored };
}

/** Sorted. `isUnset`: `up` would take the value away, because the program has none. */
function changedPaths({
  detailedDiff,
  diffReasons,
}: Pick<z.infer<typeof previewSchema>["steps"][number], "detailedDiff" | "diffReasons">) {
  const detailed = Object.entries(detailedDiff ?? {}).map(([path, { kind }]) => ({
    path,
    isUnset: kind === "delete",
  }));
  const changed =
    detailed.length > 0 ? detailed : (diffReasons ?? []).map((path) => ({ path, isUnset: false }));
  return changed.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

function ignoredReason(type: string, path: string, table: readonly IgnoredDrift[]): string | undefined {
  return table.find((row) => row.types.includes(type) && row.path === path)?.reason;
}

/** For people, as Markdown. */
export function driftReport(stack: string, { resources, ignored }: Drift): string {
  const drifted = resources.flatMap(({ operation, urn, paths }) => [
    `- ${markdownInline([code(operation), " ", code(urn)])}`,
    ...paths.map((path) => `  - ${markdownInline([code(path)])}`),
  ]);
  const passed = ignored.map(
    ({ urn, path, reason }) => `- ${markdownInline([code(path), " of ", code(urn), `: ${reason}`])}`,
  );
  const { length } = resources;
  const verdict =
    length === 0
      ? `The stack ${stack} is as the program says.`
      : `${counted(length, "resource")} of the stack ${stack} ${length === 1 ? "is" : "are"} not as the program says. \`npx engine-room up --stack ${stack}\` makes them so; what was changed on purpose belongs into the stack file.`;
  return [
    markdownInline([verdict]),
    ...(drifted.length === 0 ? [] : ["", ...drifted]),
    ...(passed.length === 0 ? [] : ["", `Ignored (${passed.length}):`, "", ...passed]),
    "",
  ].join("\n");
}

/** Keeps one open issue a stack while it has drifted. @returns What was done. */
export function reportDrift(github: GitHub, stack: string, drift: Drift): ReturnType<typeof keepIssue> {
  return keepIssue(github, {
    label: "drift",
    title: `Drift of the stack ${stack}`,
    report: drift.resources.length === 0 ? null : driftReport(stack, drift),
  });
}
