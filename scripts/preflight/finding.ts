/** What a preflight finds on a host. */
import { UserError } from "../errors.ts";
import { PAGE_COLUMNS, textTable, wrapText } from "../plan/text-table.ts";

export interface Finding {
  /** `problem`: `npx engine-room up` would fail, or what it brings up would. `warning`: it may. */
  readonly severity: "problem" | "warning";
  /** What was looked at, for scripts: `driver`, `ports`. */
  readonly check: string;
  readonly what: string;
  /** With the numbers that decide. */
  readonly why: string;
  readonly fix: string;
}

/** One thing that was looked at, and what is wrong with it. */
export interface CheckResult {
  /** For people: `engine store`. */
  readonly looksAt: string;
  readonly findings: readonly Finding[];
  /** Whether the stack has what it is about. @default true */
  readonly isNeeded?: boolean;
}

/** A line for each: how much there is to read of it. What could not be looked at has a finding of its own. */
export function checkTable(results: readonly CheckResult[]): string {
  const rows = results.map(({ looksAt, findings, isNeeded = true }) => {
    if (!isNeeded) return [looksAt, "not needed"];
    const problems = findings.filter(({ severity }) => severity === "problem").length;
    const warnings = findings.length - problems;
    const words = [
      ...(problems === 0 ? [] : [problems === 1 ? "1 problem" : `${problems} problems`]),
      ...(warnings === 0 ? [] : [warnings === 1 ? "1 warning" : `${warnings} warnings`]),
    ];
    return [looksAt, words.join(", ") || "ok"];
  });
  return `${textTable(["CHECK", "RESULT"], rows, { indent: 0 }).join("\n")}\n`;
}

export function problem(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "problem", check, what, why, fix };
}

/** A finding that ends a command. */
export function refusal({ what, why, fix }: Finding): UserError {
  return new UserError(`${what}\n${why}\nFix: ${fix}`);
}

export function warning(check: string, what: string, why: string, fix: string): Finding {
  return { severity: "warning", check, what, why, fix };
}

/**
 * A paragraph each for what, why and fix of a finding, problems first, or one line where there is none.
 *
 * @param width - Most characters of a line, unless a single word has more. @default {@link PAGE_COLUMNS}
 */
export function findingsReport(
  host: string,
  findings: readonly Finding[],
  width: number = PAGE_COLUMNS,
): string {
  if (findings.length === 0)
    return `Nothing that the stack needs is missing on ${host}, as far as can be seen.\n`;
  const sorted = [...findings].sort((a, b) =>
    a.severity < b.severity ? -1 : a.severity > b.severity ? 1 : 0,
  );
  const lines = sorted.flatMap(({ severity, what, why, fix }, index) => {
    const number = `  ${index + 1}. `;
    const margin = " ".repeat(number.length);
    const texts = [`${severity === "warning" ? "Warning: " : ""}${what}`, why, `Fix: ${fix}`];
    const wrapped = texts
      .flatMap((text) => text.split("\n"))
      .flatMap((line) => wrapText(line, width - number.length));
    return wrapped.map((line, place) => `${place === 0 ? number : margin}${line}`);
  });
  const problems = findings.filter(({ severity }) => severity === "problem").length;
  const count = problems === 1 ? "1 problem" : `${problems} problems`;
  const toKnow = problems === findings.length ? "" : `, ${findings.length - problems} to know`;
  const head = wrapText(`${host}: ${count}${toKnow}. Nothing was changed.`, width);
  return `${[...head, ...lines].join("\n")}\n`;
}

/** Whether version `a` comes before `b`; parts that are missing are 0. */
export function isOlder(a: string, b: string): boolean {
  const parts = (version: string) => version.split(/[.+~-]/).map((part) => Number.parseInt(part, 10) || 0);
  const [left, right] = [parts(a), parts(b)];
  const index = right.findIndex((part, position) => part !== (left[position] ?? 0));
  return index >= 0 && (left[index] ?? 0) < (right[index] ?? 0);
}

export function noShell(host: string, words: string): Finding {
  return {
    severity: "problem",
    check: "shell",
    what: `No command can be run on ${host}.`,
    why: words === "" ? "The shell ended with an error." : words,
    fix: "Try `ssh -o BatchMode=yes` to it, which must work without a password.",
  };
}
