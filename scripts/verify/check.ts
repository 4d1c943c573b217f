/** One check of a running stack, and what came of it. */
import { CANT_ASK, CantAskError } from "../ask/golden.ts";
import { errorWords } from "../errors.ts";

/** How far a result reaches: `gpu`: what answered runs on a GPU; `cpu`: it does not, and proves nothing about one. */
export const LEVELS = ["gpu", "cpu"] as const;
export type Level = (typeof LEVELS)[number];

/** Checks of a language model, as proof files name them. */
export const MODEL_CHECKS = {
  "golden.triton": "golden question at Triton",
  "golden.gateway": "golden question at the gateway",
  streamed: "streamed answer equals the whole one",
  batched: "asked at once equals asked one by one",
  metrics: "names of metrics",
  build: "seconds of the engine build",
  start: "seconds of the start",
} as const;
export type ModelCheckName = keyof typeof MODEL_CHECKS;

/** Checks of the encoders, as proof files name them. */
export const ENCODER_CHECKS = {
  similarities: "published similarities of texts",
  captions: "captions find their pictures",
  batched: "a batch equals single requests",
  ensemble: "llava_ensemble equals its encoders",
  metrics: "names of metrics",
  build: "seconds of the build",
  start: "seconds of the start",
} as const;
export type EncoderCheckName = keyof typeof ENCODER_CHECKS;

export type CheckName = ModelCheckName | EncoderCheckName;

/** Why there was nothing to check; proof files have the name, people the sentence. */
export const SKIP_REASONS = {
  doesNotStream: "its repository is not decoupled, so it does not stream",
  ...CANT_ASK,
  noClipText: "there is no clip_text: these weights have no text encoder in the space of images",
  batchOfOne: "its largest batch is one",
  noEngine: "it has no engine: nothing was built for it",
  noManifest: "the manifest of what was built can't be read in the container that serves it",
  noContainers: "this stack runs processes of this machine; start times are read from containers",
  notRunning: "its container does not run on the host",
  logHasNoStart: "the log of its container no longer has the start; `docker restart` brings one",
} as const;
export type SkipReason = keyof typeof SKIP_REASONS;

/** Thrown by a check that has nothing to look at. */
export class Skipped extends Error {
  override readonly name = "Skipped";
  readonly reason: SkipReason;

  constructor(reason: SkipReason) {
    super(SKIP_REASONS[reason]);
    this.reason = reason;
  }
}

/** Numbers by name, with their unit in it: `maxDifference`, `serveSeconds`. */
export type Figures = Readonly<Record<string, number>>;

interface Passed {
  /** What was found, in a few words. */
  readonly text: string;
  readonly figures?: Figures;
}

export interface Check<Name extends CheckName = CheckName> {
  readonly name: Name;
  readonly level: Level;
  /** @throws Skipped where there is nothing to check; any other error where it is not as it should be. */
  run(): Promise<Passed>;
}

/** A result as proof files keep it: without words, in which addresses or answers might be. */
interface CheckRecord<Name extends CheckName = CheckName> {
  readonly name: Name;
  readonly level: Level;
  readonly outcome: "passed" | "failed" | "skipped";
  /** Of what was skipped. */
  readonly reason?: SkipReason | undefined;
  readonly figures: Figures;
}

export interface CheckResult<Name extends CheckName = CheckName> {
  readonly record: CheckRecord<Name>;
  /** For people. */
  readonly text: string;
}

/** Runs one check; whatever it throws is its result. */
export async function runCheck<Name extends CheckName>({
  name,
  level,
  run,
}: Check<Name>): Promise<CheckResult<Name>> {
  try {
    const { text, figures = {} } = await run();
    return { record: { name, level, outcome: "passed", figures: rounded(figures) }, text };
  } catch (error) {
    if (error instanceof Skipped || error instanceof CantAskError) {
      const { reason, message } = error;
      return { record: { name, level, outcome: "skipped", reason, figures: {} }, text: message };
    }
    return { record: { name, level, outcome: "failed", figures: {} }, text: errorWords(error) };
  }
}

/** More digits than a measurement has say nothing. */
function rounded(figures: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, Number(value.toPrecision(4))]),
  );
}
