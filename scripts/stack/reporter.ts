/** What a person sees while a stack changes: one line a step with its seconds, and, on a terminal, what is under way. */
import type { EngineEvent, OpType, StepEventMetadata } from "@pulumi/pulumi/automation/index.js";
import { propertyChanges } from "../program/changes.ts";
import { styled } from "../terminal-text.ts";
import { changeLines, type Operation, propertyLines, type StackValues, type Step } from "./preview-text.ts";

/** What an operation changed, or would change. */
export interface StackChanges {
  /** In the order in which they ended; a replacement is told twice, as `replace` and `delete-replaced`. */
  readonly changes: readonly Pick<Step, "operation" | "name" | "type" | "urn">[];
  /** Number of resources that stay as they are. */
  readonly unchanged: number;
}

const SIGNS: Readonly<Record<Operation, string>> = {
  create: "+",
  delete: "-",
  "delete-replaced": "-",
  replace: "±",
  same: " ",
  update: "~",
};
const COLOURS = {
  create: "added",
  update: "changed",
  replace: "changed",
  delete: "deleted",
  "delete-replaced": "deleted",
  same: "skipped",
} as const;
/** In the order of the summary. A replacement is counted once, not again for its deletion. */
const COUNTED = {
  create: { done: "created", "to come": "to create" },
  update: { done: "updated", "to come": "to update" },
  replace: { done: "replaced", "to come": "to replace" },
  delete: { done: "deleted", "to come": "to delete" },
  same: { done: "unchanged", "to come": "unchanged" },
};

const REFRESH_MILLISECONDS = 200;

interface ReporterOptions {
  /** @default process.stderr */
  readonly out?: NodeJS.WriteStream;
  /** Whether steps are kept for {@link StepReporter.preview} instead of shown as they end. @default false */
  readonly isPreview?: boolean;
}

export class StepReporter {
  readonly #out: NodeJS.WriteStream;
  readonly #isPreview: boolean;
  readonly #steps: Step[] = [];
  readonly #running = new Map<string, { step: Step; since: number; doing: string }>();
  readonly #counts = new Map<Operation, number>();
  readonly #timer: NodeJS.Timeout | undefined;
  #statusShown = false;

  constructor({ out = process.stderr, isPreview = false }: ReporterOptions = {}) {
    this.#out = out;
    this.#isPreview = isPreview;
    if (out.isTTY) {
      this.#timer = setInterval(() => this.#showStatus(), REFRESH_MILLISECONDS);
      this.#timer.unref();
    }
  }

  start(step: Step): void {
    if (step.operation !== "same") this.#running.set(step.urn, { step, since: performance.now(), doing: "" });
  }

