/** What a change does to a stack, in the order in which a reviewer needs it. */
import { rebuildPrefix } from "../../infra/plan/engine/explain-key-change.ts";
import type { Problem } from "../../infra/problems.ts";
import { clipped, code, counted, type Inline, joined, strong } from "../markdown.ts";
import { HOURLY_DIGITS, NO_PRICE, SUM_DIGITS, sumUsd, usd } from "../plan/amounts.ts";
import { VERDICTS } from "../plan/sections.ts";
import { duration, figure } from "../plan/text-table.ts";
import { dangerSection, type Entry, KIND_WORDS, resourceSections, type Section } from "./resource-report.ts";
import type { Amount, ChangeKind, FitState, PlanDifferences, PolicyViolation, StackDiff } from "./types.ts";

export interface StackReport {
  readonly stack: string;
  /** One line. */
  readonly verdict: Inline;
  /** Whether merging leaves the stack exactly as it is, as far as both sides could be read. */
  readonly isUnchanged: boolean;
  /** What was compared, and how. */
  readonly comparison: Inline;
  /** Why a side could not be compared. */
  readonly notes: readonly Inline[];
  /** None is empty. */
  readonly sections: readonly Section[];
  /** Command that prints all of it. */
  readonly command: string;
}

/** Names of stacks and branches are short; anything longer is no name. */
const LONGEST_NAME = 100;
/** Failures are texts of programs. */
const LONGEST_FAILURE = 400;
const COMMIT_DIGITS = 12;

const SECRET_WORDS = { add: "new", update: "changed", delete: "gone" } as const;

export function stackReport(diff: StackDiff): StackReport {
  const { base, head, resources, violations } = diff;
  const stack = clipped(diff.stack, LONGEST_NAME);
  const ref = clipped(base.ref ?? "REF", LONGEST_NAME);
  const notes = [
    { side: "The base", failure: base.failure },
    { side: "The change", failure: head.failure },
  ].flatMap(({ side, failure }): Inline[] =>
    failure === null ? [] : [[`${side}: ${clipped(failure, LONGEST_FAILURE)}`]],
  );
  const changes = changeSections(diff).filter(({ entries }) => entries.length > 0);
  const isUnchanged = resources?.length === 0 && notes.length === 0 && changes.length === 0;
  const known = policyEntries(violations, false);
  return {
    stack,
    verdict: joined(verdictParts(diff, isUnchanged), "; "),
    isUnchanged,
    comparison: comparison(diff),
    notes,
    sections: [
      ...changes,
      ...(known.length === 0
        ? []
        : [{ title: "Policies that the base breaks too", entries: known, isFolded: true }]),
    ],
    command: `npx engine-room diff --stack ${stack} --base ${ref} --format json`,
  };
}

function comparison({ base, source }: StackDiff): Inline {
  const commit: Inline = base.commit === null ? [] : [" at ", code(base.commit.slice(0, COMMIT_DIGITS))];
  const how =
    source === "rendered"
      ? "; both versions were rendered, and no cloud was asked."
      : "; resources as `pulumi preview` found them against the stack's state.";
  const ref = base.ref === null ? "the base" : code(clipped(base.ref, LONGEST_NAME));
  return ["Compared with ", ref, ...commit, how];
}

/** All but what the base has too. */
function changeSections({ base, head, plan, secrets, violations, ...diff }: StackDiff): readonly Section[] {
  const list = (title: string, items: readonly Inline[]): Section => ({
    title,
    entries: items.map((text) => ({ text })),
  });
  const resources = diff.resources ?? [];
  return [
    list("Problems of the stack file", head.problems.map(problemText)),
    list("Problems that are gone", goneProblems(base.problems, head.problems).map(problemText)),
    dangerSection(resources),
    ...(plan === null ? [] : planSections(plan, isEarlierUnknown(base, plan))),
    { title: "Policies that this change breaks", entries: policyEntries(violations, true) },
    {
      title: "Policies that are broken; the base could not be asked",
      entries: policyEntries(violations, null),
    },
    list(
      "Policies that were not checked, for there are no resources to look at",
      diff.uncheckedPolicies.map((policy) => [code(policy)]),
    ),
    list("New warnings", (plan?.warnings.appeared ?? []).map(problemText)),
    list("Warnings that are gone", (plan?.warnings.gone ?? []).map(problemText)),
    list(
      "Secrets",
      secrets.map(({ path, kind }) => [code(path), `: ${SECRET_WORDS[kind]}`]),
    ),
    ...resourceSections(resources),
  ];
}

function problemText({ path, value, reason, fix }: Problem): Inline {
  const found: Inline = value === "" ? [code(path)] : [code(path), " = ", code(value)];
  return [...found, `: ${reason} ${fix}`.trimEnd()];
}

