/** What a person sees while a stack changes: one line a step with its seconds, and, on a terminal, what goes on now. */
import type { Step } from "../tryout/steps.ts";

const SIGNS: Readonly<Record<Step["operation"], string>> = {
  create: "+",
  delete: "-",
  "delete-replaced": "-",
  replace: "±",
  same: " ",
  update: "~",
};
/** In the order of the summary. A replacement is counted once, not again for its deletion. */
const COUNTED = {
  create: { done: "created", "to come": "to create" },
  update: { done: "updated", "to come": "to update" },
  replace: { done: "replaced", "to come": "to replace" },
  delete: { done: "deleted", "to come": "to delete" },
  same: { done: "same", "to come": "same" },
};

const REFRESH_MILLISECONDS = 200;

export class StepReporter {
  readonly #out: NodeJS.WriteStream;
  readonly #running = new Map<string, { step: Step; since: number; doing: string }>();
  readonly #counts = new Map<Step["operation"], number>();
  readonly #timer: NodeJS.Timeout | undefined;
  #statusShown = false;

  constructor(out: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
    if (out.isTTY) {
      this.#timer = setInterval(() => this.#showStatus(), REFRESH_MILLISECONDS);
      this.#timer.unref();
    }
  }

  start(step: Step): void {
    if (step.operation !== "same") this.#running.set(step.urn, { step, since: performance.now(), doing: "" });
  }

  end(step: Step, seconds: number): void {
    this.#running.delete(step.urn);
    this.#counts.set(step.operation, (this.#counts.get(step.operation) ?? 0) + 1);
    if (step.operation === "same") return;
    this.#print(
      `  ${SIGNS[step.operation]} ${step.operation.padEnd(7)} ${label(step).padEnd(48)} ${seconds >= 0.05 ? `${seconds.toFixed(1)} s` : ""}`,
    );
  }

  /** One line of progress of a step that is under way. */
  progress(name: string, line: string): void {
    for (const entry of this.#running.values()) if (entry.step.name === name) entry.doing = line;
    if (this.#out.isTTY) this.#showStatus();
    else this.#print(`      ${name}: ${line}`);
  }

  /** A line that stays, on a terminal too. */
  note(line: string): void {
    this.#print(`  ${line}`);
  }

  /** Property by property, for a preview. */
  changes(step: Step): void {
    for (const { path, kind, before, after, lines } of step.changes) {
      const forced = step.replaceReasons.includes(path.split(/[.[]/)[0] ?? "")
        ? "  (forces replacement)"
        : "";
      const values = { add: `${after}`, delete: `${before}`, update: `${before} → ${after}` };
      const sign = { add: "+", delete: "-", update: "~" }[kind];
      this.#print(`      ${sign} ${path}:${lines === undefined ? ` ${values[kind]}` : ""}${forced}`);
      for (const line of lines ?? []) this.#print(`          ${line}`);
    }
  }

  /** `2 created, 1 updated, 5 same`. */
  summary(tense: "done" | "to come" = "done"): string {
    const parts = Object.entries(COUNTED).flatMap(([operation, words]) => {
      const count = this.#counts.get(operation as Step["operation"]);
      return count === undefined ? [] : [`${count} ${words[tense]}`];
    });
    return parts.length > 0 ? parts.join(", ") : "nothing to do";
  }

  hasChanges(): boolean {
    return [...this.#counts.keys()].some((operation) => operation !== "same");
  }

  close(): void {
    clearInterval(this.#timer);
    this.#clearStatus();
  }

  #print(line: string): void {
    this.#clearStatus();
    this.#out.write(`${line.trimEnd()}\n`);
  }

  #showStatus(): void {
    this.#clearStatus();
    if (this.#running.size === 0) return;
    const parts = [...this.#running.values()].map(({ step, since, doing }) => {
      const seconds = Math.round((performance.now() - since) / 1000);
      return `${step.name} ${seconds} s${doing === "" ? "" : ` (${doing})`}`;
    });
    this.#out.write(`  … ${parts.join(" · ")}`.slice(0, Math.max(20, (this.#out.columns ?? 80) - 1)));
    this.#statusShown = true;
  }

  #clearStatus(): void {
    if (this.#statusShown) this.#out.write("\r\u001b[2K");
    this.#statusShown = false;
  }
}

/** `encoders (Process)`. */
function label(step: Step): string {
  return `${step.name} (${step.type.split(":").at(-1)})`;
}
