/** Progress of a change for people: one line a step with its seconds, and, on a terminal, running steps. */
import type { EngineEvent, OpType, StepEventMetadata } from "@pulumi/pulumi/automation/index.js";
import { propertyChanges } from "../program/changes.ts";
import { urnParts } from "../program/serialized.ts";
import type { StackReference } from "../program/stack-file.ts";
import { styled } from "../terminal-text.ts";
import { lockStack } from "./lock.ts";
import { changeLines, type Operation, propertyLines, type StackValues, type Step } from "./preview-text.ts";
import { stackPaths } from "./stack-paths.ts";

/** Changes of an operation, made or planned. */
export interface StackChanges {
  /** In the order in which they ended; a replacement is reported twice, as `replace` and `delete-replaced`. */
  readonly changes: readonly Pick<Step, "operation" | "name" | "type" | "urn">[];
  /** Number of unchanged resources. */
  readonly unchanged: number;
}

/** In the order of the summary; an operation without words is not counted, so that a replacement is counted once. */
const OPERATIONS = {
  create: { sign: "+", style: "added", done: "created", planned: "to create" },
  update: { sign: "~", style: "changed", done: "updated", planned: "to update" },
  replace: { sign: "±", style: "changed", done: "replaced", planned: "to replace" },
  delete: { sign: "-", style: "deleted", done: "deleted", planned: "to delete" },
  "delete-replaced": { sign: "-", style: "deleted", done: null, planned: null },
  same: { sign: " ", style: "skipped", done: "unchanged", planned: "unchanged" },
} as const;

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
  #isStatusShown = false;

  constructor({ out = process.stderr, isPreview = false }: ReporterOptions = {}) {
    this.#out = out;
    this.#isPreview = isPreview;
    if (out.isTTY) this.#timer = setInterval(() => this.#showStatus(), REFRESH_MILLISECONDS).unref();
  }

  start(step: Step): void {
    if (step.operation !== "same") this.#running.set(step.urn, { step, since: performance.now(), doing: "" });
  }

  end(step: Step): void {
    const { operation, urn } = step;
    const { since = performance.now() } = this.#running.get(urn) ?? {};
    const seconds = (performance.now() - since) / 1000;
    this.#running.delete(urn);
    this.#counts.set(operation, (this.#counts.get(operation) ?? 0) + 1);
    if (operation === "same") return;
    this.#steps.push(step);
    if (!this.#isPreview) this.#print(this.#line(step, seconds >= 0.05 ? `${seconds.toFixed(1)} s` : ""));
  }

  /**
   * Prints the changes of a preview, in the words of the stack file and then resource by resource.
   *
   * @param before - Values of the stack file at the last `up`; undefined before the first `up`, or when unknown.
   * @param isFull - Whether each property is shown, hashes and triggers too.
   */
  preview(before: StackValues | undefined, after: StackValues, isFull: boolean): void {
    const words = before === undefined ? [] : changeLines(before, after, this.#steps);
    if (words.length > 0) this.#print(words.join("\n"));
    for (const step of this.#steps)
      this.#print([this.#line(step), ...propertyLines(step, isFull)].join("\n"));
    this.#print(this.summary("planned"));
  }

  /** Uses the engine's own counts of a refresh, whose steps have the same name until they end. */
  recount(changes: Readonly<Partial<Record<OpType, number>>>): void {
    this.#counts.clear();
    for (const [op, count] of Object.entries(changes)) {
      const operation = ENGINE_OPERATIONS[op as OpType];
      if (operation !== undefined) this.#counts.set(operation, (this.#counts.get(operation) ?? 0) + count);
    }
  }

  /** Ends a failed step, whose reason the caller reports. */
  fail({ urn }: Pick<Step, "urn">): void {
    this.#running.delete(urn);
  }

  /** One line of progress of a running step. */
  progress(name: string, line: string): void {
    for (const entry of this.#running.values()) if (entry.step.name === name) entry.doing = line;
    if (this.#out.isTTY) this.#showStatus();
    else this.#print(`      ${name}: ${line}`);
  }

  /** Prints a line that remains, on a terminal too. */
  note(line: string): void {
    this.#print(`  ${line}`);
  }

  /** `2 created, 1 updated, 5 unchanged`. */
  summary(tense: "done" | "planned" = "done"): string {
    const parts = Object.entries(OPERATIONS).flatMap(([operation, words]) => {
      const count = this.#counts.get(operation as Operation);
      return count === undefined || words[tense] === null ? [] : [`${count} ${words[tense]}`];
    });
    return parts.join(", ") || "nothing to do";
  }

  result(): StackChanges {
    return {
      changes: this.#steps.map(({ operation, name, type, urn }) => ({ operation, name, type, urn })),
      unchanged: this.#counts.get("same") ?? 0,
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#clearStatus();
  }

  /** `  + create  encoders (Process)   1.2 s`. */
  #line({ operation, name, type }: Step, took = ""): string {
    const { sign, style } = OPERATIONS[operation];
    const label = `${name} (${type.split(":").at(-1)})`;
    return styled(style, `  ${sign} ${operation.padEnd(7)} ${label.padEnd(48)} ${took}`.trimEnd(), this.#out);
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
    this.#isStatusShown = true;
  }

  #clearStatus(): void {
    if (this.#isStatusShown) this.#out.write("\r\u001b[2K");
    this.#isStatusShown = false;
  }
}

/**
 * Changes a stack under its lock, with a line for each step and a summary at the end.
 *
 * @throws StackLockedError at once, while another operation runs.
 */
export async function changeStack(
  { name }: StackReference,
  operation: "up" | "refresh" | "down",
  work: (reporter: StepReporter) => Promise<void>,
): Promise<StackChanges> {
  const lock = await lockStack(name, stackPaths(name).directory, operation);
  const reporter = new StepReporter();
  try {
    await work(reporter);
    const result = reporter.result();
    const isEmpty = result.changes.length + result.unchanged === 0;
    reporter.note(`${reporter.summary()}${isEmpty ? `: the stack ${name} has no resources` : ""}`);
    return result;
  } catch (error) {
    if (reporter.result().changes.length > 0)
      reporter.note(
        `${reporter.summary()}, then it failed. \`npx engine-room ${operation} --stack ${name}\` resumes.`,
      );
    throw error;
  } finally {
    reporter.close();
    lock.release();
  }
}

/** Names here of the engine's operations; others are not printed: the engine reports a replacement three times. */
const ENGINE_OPERATIONS: Partial<Record<OpType, Operation>> = {
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

/** Shows the events of Pulumi's engine, and keeps its errors. */
export class EngineReport {
  /** In the engine's words, without repetition. */
  readonly errors = new Set<string>();
  /** Whether the summary came, which ends the events of each operation of the engine. */
  hasSummary = false;
  readonly #reporter: StepReporter;
  readonly #isRefresh: boolean;

  constructor(reporter: StepReporter, isRefresh = false) {
    this.#reporter = reporter;
    this.#isRefresh = isRefresh;
  }

  readonly take = (event: EngineEvent): void => {
    const { resourcePreEvent, resOutputsEvent, resOpFailedEvent, diagnosticEvent, policyEvent } = event;
    if (event.summaryEvent !== undefined) {
      this.hasSummary = true;
      if (this.#isRefresh) this.#reporter.recount(event.summaryEvent.resourceChanges);
    }
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
    // The engine reports a component's end only with outputs.
    if (step.operation === "same" || !isCustom(metadata)) this.#reporter.end(step);
  }

  #end(metadata: StepEventMetadata): void {
    const step = stepOf(metadata);
    if (step !== undefined && step.operation !== "same" && isCustom(metadata)) this.#reporter.end(step);
  }

  #say(severity: string, message: string): void {
    // The engine's own notes have the inputs of resources, secrets among them; the last error is of the stack, after the reasons.
    if (severity === "debug" || message === "" || /^(update|preview|destroy|refresh) failed$/.test(message))
      return;
    // A provider's line begins with the name of its resource.
    const [, name, line] = /^(\S+): (.*)$/.exec(message) ?? [];
    if (severity.startsWith("info") && name !== undefined && line !== undefined)
      this.#reporter.progress(name, line);
    else if (!this.errors.has(message)) this.#reporter.note(message);
    if (severity === "error") this.errors.add(message);
  }
}

function isCustom({ old, new: now }: StepEventMetadata): boolean {
  return (now ?? old)?.custom === true;
}

function stepOf({ op, urn, type, old, new: now, keys }: StepEventMetadata): Step | undefined {
  const operation = ENGINE_OPERATIONS[op];
  const { name } = urnParts(urn);
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
