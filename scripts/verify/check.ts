/** Checks of a running stack's models and servers, and their results. */
import type { MetricSeries } from "../../infra/plan/catalogue/metrics.ts";
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import { type AskedModel, answer, atGateway, atTriton, Skipped, type SkipReason } from "../ask/golden.ts";
import type { PreparedRequest } from "../ask/prepared-request.ts";
import { errorWords } from "../errors.ts";
import { fetchText } from "../http.ts";

/** Reach of a result: `gpu`: the server ran on a GPU; `cpu`: it did not, and proves nothing about one. */
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

/** Numbers by name, with their unit in it: `maxDifference`, `serveSeconds`. */
export type Figures = Readonly<Record<string, number>>;

interface Passed {
  /** Result, in a few words. */
  readonly text: string;
  readonly figures?: Figures;
}

export interface Check<Name extends CheckName = CheckName> {
  readonly name: Name;
  readonly level: Level;
  /** @throws Skipped if the check does not apply; any other error if it fails. */
  run(): Promise<Passed>;
}

/** A result as proof files keep it: without words, which might have addresses or answers. */
interface CheckRecord<Name extends CheckName = CheckName> {
  readonly name: Name;
  readonly level: Level;
  readonly outcome: "passed" | "failed" | "skipped";
  /** Set when skipped. */
  readonly reason?: SkipReason | undefined;
  readonly figures: Figures;
}

export interface CheckResult<Name extends CheckName = CheckName> {
  readonly record: CheckRecord<Name>;
  /** For people. */
  readonly text: string;
}

/** Runs one check; its errors are its result. */
export async function runCheck<Name extends CheckName>({
  name,
  level,
  run,
}: Check<Name>): Promise<CheckResult<Name>> {
  try {
    const { text, figures = {} } = await run();
    return { record: { name, level, outcome: "passed", figures: rounded(figures) }, text };
  } catch (error) {
    if (error instanceof Skipped) {
      const { reason, message } = error;
      return { record: { name, level, outcome: "skipped", reason, figures: {} }, text: message };
    }
    return { record: { name, level, outcome: "failed", figures: {} }, text: errorWords(error) };
  }
}

/** More digits than a measurement has are meaningless. */
function rounded(figures: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, Number(value.toPrecision(4))]),
  );
}

/** Checks of answers; those of metrics and times are elsewhere. */
export function answerChecks(model: AskedModel, level: Level): Check<ModelCheckName>[] {
  return [
    { name: "golden.triton", level, run: () => askGolden(model, atTriton(model, model.golden, false)) },
    { name: "golden.gateway", level, run: () => askGolden(model, atGateway(model)) },
    { name: "streamed", level, run: () => compareStreamed(model) },
    { name: "batched", level, run: () => compareConcurrent(model) },
  ];
}

/** Whether an answer has one of the required words, in upper or lower case. */
export function holdsOne(
  answer: string,
  { answerContains }: Pick<GoldenQuestion, "answerContains">,
): boolean {
  return answerContains.some((word) => answer.toLowerCase().includes(word.toLowerCase()));
}

async function askGolden(model: AskedModel, request: PreparedRequest) {
  const { text, figures } = await answer(model, request);
  if (!holdsOne(text, model.golden)) {
    const wanted = model.golden.answerContains.map((word) => `“${word}”`).join(" or ");
    throw new Error(`the answer ${shown(text)} does not hold ${wanted}`);
  }
  return {
    text: shown(text),
    figures: {
      seconds: figures.totalSeconds,
      ...(figures.completionTokens === null ? {} : { tokens: figures.completionTokens }),
    },
  };
}

async function compareStreamed(model: AskedModel) {
  if (!model.profile.decoupled) throw new Skipped("doesNotStream");
  const whole = await answer(model, atTriton(model, model.golden, false));
  const streamed = await answer(model, atTriton(model, model.golden, true));
  if (whole.text.trim() !== streamed.text.trim()) {
    throw new Error(`streamed ${shown(streamed.text)}, whole ${shown(whole.text)}`);
  }
  const { firstTextSeconds } = streamed.figures;
  return {
    text: shown(whole.text),
    figures: firstTextSeconds === null ? {} : { firstTextSeconds },
  };
}

/**
 * Short on purpose: in half precision the sums of a batch are not those of a single request to the last bit, and sooner or
 * later two tokens of nearly the same probability change places.
 */
const CONCURRENT_TOKENS = 8;
const CONCURRENT_PROMPTS = [
  "The capital of France is",
  "Water boils at a temperature of",
  "The first month of the year is",
  "One, two, three, four, five, six,",
] as const;

async function compareConcurrent(model: AskedModel) {
  const requests = CONCURRENT_PROMPTS.map((prompt) =>
    atTriton(model, { ...model.golden, prompt, maxTokens: CONCURRENT_TOKENS }, false),
  );
  const alone: string[] = [];
  for (const request of requests) alone.push((await answer(model, request)).text);
  if (alone.every((text) => text.trim() === "")) throw new Error("all answers are empty");
  const together = await Promise.all(requests.map(async (request) => (await answer(model, request)).text));
  const other = alone.findIndex((text, index) => text !== together[index]);
  if (other !== -1) {
    throw new Error(
      `to “${CONCURRENT_PROMPTS[other]}” alone ${shown(alone[other] ?? "")}, among ${requests.length} ${shown(together[other] ?? "")}`,
    );
  }
  return { text: `${requests.length} answers`, figures: { requests: requests.length } };
}

const LONGEST_SHOWN = 60;

function shown(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return `“${line.length > LONGEST_SHOWN ? `${line.slice(0, LONGEST_SHOWN)}…` : line}”`;
}

/** Names of missing parts, for a sentence. */
const SHOWN = 3;

/** @throws Error with the names of missing parts. */
export async function checkMetricNames(url: string, expected: readonly MetricSeries[]) {
  const page = await fetchText(url);
  const missing = expected.filter((series) => !hasSeries(page, series));
  if (missing.length > 0) {
    const names = missing.slice(0, SHOWN).map(({ name, labels }) => `${name}{${pairsOf(labels).join(",")}}`);
    const more = missing.length > SHOWN ? `, and ${missing.length - SHOWN} more` : "";
    throw new Error(`${missing.length} of ${expected.length} series are missing: ${names.join(", ")}${more}`);
  }
  return { text: `all ${expected.length} series exist`, figures: { series: expected.length } };
}

/** Whether a page in Prometheus' text format has a series with these labels, and maybe others. */
export function hasSeries(page: string, { name, labels }: MetricSeries): boolean {
  return page.split("\n").some((line) => {
    const [, series, own = ""] = /^([\w:]+)(?:\{(.*)\})? /.exec(line) ?? [];
    return series === name && pairsOf(labels).every((pair) => `,${own}`.includes(`,${pair}`));
  });
}

function pairsOf(labels: MetricSeries["labels"]): string[] {
  return Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
}
