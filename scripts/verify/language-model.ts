/** Checks of a language model's answers, at its Triton in its own request shape and at the gateway. */
import type { GoldenQuestion } from "../../infra/plan/catalogue/types.ts";
import { type AskedModel, answer, atGateway, atTriton } from "../ask/golden.ts";
import type { PreparedRequest } from "../ask/prepared-request.ts";
import { type Check, type Level, type ModelCheckName, Skipped } from "./check.ts";

/** Checks of answers; those of metrics and times are elsewhere. */
export function answerChecks(model: AskedModel, level: Level): Check<ModelCheckName>[] {
  return [
    { name: "golden.triton", level, run: () => askGolden(model, atTriton(model, model.golden, false)) },
    { name: "golden.gateway", level, run: () => askGolden(model, atGateway(model)) },
    { name: "streamed", level, run: () => compareStreamed(model) },
    { name: "batched", level, run: () => compareConcurrent(model) },
  ];
}

/** Whether an answer holds one of the words that it must, in upper or lower case. */
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