function goneProblems(before: readonly Problem[], after: readonly Problem[]): readonly Problem[] {
  const texts = new Set(after.map((problem) => JSON.stringify(problem)));
  return before.filter((problem) => !texts.has(JSON.stringify(problem)));
}

/** A rule with the way to mend it, and below it what breaks it; of what the base breaks too, how often. */
function policyEntries(
  violations: readonly PolicyViolation[],
  isNew: PolicyViolation["isNew"],
): readonly Entry[] {
  const found = violations.filter((violation) => violation.isNew === isNew);
  return grouped(found, ({ level, policy, fix }) => [level, policy, fix]).flatMap((group) =>
    group.slice(0, 1).map(({ level, policy, fix }): Entry => {
      const rule: Inline = [level === "mandatory" ? strong(level) : level, " ", code(policy)];
      // They say nothing of the change.
      if (isNew === false) return { text: [...rule, `: ${counted(group.length, "time")}`] };
      const points = group.map(
        ({ resource, reason }): Inline => (resource === null ? [reason] : [code(resource), `: ${reason}`]),
      );
      return { text: [...rule, `: ${fix}`], points };
    }),
  );
}

/** Items with the same key, in the order of their first ones. */
function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => unknown): readonly (readonly Item[])[] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = JSON.stringify(keyOf(item));
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return [...groups.values()];
}

/** One value, or both where they differ. */
function arrow(before: string, after: string): string {
  return before === after ? after : `${before} → ${after}`;
}

/** Whether the base has the stack and nobody knows its plan: what the head needs may be there already. */
function isEarlierUnknown({ hasStack }: StackDiff["base"], { cost }: PlanDifferences): boolean {
  return hasStack && cost.length > 0 && cost.every(({ before }) => before === null);
}

const AMOUNTS = {
  hourlyUsd: { title: "an hour", digits: HOURLY_DIGITS },
  monthlyUsd: { title: "a month", digits: SUM_DIGITS },
  asleepMonthlyUsd: { title: "a month, all asleep", digits: SUM_DIGITS },
} as const;

/** `$1,185.52 → $1,636.66`. */
function costText({ what, before, after }: PlanDifferences["cost"][number], isUnknown: boolean): string {
  const show = ({ usd: sum, isAtLeast }: Amount) => sumUsd(sum, AMOUNTS[what].digits, isAtLeast);
  return arrow(before === null ? (isUnknown ? "unknown" : "nothing") : show(before), show(after));
}

/** Engines, memory, cold start, cost. Differences too small to be seen in the figures are left out. */
function planSections(plan: PlanDifferences, isUnknown: boolean): readonly Section[] {
  const { coldStarts, cost, newBuilds, newBuildUsd } = plan;
  const seconds = (value: number | null, none: string) => (value === null ? none : duration(value));
  const starts = coldStarts.map(({ model, beforeSeconds, afterSeconds }) => ({
    model,
    text: arrow(
      seconds(beforeSeconds, isUnknown ? "unknown" : "not served"),
      seconds(afterSeconds, "not served"),
    ),
  }));
  const costs = cost.map((change) => `${AMOUNTS[change.what].title}: ${costText(change, isUnknown)}`);
  const prices = newBuilds.map(({ usd: price }) => price);
  const isPriced = prices.some((price) => price !== null);
  const build = sumUsd(isPriced ? newBuildUsd : null, SUM_DIGITS, prices.includes(null));
  return [
    { title: "Engines", entries: engineEntries(plan, isUnknown) },
    { title: "Memory of each GPU (estimate, GiB)", entries: fitEntries(plan, isUnknown) },
    {
      title: "Cold start, engine built (estimate)",
      entries: starts.flatMap(({ model, text }) =>
        text.includes("→") ? [{ text: [code(model), `: ${text}`] }] : [],
      ),
    },
    {
      title: "Cost (US dollars)",
      entries: [
        ...costs.filter((text) => text.includes("→")),
        ...(newBuildUsd === 0 ? [] : [`engines, built once (estimate): ${build}`]),
      ].map((text) => ({ text: [text] })),
    },
  ];
}

function engineEntries({ engines, newBuilds }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  const builds = new Map(newBuilds.map((build) => [build.engine, build]));
  const building = (engine: string): string => {
    const build = builds.get(engine);
    if (build === undefined) return ", which is there already";
    const unless = isUnknown ? ", unless it is there already" : "";
    return `; built in ${duration(build.seconds)} for ${usd(build.usd, SUM_DIGITS)} (estimate)${unless}`;
  };
  return [
    ...engines.rebuilt.map(({ model, before, after, reasons }): Entry => {
      const prefix = rebuildPrefix(after.slice(0, after.lastIndexOf("/")));
      return {
        text: [
          strong("rebuilt"),
          " for ",
          code(model),
          ": ",
          code(before),
          " → ",
          code(after),
          building(after),
        ],
        points: reasons.map(({ sentence }) => [
          sentence.startsWith(prefix) ? sentence.slice(prefix.length) : sentence,
        ]),
      };
    }),
    ...engines.added.map(
      ({ model, engine }): Entry => ({
        text: ["needed for ", code(model), ": ", code(engine), building(engine)],
      }),
    ),
    ...engines.removed.map(
      ({ model, engine, elsewhere }): Entry => ({
        text: [
          "no longer needed for ",
          code(model),
          ": ",
          code(engine),
          elsewhere ? ", which another model needs" : ", which stays in the engine store",
        ],
      }),
    ),
  ];
}

