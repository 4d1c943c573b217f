/** Reports a change of a stack, in the order in which a reviewer needs it. */

import type { Problem } from "../../infra/problems.ts";
import { counted } from "../../infra/problems.ts";
import { clipped, code, type Inline, joined, strong } from "../markdown.ts";
import { NO_PRICE } from "../plan/amounts.ts";
import { downtimeSection, unavailableModels } from "./downtime.ts";
import {
  accessSection,
  outsideSection,
  protectionSection,
  providerSection,
  providerVersions,
  settingsSection,
} from "./guard-report.ts";
import { costText, isEarlierUnknown, planSections } from "./plan-report.ts";
import {
  dangerSection,
  type Entry,
  grouped,
  KIND_WORDS,
  resourceSections,
  type Section,
} from "./resource-report.ts";
import type { ChangeKind, PolicyViolation, StackDiff } from "./types.ts";

export interface StackReport {
  readonly stack: string;
  /** One line. */
  readonly verdict: Inline;
  /** Whether merging leaves the stack unchanged, by all that could be read. */
  readonly isUnchanged: boolean;
  /** Both sides, and how they were compared. */
  readonly comparison: Inline;
  /** Why a side could not be compared. */
  readonly notes: readonly Inline[];
  /** None is empty. */
  readonly sections: readonly Section[];
  /** Command that prints all of it. */
  readonly whole: Inline;
}

/** Names of stacks and branches are short; longer texts are not names. */
const LONGEST_NAME = 100;
/** Failures are output of programs. */
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
    whole: wholeText(diff.source, stack, ref),
  };
}

/**
 * A preview's artifact has the whole difference; a deployment's has only digests. Both are previews against the state.
 */