  /** @param seconds - @default since it started */
  end(step: Step, seconds?: number): void {
    const { since = performance.now() } = this.#running.get(step.urn) ?? {};
    const took = seconds ?? (performance.now() - since) / 1000;
    this.#running.delete(step.urn);
    this.#counts.set(step.operation, (this.#counts.get(step.operation) ?? 0) + 1);
    if (step.operation === "same") return;
    this.#steps.push(step);
    if (!this.#isPreview) this.#print(this.#line(step, took >= 0.05 ? `${took.toFixed(1)} s` : ""));
  }

  /**
   * What a preview has found, in the words of the stack file and then resource by resource.
   *
   * @param before - Values of the stack file at the last `up`; undefined: there was none, or they are not known.
   * @param isFull - Whether each property is shown, hashes and triggers too.
   */
  preview(before: StackValues | undefined, after: StackValues, isFull: boolean): void {
    const steps = this.#steps;
    const words = before === undefined ? [] : changeLines(before, after, steps);
    if (words.length > 0) this.#print([...words, ""].join("\n"));
    for (const step of steps) {
      this.#print(this.#line(step, ""));
      for (const line of propertyLines(step, isFull)) this.#print(line);
    }
    this.#print(this.summary("to come"));
  }

  /** Takes the engine's own counts of a refresh, whose steps are all called the same until they have ended. */
  recount(changes: Readonly<Partial<Record<OpType, number>>>): void {
    this.#counts.clear();
    for (const [op, count] of Object.entries(changes)) {
      const operation = OPERATIONS[op as OpType];
      if (operation !== undefined) this.#counts.set(operation, (this.#counts.get(operation) ?? 0) + count);
    }
  }

  /** It failed, and whoever runs it says why. */
  fail({ urn }: Pick<Step, "urn">): void {
    this.#running.delete(urn);
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

  /** `2 created, 1 updated, 5 unchanged`. */
  summary(tense: "done" | "to come" = "done"): string {
    const parts = Object.entries(COUNTED).flatMap(([operation, words]) => {
      const count = this.#counts.get(operation as Operation);
      return count === undefined ? [] : [`${count} ${words[tense]}`];
    });
    return parts.length > 0 ? parts.join(", ") : "nothing to do";
  }

  result(): StackChanges {
    return {
      changes: this.#steps.map(({ operation, name, type, urn }) => ({ operation, name, type, urn })),
      unchanged: this.#counts.get("same") ?? 0,
    };
  }

  hasChanges(): boolean {
    return [...this.#counts.keys()].some((operation) => operation !== "same");
  }

  close(): void {
    clearInterval(this.#timer);
    this.#clearStatus();
  }

  #line(step: Step, took: string): string {
    const { operation } = step;
    const text = `  ${SIGNS[operation]} ${operation.padEnd(7)} ${label(step).padEnd(48)} ${took}`.trimEnd();
    return styled(COLOURS[operation], text, this.#out);
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

/** What an operation of the engine is called here; others say nothing of their own: the engine tells a replacement thrice. */
const OPERATIONS: Partial<Record<OpType, Operation>> = {
  same: "same",
  read: "same",
  create: "create",
  import: "create",
  update: "update",
  "create-replacement": "replace",
  "import-replacement": "replace",
  delete: "delete",
  "delete-replaced": "delete-replaced",
};

/** Shows the events of Pulumi's engine, and keeps what it says went wrong. */
export class EngineReport {
  /** Each once, in the engine's words. */
  readonly errors = new Set<string>();
  readonly #reporter: StepReporter;
  readonly #isRefresh: boolean;

  constructor(reporter: StepReporter, isRefresh = false) {
    this.#reporter = reporter;
    this.#isRefresh = isRefresh;
  }

  readonly take = (event: EngineEvent): void => {
    const { resourcePreEvent, resOutputsEvent, resOpFailedEvent, diagnosticEvent, policyEvent } = event;
    if (event.summaryEvent !== undefined && this.#isRefresh)
      this.#reporter.recount(event.summaryEvent.resourceChanges);
    if (resourcePreEvent !== undefined) this.#begin(resourcePreEvent.metadata);
    if (resOutputsEvent !== undefined) this.#end(resOutputsEvent.metadata);
    if (resOpFailedEvent !== undefined) this.#reporter.fail(resOpFailedEvent.metadata);
    if (diagnosticEvent !== undefined) this.#say(diagnosticEvent.severity, plain(diagnosticEvent.message));
    if (policyEvent !== undefined)
      this.#say(
        policyEvent.enforcementLevel === "mandatory" ? "error" : "warning",
        `${policyEvent.policyName}: ${plain(policyEvent.message)}`,
      );
  };

  #begin(metadata: StepEventMetadata): void {
    const step = stepOf(metadata);
    if (step === undefined) return;
    this.#reporter.start(step);
    // A component's end is told only where it has outputs.
    if (step.operation === "same" || (metadata.new ?? metadata.old)?.custom !== true)
      this.#reporter.end(step, 0);
  }

  #end(metadata: StepEventMetadata): void {
    const step = stepOf(metadata);
    if (step === undefined || step.operation === "same") return;
    if ((metadata.new ?? metadata.old)?.custom === true) this.#reporter.end(step);
  }

  #say(severity: string, message: string): void {
    // The engine's own notes have the inputs of resources, secrets among them.
    if (severity === "debug") return;
    // A provider's line begins with the resource that it is about.
    const progress = /^(\S+): (.*)$/.exec(message);
    if (severity === "error") {
      // Of the stack, after the reasons.
      if (/^(update|preview|destroy|refresh) failed$/.test(message)) return;
      if (!this.errors.has(message)) this.#reporter.note(message);
      this.errors.add(message);
    } else if (severity.startsWith("info") && progress !== null)
      this.#reporter.progress(progress[1] ?? "", progress[2] ?? "");
    else if (message !== "") this.#reporter.note(message);
  }
}

function stepOf({ op, urn, type, old, new: now, keys = [] }: StepEventMetadata): Step | undefined {
  const operation = OPERATIONS[op];
  const name = urn.split("::").slice(3).join("::");
  // Default providers are the engine's own.
  if (operation === undefined || (type.startsWith("pulumi:providers:") && name.startsWith("default")))
    return undefined;
  const isDeletion = operation === "delete" || operation === "delete-replaced";
  const changes = isDeletion ? [] : propertyChanges(old?.inputs ?? {}, now?.inputs ?? {});
  return { operation, urn, type, name, changes, replaceReasons: keys ?? [] };
}

/** Without the engine's own marks of colour. */
function plain(message: string): string {
  return message.replaceAll(/<\{%.*?%\}>/g, "").trim();
}
