/** Answers of the plan for one model on one GPU or release: what the cells of docs/support-matrix.md say. */
import { parseConfig } from "../../../infra/config/config.ts";
import { ENGINE_MODELS, type LanguageModelName } from "../../../infra/plan/catalogue/language-models.ts";
import { DEFAULT_RELEASE, RELEASE_TAGS, type ReleaseTag } from "../../../infra/plan/catalogue/releases.ts";
import type { Flavour } from "../../../infra/plan/catalogue/types.ts";
import type { Verdict } from "../../../infra/plan/fit/verdicts.ts";
import type { GpuPlan } from "../../../infra/plan/gpu-stack.ts";
import { planStack } from "../../../infra/plan/plan-stack.ts";

/** GPUs of the machine of each cell: as many as in the largest instance types. */
export const GPUS_OF_MACHINE = 8;

/** Release of models without an engine. */
export const NEWEST_RELEASE = RELEASE_TAGS.at(-1) ?? DEFAULT_RELEASE;

/** A GPU with room for every model, so that a cell about releases does not depend on memory. */
const ROOMY_GPU = "H100";

/** The verdict on one GPU, and if that is not "fits", the smallest tensor parallelism whose verdict is. */
export function fitCell(model: LanguageModelName, gpu: string): string {
  return once(`${model} on ${gpu}`, () => plannedFit(model, gpu));
}

function plannedFit(model: LanguageModelName, gpu: string): string {
  const alone = verdictOf(model, gpu, 1);
  if (alone === "fits" || alone === undefined) return alone ?? "no";
  const single = alone === "tight" ? "tight" : "no";
  const splits = Array.from({ length: GPUS_OF_MACHINE - 1 }, (_, index) => index + 2);
  const smallest = splits.find((tensorParallel) => verdictOf(model, gpu, tensorParallel) === "fits");
  return smallest === undefined ? single : `${single}; TP ${smallest}`;
}

/** undefined if a problem other than memory forbids the combination. */
function verdictOf(model: LanguageModelName, gpu: string, tensorParallel: number): Verdict | undefined {
  const hasEngine = ENGINE_MODELS.includes(model);
  const plan = planOf({
    gpu,
    release: hasEngine ? DEFAULT_RELEASE : NEWEST_RELEASE,
    acceptUnverified: !hasEngine,
    model: { model, tensorParallel, runtime: hasEngine ? "engine" : "llmapi" },
  });
  const verdicts = plan?.fit.map(({ verdict }) => verdict);
  if (verdicts === undefined) return undefined;
  return (
    verdicts.find((verdict) => verdict === "doesNotFit") ??
    verdicts.find((verdict) => verdict === "tight") ??
    "fits"
  );
}

/** The catalogue is constant in a process, so a repeated cell is not planned again. */
const known = new Map<string, string>();

function once(key: string, make: () => string): string {
  const text = known.get(key) ?? make();
  known.set(key, text);
  return text;
}

interface Cell {
  readonly gpu: string;
  readonly release: string;
  readonly acceptUnverified?: boolean;
  readonly model: Readonly<Record<string, unknown>>;
}

/** Plan of a stack with one model on a machine that only its GPU limits; null if it has a problem. */
function planOf({ gpu, release, acceptUnverified = false, model }: Cell): GpuPlan | null {
  const config = parseConfig({
    platform: "kubernetes",
    release,
    acceptUnverified,
    encoders: false,
    hub: { tokenSecret: { name: "hub-token" } },
    engines: { whenFull: "stopServer" },
    pools: [
      {
        name: "gpu",
        machine: { gpu, gpus: GPUS_OF_MACHINE, vcpus: 192, memoryGiB: 2048, localDiskGB: 7600 },
        diskGiB: 2000,
      },
    ],
    models: [{ name: "model", memoryFit: { accept: "the matrix shows the verdict" }, ...model }],
  });
  const { plan } = planStack(config);
  return plan === null || plan.tier === "cpu" ? null : plan;
}

/** `24.09 to 26.02`; a release whose facts are not verified is written in brackets. */
export function releaseRanges(model: LanguageModelName, flavour: Flavour): string {
  return once(`${model} as ${flavour}`, () => plannedRanges(model, flavour));
}

function plannedRanges(model: LanguageModelName, flavour: Flavour): string {
  const levels = RELEASE_TAGS.map((tag) => acceptanceOf(model, flavour, tag));
  const texts = tagRuns(levels).flatMap(({ value, range }) =>
    value === "no" ? [] : [value === "yes" ? range : `(${range})`],
  );
  return texts.length === 0 ? "none" : texts.join(", ");
}

type Acceptance = "yes" | "unverified" | "no";

function acceptanceOf(model: LanguageModelName, flavour: Flavour, tag: ReleaseTag): Acceptance {
  if (planOfRelease(model, flavour, tag, false) !== null) return "yes";
  return planOfRelease(model, flavour, tag, true) === null ? "no" : "unverified";
}

/** Tags in the catalogue's order as ranges: `24.09 to 25.01, 25.03`. */
export function tagRanges(tags: ReadonlySet<string>): string {
  return tagRuns(RELEASE_TAGS.map((tag) => tags.has(tag)))
    .flatMap(({ value, range }) => (value ? [range] : []))
    .join(", ");
}

/** Runs of neighbouring releases with the same value. */
function tagRuns<T>(values: readonly T[]): { readonly value: T; readonly range: string }[] {
  const runs: { readonly value: T; readonly tags: string[] }[] = [];
  RELEASE_TAGS.forEach((tag, index) => {
    const value = values[index] as T;
    const run = runs.at(-1);
    if (run?.value === value) run.tags.push(tag);
    else runs.push({ value, tags: [tag] });
  });
  return runs.map(({ value, tags }) => ({
    value,
    range: tags.length === 1 ? String(tags[0]) : `${tags[0]} to ${tags.at(-1)}`,
  }));
}

function planOfRelease(
  model: LanguageModelName,
  flavour: Flavour,
  release: ReleaseTag,
  acceptUnverified: boolean,
) {
  const runtime = flavour === "llmapi" ? "llmapi" : "engine";
  // Only some repositories stream, which does not depend on the release.
  const triton = { streaming: false };
  return planOf({ gpu: ROOMY_GPU, release, acceptUnverified, model: { model, flavour, runtime, triton } });
}
