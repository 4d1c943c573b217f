/** Engine specs for tests, and command lines as documents print them. */
import { type LanguageModelName, languageModels } from "../../../../infra/plan/catalogue/language-models.ts";
import { type ReleaseTag, releases } from "../../../../infra/plan/catalogue/releases.ts";
import type { Gpu, LanguageModel, Release } from "../../../../infra/plan/catalogue/types.ts";
import type { EnginePlan, StepName } from "../../../../infra/plan/engine/types.ts";
import { nameWord } from "../../../../infra/plan/engine/words.ts";
import type { EngineSpec } from "../../../../infra/plan/spec.ts";

export const A10G: Gpu = {
  name: "A10G",
  computeCapability: "8.6",
  architecture: "Ampere",
  memoryGiB: 22.35,
  memoryBandwidthGBPerSecond: 600,
  nvlink: false,
  migProfiles: {},
  formats: ["float16", "bfloat16", "int8", "int4"],
  supported: true,
  source: "test",
};

export interface SpecChanges extends Partial<Omit<EngineSpec, "release" | "limits">> {
  readonly limits?: Partial<EngineSpec["limits"]>;
  readonly release?: ReleaseTag | Release;
}

/** A model of the catalogue with its defaults, on 25.07 and an A10G. */
export function engineSpec(model: LanguageModelName, changes: SpecChanges = {}): EngineSpec {
  const row: LanguageModel = changes.row ?? languageModels[model];
  const release = changes.release ?? "25.07";
  return {
    model,
    layout: "ngc",
    target: { gpu: A10G },
    weights: {
      kind: "hub",
      repository: row.source.repository,
      revision: row.source.revision ?? "main",
    },
    dtype: row.dtype,
    quantization: "none",
    tensorParallel: 1,
    pipelineParallel: 1,
    ...changes,
    row,
    release: typeof release === "string" ? releases[release] : release,
    limits: { ...row.limits, ...changes.limits },
  };
}

/** The one step of a name, places as `<weights>`. */
export function namedWords(plan: EnginePlan, name: StepName): readonly string[] {
  const steps = plan.steps.filter((step) => step.name === name);
  if (steps.length !== 1) throw new Error(`${steps.length} steps named ${name}`);
  return steps.flatMap((step) => step.words.map(nameWord));
}

/** A change that a document's command needs before it is right, and why. */
export interface Correction {
  /** Text of the document, found exactly once. */
  readonly document: string;
  readonly corrected: string;
  readonly reason: string;
}

/** Applies corrections to a document's command; each must find its text. */
export function correct(command: string, corrections: readonly Correction[]): string {
  return corrections.reduce((text, { document, corrected }) => {
    if (text.split(document).length !== 2) throw new Error(`"${document}" is not once in: ${text}`);
    return text.replace(document, () => corrected);
  }, command);
}

/** Words of a command line: quotes as bash reads them, as far as the documents use them. */
export function shellWords(command: string): readonly string[] {
  const text = command.replace(/\\\n/g, " ");
  return [...text.matchAll(/(?:\$'(?:[^'\\]|\\.)*'|"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replace(/\$'((?:[^'\\]|\\.)*)'|"([^"]*)"|'([^']*)'/g, (_all, ansi, double, single) =>
      ansi === undefined ? (double ?? single) : ansi.replace(/\\n/g, "\n"),
    ),
  );
}

/** Program and flags with their values, flags sorted: argparse gives no meaning to their order. */
export function byFlag(words: readonly string[]): readonly (readonly string[])[] {
  const groups: string[][] = [[]];
  for (const word of words) {
    if (word.startsWith("--")) groups.push([]);
    groups.at(-1)?.push(word);
  }
  const [program = [], ...flags] = groups;
  return [program, ...flags.sort((a, b) => (a.join(" ") < b.join(" ") ? -1 : 1))];
}
