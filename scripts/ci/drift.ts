/** Differences between deployed stacks and the program: from `pulumi preview --refresh`. */
import { counted } from "../../infra/problems.ts";
import type { PreviewStep } from "../diff/preview.ts";
import { code, type Inline, markdownInline } from "../markdown.ts";
import { urnParts } from "../program/serialized.ts";

const SCALED = ["kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet"];
const CLAIM = ["kubernetes:core/v1:PersistentVolumeClaim"];

/**
 * Fields that a controller writes into an object of the stack, and that the program does not set, by path as the CLI
 * writes it. Everything else is drift, and so is a changed value of a field that the program sets.
 */
const IGNORED_DRIFT: Readonly<
  Record<string, { readonly types: readonly string[]; readonly reason: string }>
> = {
  "spec.replicas": { types: SCALED, reason: "KEDA's autoscaler writes it" },
  'spec.template.metadata.annotations["kubectl.kubernetes.io/restartedAt"]': {
    types: SCALED,
    reason: "`kubectl rollout restart` writes it: the pods are newer, and nothing else",
  },
  'metadata.annotations["deployment.kubernetes.io/revision"]': {
    types: SCALED,
    reason: "the Deployment controller counts its roll-outs there",
  },
  "spec.volumeName": { types: CLAIM, reason: "the volume binder writes which volume the claim got" },
  ...Object.fromEntries(
    [
      "pv.kubernetes.io/bind-completed",
      "pv.kubernetes.io/bound-by-controller",
      "volume.beta.kubernetes.io/storage-provisioner",
      "volume.kubernetes.io/storage-provisioner",
      "volume.kubernetes.io/selected-node",
    ].map((annotation) => [
      `metadata.annotations["${annotation}"]`,
      { types: CLAIM, reason: "the volume binder and the provisioner note the chosen volume" },
    ]),
  ),
};

interface Drift {
  readonly resources: readonly {
    /** `update`, `create`, `delete`, `replace` or another operation of the CLI. */
    readonly operation: string;
    readonly urn: string;
    /** Sorted; empty for a missing or an unexpected resource. */
    readonly paths: readonly string[];
  }[];
  readonly ignored: readonly { readonly urn: string; readonly path: string; readonly reason: string }[];
}

/** Steps without a change: `read` looks, `refresh` brings the state up to date. */
const HARMLESS = ["same", "read", "refresh"];
/** Halves of a replacement, which has a step `replace` as well. */
const HALVES = ["create-replacement", "delete-replaced"];

/**
 * Compares without values, which may be secret.
 *
 * @param steps - From `pulumi preview --refresh --show-sames --json`. A refresh comes first, and shows its findings as
 *   updates too, so the last step of a resource is the program's; `--show-sames` gives every resource a step.
 */
export function driftOf(steps: readonly PreviewStep[]): Drift {
  const resources: Drift["resources"][number][] = [];
  const ignored: Drift["ignored"][number][] = [];
  const last = new Map(steps.filter(({ op }) => !HALVES.includes(op)).map((step) => [step.urn, step]));
  for (const { op, urn, detailedDiff, diffReasons } of last.values()) {
    if (HARMLESS.includes(op)) continue;
    const detailed = Object.entries(detailedDiff ?? {}).map(([path, { kind }]) => ({ path, kind }));
    const changed =
      detailed.length > 0 ? detailed : (diffReasons ?? []).map((path) => ({ path, kind: "update" }));
    const paths: string[] = [];
    for (const { path, kind } of changed.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
      const row = IGNORED_DRIFT[path];
      // `up` would remove the value, which the program does not set.
      if (kind === "delete" && row?.types.includes(urnParts(urn).type))
        ignored.push({ urn, path, reason: row.reason });
      else paths.push(path);
    }
    // A resource that must be created, deleted or replaced is drift whatever its paths.
    if (paths.length > 0 || changed.length === 0 || op !== "update")
      resources.push({ operation: op, urn, paths });
  }
  return { resources, ignored };
}

/** For people, as Markdown. */
export function driftReport(stack: string, { resources, ignored }: Drift): string {
  const point = (inline: Inline) => `- ${markdownInline(inline)}`;
  const { length } = resources;
  const verdict: Inline =
    length === 0
      ? ["The stack ", code(stack), " is as the program says."]
      : [
          `${counted(length, "resource")} of the stack `,
          code(stack),
          ` ${length === 1 ? "is" : "are"} not as the program says. `,
          code(`npx engine-room up --stack ${stack}`),
          " undoes the drift; intended changes belong in the stack file.",
        ];
  const drifted = resources.flatMap(({ operation, urn, paths }) => [
    point([code(operation), " ", code(urn)]),
    ...paths.map((path) => `  ${point([code(path)])}`),
  ]);
  const passed = ignored.map(({ urn, path, reason }) =>
    point([code(path), " of ", code(urn), `: ${reason}`]),
  );
  return [
    markdownInline(verdict),
    ...(drifted.length === 0 ? [] : ["", ...drifted]),
    ...(passed.length === 0 ? [] : ["", `Ignored (${passed.length}):`, "", ...passed]),
    "",
  ].join("\n");
}
