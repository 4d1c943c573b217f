/** What `npx engine-room expire` says. */
import { count } from "../../infra/plan/checks/words.ts";
import { figure, textTable } from "../plan/text-table.ts";
import type { Ending, SurveyedStack } from "./expire.ts";
import { type Lifetime, needsPerson } from "./lifetime.ts";

/** A line a stack. Pure. */
export function surveyReport(stacks: readonly SurveyedStack[]): string {
  if (stacks.length === 0) return "The state has no stacks.\n";
  const columns = [{ title: "STACK" }, { title: "TIME" }, { title: "AN HOUR" }, { title: "WHY" }] as const;
  const rows = stacks.map(({ record, lifetime, cost }) => [
    record.name,
    TIME_WORDS[lifetime.kind],
    cost ?? "",
    lifetimeWords(lifetime),
  ]);
  const over = stacks.filter(({ lifetime }) => lifetime.kind === "over").length;
  const next = `${over === 1 ? "1 stack has" : `${over} stacks have`} had ${over === 1 ? "its" : "their"} time${over === 0 ? "." : "; `npx engine-room expire --down` ends what is over."}`;
  return `${[...textTable(columns, rows, { indent: 0 }), "", next].join("\n")}\n`;
}

const TIME_WORDS: Readonly<Record<Lifetime["kind"], string>> = {
  unlimited: "no ttl",
  retained: "retained",
  running: "running",
  over: "over",
  updating: "busy",
  unknown: "unknown",
};

/** Why a stack is ended or not, with its hours. Pure. */
export function lifetimeWords(lifetime: Lifetime): string {
  const isStuck = needsPerson(lifetime);
  switch (lifetime.kind) {
    case "unlimited":
      return "its configuration has no guard.ttlHours";
    case "retained":
      return `its own \`retain\` names it, so its ttl of ${hours(lifetime.ttlHours)} ends nothing`;
    case "running":
      return `${hours(lifetime.leftHours)} left of ${hours(lifetime.ttlHours)} after its last \`up\``;
    case "over":
      return `its last \`up\` ended ${hours(lifetime.ageHours)} ago, and its ttl is ${hours(lifetime.ttlHours)}`;
    case "updating":
      return `its last \`up\` ended ${hours(lifetime.ageHours)} ago, and another operation has it${isStuck ? `; ${STUCK_WORDS}` : ""}`;
    case "unknown":
      return `${lifetime.reason.replaceAll(/\s+/g, " ")}${isStuck ? "; nothing ends it but a person" : ""}`;
  }
}

const STUCK_WORDS =
  "no operation takes that long: see whether one is under way; else `pulumi cancel`, then `npx engine-room down`";

/** One line, before a stack is ended. Pure. */
export function endingAnnouncement({ record, lifetime, cost }: SurveyedStack): string {
  return `Ending ${record.name}: ${lifetimeWords(lifetime)} (cost of an hour: ${cost ?? "not known"}).\n`;
}

/** One line. Pure. */
export function endingReport(name: string, ending: Ending): string {
  switch (ending.kind) {
    case "ended":
      return `${name}: ended${ending.isRestKnown ? "" : ", and nobody knows what of it still costs money"}.\n`;
    case "left":
      return `${name}: left alone: ${ending.reason} (${lifetimeWords(ending.lifetime)}).\n`;
    case "late":
      return `${name}: not begun, and costs money still: ${count(ending.beginWithinMinutes, "minute")} are over, and an end could be cut off. The next run begins it.\n`;
    case "failed":
      return `${name}: not ended, and costs money still: ${ending.reason}\n`;
  }
}

/** `8 h`, `11.3 h`. */
function hours(count: number): string {
  return `${figure(count, Number.isInteger(count) ? 0 : 1)} h`;
}