function wholeText(source: StackDiff["source"], stack: string, ref: string): Inline {
  const command = `npx engine-room diff --stack ${stack} --base ${ref}`;
  if (source === "rendered")
    return ["is in the run's artifact, and in what ", code(`${command} --format json`), " prints."];
  const preview = `npx engine-room ci state-preview --stack ${stack} > state.json`;
  return [
    "is in what ",
    code(`${command} --preview state.json --format json`),
    " prints after ",
    code(preview),
    ".",
  ];
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

/** All but those that the base has too: losses, protection, access, builds and costs, and then the rest. */
function changeSections(diff: StackDiff): readonly Section[] {
  const { base, head, plan, secrets, violations, uncheckedPolicies } = diff;
  const list = (title: string, items: readonly Inline[]): Section => ({
    title,
    entries: items.map((text) => ({ text })),
  });
  const resources = diff.resources ?? [];
  return [
    list("Problems of the stack file", head.problems.map(problemText)),
    dangerSection(resources),
    downtimeSection(diff),
    protectionSection(diff),
    { title: "Policies that this change breaks", entries: policyEntries(violations, true) },
    {
      title: "Policies that are broken; the base could not be asked",
      entries: policyEntries(violations, null),
    },
    list(
      "Policies that were not checked, for there are no resources to look at",
      uncheckedPolicies.map(({ policy, level }) => [
        level === "mandatory" ? strong(level) : level,
        " ",
        code(policy),
      ]),
    ),
    accessSection(diff),
    outsideSection(diff),
    providerSection(diff),
    ...(plan === null ? [] : planSections(plan, isEarlierUnknown(base, plan))),
    list("New warnings", (plan?.warnings.appeared ?? []).map(problemText)),
    list(
      "Secrets",
      secrets.map(({ path, kind }) => [code(path), `: ${SECRET_WORDS[kind]}`]),
    ),
    settingsSection(diff),
    ...resourceSections(resources),
    { ...list("Warnings that are gone", (plan?.warnings.gone ?? []).map(problemText)), isFolded: true },
    {
      ...list("Problems that are gone", goneProblems(base.problems, head.problems).map(problemText)),
      isFolded: true,
    },
  ];
}

export function problemText({ path, value, reason, fix }: Problem): Inline {
  const found: Inline = value === "" ? [code(path)] : [code(path), " = ", code(value)];
  return [...found, `: ${reason} ${fix}`.trimEnd()];
}

/** Returns problems of the first list that the second lacks. */
export function goneProblems(before: readonly Problem[], after: readonly Problem[]): readonly Problem[] {
  const texts = new Set(after.map((problem) => JSON.stringify(problem)));
  return before.filter((problem) => !texts.has(JSON.stringify(problem)));
}

/** Lists each violated rule with its fix, and below it the violations; only the number for those of the base. */
function policyEntries(
  violations: readonly PolicyViolation[],
  isNew: PolicyViolation["isNew"],
): readonly Entry[] {
  const found = violations.filter((violation) => violation.isNew === isNew);
  return grouped(found, ({ level, policy, fix }) => [level, policy, fix]).flatMap((group) =>
    group.slice(0, 1).map(({ level, policy, fix }): Entry => {
      const rule: Inline = [level === "mandatory" ? strong(level) : level, " ", code(policy)];
      // The base's violations are not the change's.
      if (isNew === false) return { text: [...rule, `: ${counted(group.length, "time")}`] };
      const points = group.map(
        ({ resource, reason }): Inline => (resource === null ? [reason] : [code(resource), `: ${reason}`]),
      );
      return { text: [...rule, `: ${fix}`], points };
    }),
  );
}

/** Parts of the verdict's line: problems, resources, engines, money, secrets and policies, each if it applies. */
function verdictParts(diff: StackDiff, isUnchanged: boolean): readonly Inline[] {
  const { base, head, plan, secrets, settings, resources, violations, uncheckedPolicies } = diff;
  const part = (count: number, nouns: readonly [string, string?], words: string): readonly string[] =>
    count === 0 ? [] : [`${counted(count, ...nouns)}${words}`];
  const broken = (isNew: PolicyViolation["isNew"], word: string, words: string) => {
    const found = violations.filter((violation) => violation.isNew === isNew);
    const rules = counted(new Set(found.map(({ policy }) => policy)).size, "rule");
    return part(found.length, [`${word}violation`], ` of ${rules}${words}`);
  };
  const month = plan?.cost.find(({ what }) => what === "monthlyUsd");
  const money = plan && month ? costText(month, isEarlierUnknown(base, plan)) : "";
  const overfull = (plan?.fit ?? [])
    .filter(({ after }) => after?.verdict === "doesNotFit")
    .reduce((sum, { gpusAfter }) => sum + gpusAfter, 0);
  const bold = (texts: readonly string[]) => texts.map((text): Inline => [strong(text)]);
  const plain = (texts: readonly string[]) => texts.map((text): Inline => [text]);
  return [
    ...bold(part(head.problems.length, ["problem"], " of the stack file: it can't be deployed")),
    ...(isUnchanged ? [[strong("nothing changes"), `: ${diff.unchanged} unchanged`]] : resourcePart(diff)),
    ...bold(part(unavailableModels(diff), ["model"], " unavailable for a time")),
    ...bold(part(protectionSection(diff).entries.length, ["protection"], " gone")),
    ...bold(part(accessSection(diff).entries.length, ["change"], " of access")),
    ...bold(providerVersions(diff)),
    ...plain(part(plan?.engines.rebuilt.length ?? 0, ["engine"], " rebuilt")),
    ...bold(part(overfull, ["GPU"], " too small")),
    ...(money.includes("→") ? [[`${money}${money.endsWith(NO_PRICE) ? "" : " a month"}`]] : []),
    ...Object.entries(SECRET_WORDS).flatMap(([kind, words]) =>
      plain(part(secrets.filter((secret) => secret.kind === kind).length, ["secret"], ` ${words}`)),
    ),
    ...(resources?.length === 0 ? plain(part(settings.length, ["key"], " of the stack file changed")) : []),
    ...bold(broken(true, "new ", "")),
    ...plain(broken(null, "", ", perhaps before too")),
    ...plain(broken(false, "", " before and after")),
    ...plain(part(uncheckedPolicies.length, ["policy", "policies"], " not checked")),
  ];
}

function resourcePart({ head, resources, unchanged }: StackDiff): readonly Inline[] {
  // Problems of the head say it already, and a report's notes give the reason.
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
