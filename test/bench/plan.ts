/** Time of planning many models, in stacks of the maximum size. */
import { parseConfig, type StackConfig } from "../../infra/config/config.ts";
import {
  ENGINE_MODELS,
  type LanguageModelName,
  languageModels,
} from "../../infra/plan/catalogue/language-models.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { planStack } from "../../infra/plan/plan-stack.ts";
import { median } from "../../scripts/bench/load.ts";

interface PlanFigures {
  readonly models: number;
  readonly stacks: number;
  readonly rounds: number;
  /** Medians over the rounds. */
  readonly parseSeconds: number;
  readonly planSeconds: number;
  /** Writing and reading the same plans as JSON, on the same machine in the same round: a measure of the machine. */
  readonly jsonSeconds: number;
  /** Planning divided by the JSON round trip. */
  readonly ratioToJson: number;
  /** Seconds a model with all models, divided by seconds a model with a tenth of them; 1 if time grows with their number. */
  readonly ratioToTenth: number;
}

const MODELS = 1000;
/** The schema's own limit. */
const MODELS_PER_STACK = 64;
const ROUNDS = 7;

/** GPUs with room for every model of the catalogue. */
const GPUS = ["L40S", "A100-SXM4-80GB", "H100"] as const;

/**
 * Plans 1,000 models that differ in name, model, limits, GPU, replicas and streaming.
 *
 * @throws Error if a stack has a problem, since refusing is quicker than planning.
 */
export function measurePlan(): PlanFigures {
  const files = stackFiles(MODELS);
  const tenth = stackFiles(MODELS / 10).map(parseConfig);
  const rounds = Array.from({ length: ROUNDS }, () => {
    const [parseSeconds, configs] = timed(() => files.map(parseConfig));
    const [tenthSeconds] = timed(() => tenth.map(planned));
    const [planSeconds, plans] = timed(() => configs.map(planned));
    const [jsonSeconds] = timed(() => plans.map((plan) => JSON.parse(canonicalJson(plan))));
    return {
      parseSeconds,
      planSeconds,
      jsonSeconds,
      ratioToJson: planSeconds / jsonSeconds,
      ratioToTenth: planSeconds / 10 / tenthSeconds,
    };
  });
  const middle = (name: keyof (typeof rounds)[number]) => median(rounds.map((round) => round[name]));
  return {
    models: MODELS,
    stacks: files.length,
    rounds: ROUNDS,
    parseSeconds: middle("parseSeconds"),
    planSeconds: middle("planSeconds"),
    jsonSeconds: middle("jsonSeconds"),
    ratioToJson: middle("ratioToJson"),
    ratioToTenth: middle("ratioToTenth"),
  };
}

/** Two lines for people. */
export function planFiguresText(figures: PlanFigures): string {
  const { models, stacks, rounds, planSeconds, parseSeconds, jsonSeconds } = figures;
  return [
    `plan of ${models} models in ${stacks} stacks, median of ${rounds}: ${planSeconds.toFixed(3)} s, ` +
      `${((1000 * planSeconds) / models).toFixed(2)} ms a model; reading their stack files ${parseSeconds.toFixed(3)} s`,
    `against writing and reading the plans as JSON: ${planSeconds.toFixed(3)} against ${jsonSeconds.toFixed(3)} s, ` +
      `ratio ${figures.ratioToJson.toFixed(2)}; a model among ${models} against one among ${models / 10}: ` +
      `ratio ${figures.ratioToTenth.toFixed(2)}`,
  ].join("\n");
}

function planned(config: StackConfig): unknown {
  const { plan, problems } = planStack(config);
  const [first] = problems;
  if (first !== undefined) throw new Error(`${first.path} = ${first.value}: ${first.reason}`);
  return plan;
}

function timed<T>(work: () => T): [number, T] {
  const started = performance.now();
  const result = work();
  return [(performance.now() - started) / 1000, result];
}

/** Values of stack files with `count` models in all; the same at every call. */
export function stackFiles(count: number): Record<string, unknown>[] {
  const models = Array.from({ length: count }, (_, index) => modelEntry(index));
  const stacks: Record<string, unknown>[] = [];
  for (let start = 0; start < count; start += MODELS_PER_STACK) {
    stacks.push({
      platform: "kubernetes",
      encoders: { pool: poolName(0) },
      engineStore: { sizeGiB: 10_000 },
      hub: { tokenSecret: { name: "hub-token" } },
      pools: GPUS.map((gpu, index) => ({
        name: poolName(index),
        nodeSelector: { pool: poolName(index) },
        machine: { gpu, gpus: 8, vcpus: 192, memoryGiB: 2048, localDiskGB: 8000, networkMbps: 100_000 },
        nodes: { min: 1, max: 200 },
        diskGiB: 2000,
      })),
      models: models.slice(start, start + MODELS_PER_STACK),
    });
  }
  return stacks;
}

function poolName(index: number): string {
  return `pool-${index % GPUS.length}`;
}

function modelEntry(index: number): Record<string, unknown> {
  const model = ENGINE_MODELS[index % ENGINE_MODELS.length] as LanguageModelName;
  const { limits } = languageModels[model];
  // Each full round through the catalogue takes another batch, so that most engine keys differ.
  const round = Math.floor(index / ENGINE_MODELS.length);
  return {
    name: `model-${index}`,
    model,
    pool: poolName(index),
    limits: {
      maxBatchSize: 1 + (round % limits.maxBatchSize),
      maxOutputTokens: limits.maxOutputTokens - (round % 50),
    },
    replicas: 1 + (index % 2),
    triton: { streaming: index % 3 !== 0 },
  };
}
