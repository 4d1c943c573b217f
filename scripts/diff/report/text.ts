import type { ComparedTree, StackDiff } from "../types.ts";

/** What a change does to a stack, a line an entry, for a terminal. */
export function textReport(diff: StackDiff): string {
  const lines = [
    ...sideLines("base", diff.base),
    ...sideLines("working tree", diff.head),
    ...(diff.resources ?? []).flatMap(({ kind, label, kept, properties }) => [
      `${kind.padEnd(11)} ${label}${kept === null ? "" : ` (${kept})`}`,
      ...(kind === "create" || kind === "delete"
        ? []
        : properties.map(
            ({ path, before = "(absent)", after = "(absent)", effect }) =>
              `${" ".repeat(12)}${path}: ${before} → ${after}${effect === "update" ? "" : ` (${effect})`}`,
          )),
    ]),
    ...diff.secrets.map((path) => `secret      ${path} changed`),
    ...planLines(diff.plan),
    ...diff.violations.map(
      ({ policy, level, resource, reason, fix }) =>
        `${level.padEnd(11)} ${policy}${resource === null ? "" : ` ${resource}`}: ${reason} ${fix}`,
    ),
  ];
  const end = diff.resources === null ? [] : [`unchanged   ${diff.unchanged} resources`];
  return `${[`Stack ${diff.stack}`, ...(lines.length === 0 ? ["Nothing changes."] : lines), ...end].join("\n")}\n`;
}

function sideLines(side: string, { failure, problems }: ComparedTree): readonly string[] {
  return [
    ...(failure === null ? [] : [`failure     ${side}: ${failure}`]),
    ...problems.map(
      ({ path, value, reason, fix }) => `problem     ${side}: ${path} = ${value}: ${reason} ${fix}`,
    ),
  ];
}

function planLines(plan: StackDiff["plan"]): readonly string[] {
  if (plan === null) return [];
  const { engines, fit, cost, newBuilds, coldStarts, warnings } = plan;
  const amount = (value: number | null) => (value === null ? "(none)" : String(value));
  return [
    ...engines.added.map(({ model, engine }) => `engine      ${model}: ${engine} is new`),
    ...engines.removed.map(({ model, engine }) => `engine      ${model}: ${engine} is gone`),
    ...engines.rebuilt.flatMap(({ reasons }) => reasons.map(({ sentence }) => sentence)),
    ...fit.map(
      ({ pool, tenants, before, after }) =>
        `memory      ${pool} ${tenants.join(", ")}: ${before?.needGiB ?? "(none)"} → ${after?.needGiB ?? "(none)"} GiB of ${(after ?? before)?.capacityGiB} GiB`,
    ),
    ...cost.map(({ what, before, after }) => `cost        ${what}: ${amount(before)} → ${after}`),
    ...newBuilds.map(({ engine, seconds, usd }) => `build       ${engine}: ${seconds} s, $${amount(usd)}`),
    ...coldStarts.map(
      ({ model, beforeSeconds, afterSeconds }) =>
        `cold start  ${model}: ${amount(beforeSeconds)} → ${amount(afterSeconds)} s`,
    ),
    ...warnings.appeared.map(({ path, reason }) => `warning     ${path}: ${reason}`),
    ...warnings.gone.map(({ path, reason }) => `no warning  ${path}: ${reason}`),
  ];
}