/** GPUs with the same change are one point with their number. */
function fitEntries({ fit }: PlanDifferences, isUnknown: boolean): readonly Entry[] {
  return grouped(fit, (change) => change).flatMap((alike) =>
    alike.slice(0, 1).map(({ pool, tenants, before, after }) => {
      const names = tenants.map((tenant): Inline => [code(tenant)]);
      const number = alike.length === 1 ? "" : `${alike.length} GPUs of `;
      return {
        text: [
          number,
          code(pool),
          " with ",
          ...joined(names, ", "),
          ": ",
          ...needs(before, after, isUnknown),
        ],
      };
    }),
  );
}

function needs(before: FitState | null, after: FitState | null, isUnknown: boolean): Inline {
  if (after === null) return ["no longer together on one GPU"];
  const earlier = before ?? after;
  const need = ({ needGiB, capacityGiB }: FitState) => `${figure(needGiB, 2)} of ${figure(capacityGiB, 2)}`;
  const verdict = arrow(VERDICTS[earlier.verdict], VERDICTS[after.verdict]);
  return [
    before === null ? (isUnknown ? "unknown → " : "new, ") : "",
    `${arrow(earlier.gpu, after.gpu)}, need ${arrow(need(earlier), need(after))}, `,
    after.verdict === "fits" ? verdict : strong(verdict),
  ];
}

/** Of one line: problems, resources, engines, money, secrets and policies, each where there is something to say. */
function verdictParts(diff: StackDiff, isUnchanged: boolean): readonly Inline[] {
  const { base, head, plan, secrets, violations, uncheckedPolicies } = diff;
  const part = (count: number, nouns: readonly [string, string?], words: string): readonly string[] =>
    count === 0 ? [] : [`${counted(count, ...nouns)}${words}`];
  const policies = (isNew: PolicyViolation["isNew"], words: string) =>
    part(violations.filter((found) => found.isNew === isNew).length, ["policy", "policies"], words);
  const month = plan?.cost.find(({ what }) => what === "monthlyUsd");
  const money = plan && month ? costText(month, isEarlierUnknown(base, plan)) : "";
  const overfull = plan?.fit.filter(({ after }) => after?.verdict === "doesNotFit").length ?? 0;
  const bold = (texts: readonly string[]) => texts.map((text): Inline => [strong(text)]);
  const plain = (texts: readonly string[]) => texts.map((text): Inline => [text]);
  return [
    ...bold(part(head.problems.length, ["problem"], " of the stack file: it can't be deployed")),
    ...(isUnchanged ? [[strong("nothing changes"), `: ${diff.unchanged} unchanged`]] : resourcePart(diff)),
    ...plain(part(plan?.engines.rebuilt.length ?? 0, ["engine"], " rebuilt")),
    ...bold(part(overfull, ["GPU"], " too small")),
    ...(money.includes("→") ? [[`${money}${money.endsWith(NO_PRICE) ? "" : " a month"}`]] : []),
    ...Object.entries(SECRET_WORDS).flatMap(([kind, words]) =>
      plain(part(secrets.filter((secret) => secret.kind === kind).length, ["secret"], ` ${words}`)),
    ),
    ...bold(policies(true, " broken")),
    ...plain(policies(null, " broken, perhaps before too")),
    ...plain(policies(false, " broken before and after")),
    ...plain(part(uncheckedPolicies.length, ["policy", "policies"], " not checked")),
  ];
}

function resourcePart({ head, resources, unchanged }: StackDiff): readonly Inline[] {
  // Problems of the head say it already, and a report's notes say why.
  if (resources === null) return head.problems.length > 0 ? [] : [[strong("resources can't be compared")]];
  if (resources.length === 0) return [[strong("no resource changes")]];
  const kinds = (["create", "update", "replace", "may-replace", "delete"] satisfies ChangeKind[]).flatMap(
    (kind) => {
      const count = resources.filter((change) => change.kind === kind).length;
      return count === 0 ? [] : [`${count} ${KIND_WORDS[kind]}`];
    },
  );
  return [[strong(counted(resources.length, "resource")), `: ${kinds.join(", ")}, ${unchanged} unchanged`]];
}
