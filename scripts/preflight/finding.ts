/** Findings of a preflight on a host. */
import { counted } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { PAGE_COLUMNS, textTable, wrapText } from "../plan/text-table.ts";

export interface Finding {
  /** `problem`: `npx engine-room up`, or the stack that it starts, would fail. `warning`: it may. */
  readonly severity: "problem" | "warning";
  /** Name of the check, for scripts: `driver`, `ports`. */
  readonly check: string;
  readonly what: string;
  /** With the numbers that decide. */
  readonly why: string;
  readonly fix: string;
}

/** A checked part of a host or an account, and its problems. */
export interface CheckResult {
  /** For people: `engine store`. */
  readonly looksAt: string;
  readonly findings: readonly Finding[];
  /** Whether the stack has the checked part. @default true */
  readonly isNeeded?: boolean;
}

export function problem(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "problem", check, what, why, fix };
}

export function warning(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "warning", check, what, why, fix };
}

/** A finding that ends a command. */
export function refusal({ what, why, fix }: Finding): UserError {
  return new UserError(`${what}\n${why}\nFix: ${fix}`);
}

export function noShell(host: string, words: string): Finding {
  return problem(
    "shell",
    `No command can be run on ${host}.`,
    words === "" ? "The shell ended with an error." : words,
    "Try `ssh -o BatchMode=yes` to it, which must work without a password.",
  );
}

/** `1 problem, 2 warnings`; empty without findings. */
function counts(findings: readonly Finding[]): string {
  return (["problem", "warning"] as const)
    .map((kind) => ({ kind, count: findings.filter(({ severity }) => severity === kind).length }))
    .flatMap(({ kind, count }) => (count === 0 ? [] : [counted(count, kind)]))
    .join(", ");
}

/** A line for each check; a failed check has a finding. */
export function checkTable(results: readonly CheckResult[]): string {
  const rows = results.map(({ looksAt, findings, isNeeded = true }) => [
    looksAt,
    isNeeded ? counts(findings) || "ok" : "not needed",
  ]);
  return `${textTable(["CHECK", "RESULT"], rows, { indent: 0 }).join("\n")}\n`;
}

/**
 * A paragraph for each of what, why and fix of a finding, problems first, or one line without findings.
 *
 * @param width - Most characters of a line, unless a single word has more. @default {@link PAGE_COLUMNS}
 */
export function findingsReport(
  host: string,
  findings: readonly Finding[],
  width: number = PAGE_COLUMNS,
): string {
  if (findings.length === 0) return `Preflight passed on ${host}.\n`;
  const sorted = findings.toSorted(
    (a, b) => Number(a.severity === "warning") - Number(b.severity === "warning"),
  );
  const lines = sorted.flatMap(({ severity, what, why, fix }, index) => {
    const number = `  ${index + 1}. `;
    return [`${severity === "warning" ? "Warning: " : ""}${what}`, why, `Fix: ${fix}`]
      .flatMap((text) => text.split("\n"))
      .flatMap((line) => wrapText(line, width - number.length))
      .map((line, place) => `${place === 0 ? number : " ".repeat(number.length)}${line}`);
  });
  const head = wrapText(`${host}: ${counts(findings)}. Nothing was changed.`, width);
  return `${[...head, ...lines].join("\n")}\n`;
}

/** Whether version `a` comes before `b`. */
export function isOlder(a: string, b: string): boolean {
  return a.localeCompare(b, "en", { numeric: true }) < 0;
}
