/** Measures a running stack under load: its encoders, and each language model at its Triton and at the gateway. */
import type { StackOutputs } from "../../infra/outputs.ts";
import { servedEncoders } from "../../infra/plan/gateway-config.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { type AskedModel, atGateway, atTriton, SKIP_REASONS, Skipped } from "../ask/golden.ts";
import type { PreparedRequest } from "../ask/prepared-request.ts";
import { asked } from "../ask/question.ts";
import { UserError } from "../errors.ts";
import { gatewayHeaders } from "../http.ts";
import {
  type Cell,
  embeddingsSender,
  longText,
  measure,
  type Send,
  sampleText,
  textEncoderSender,
  textSender,
} from "./load.ts";

const CONCURRENCIES = [1, 8, 32];
const SECONDS_PER_CELL = 5;
const ANSWER_TOKENS = 32;

interface LoadTarget {
  readonly name: string;
  /** A sentence if it can't be measured. */
  readonly send: Send | string;
}

interface LoadRow extends Cell {
  readonly name: string;
}

/** @param apiKey - API key for the gateway, if it requires one. */
export function loadTargets(
  plan: StackPlan,
  { endpoints: { gateway, encoders, models } }: StackOutputs,
  apiKey: string | undefined,
): readonly LoadTarget[] {
  const headers = gatewayHeaders(apiKey);
  return [
    ...(encoders === null
      ? []
      : [
          { name: "text_encoder, direct", send: textEncoderSender(encoders.http) },
          {
            name: "/v1/embeddings",
            send: embeddingsSender(gateway, headers, servedEncoders(plan)?.modelName),
          },
        ]),
    ...Object.entries(models).flatMap(([name, server]) => {
      const model = { name, ...asked(plan, name), server, gateway, apiKey, whenUnreachable: "" };
      return [
        { name: `${name}, direct`, send: sender(model, (one) => atTriton(one, one.golden, false)) },
        { name: `${name}, gateway`, send: sender(model, (one) => atGateway(one)) },
      ];
    }),
  ];
}

/** The model's own question about another thing each time, so that no answer is remembered. */
function sender(model: AskedModel, request: (model: AskedModel) => PreparedRequest): Send | string {
  const prepared = (index: number) =>
    request(asksFor(model, `Tell me about ${sampleText(index)}.`, ANSWER_TOKENS));
  try {
    const { url, headers, needsKey } = prepared(0);
    const own = { ...headers, ...(needsKey ? gatewayHeaders(model.apiKey) : {}) };
    return textSender(url, (index) => prepared(index).body, own);
  } catch (error) {
    if (error instanceof Skipped) return error.message;
    throw error;
  }
}

function asksFor(model: AskedModel, prompt: string, maxTokens: number): AskedModel {
  return { ...model, golden: { ...model.golden, prompt, maxTokens } };
}

/**
 * Streamed requests to one model, each with another prompt: through the gateway if that has the model's chat
 * template, else to its Triton.
 *
 * @param tokens - Approximate length of each prompt, and maximum length of each answer.
 * @throws UserError for a model that does not stream.
 */
export function streams(
  model: AskedModel,
  tokens: { readonly input: number; readonly output: number },
): (index: number) => PreparedRequest {
  const { profile, chats, name } = model;
  if (!profile.decoupled) {
    const fix = profile.flavour === "gpt" ? "flavour: inflight_batcher_llm" : "triton: { streaming: true }";
    throw new UserError(
      `${name} can't be measured by its time to first token: ${SKIP_REASONS.doesNotStream}. Write \`${fix}\` in its row of \`models\` in the stack file, then \`npx engine-room up\`; or measure whole answers with \`npx engine-room bench\`.`,
    );
  }
  const request = (index: number) => {
    const one = asksFor(model, longText(index, tokens.input), tokens.output);
    return chats ? atGateway(one, true) : atTriton(one, one.golden, true);
  };
  try {
    request(0);
  } catch (error) {
    throw error instanceof Skipped ? new UserError(`${name} can't be asked: ${error.message}.`) : error;
  }
  return request;
}

/** Tokens of the longest prompt and of the longest answer that a model of the plan takes. */
export function longestTokens(
  plan: StackPlan,
  name: string,
): { readonly input: number; readonly output: number } {
  if (plan.tier === "gpu") {
    const limits = plan.models.find((model) => model.name === name)?.spec.engine.limits;
    return { input: limits?.maxInputTokens ?? 0, output: limits?.maxOutputTokens ?? 0 };
  }
  const model = plan.models.find((one) => one.name === name);
  return { input: model?.contextTokens ?? 0, output: model?.maxTokens ?? 0 };
}

/** @param print - Takes a table, a line at a time. */
export async function measureLoad(
  targets: readonly LoadTarget[],
  print: (line: string) => void,
): Promise<readonly LoadRow[]> {
  const width = Math.max(...targets.map(({ name }) => name.length));
  const cells = targets.filter(({ send }) => typeof send !== "string").length * CONCURRENCIES.length;
  print(
    `${cells} measurements of ${SECONDS_PER_CELL} s and the requests that are under way then; answers of at most ${ANSWER_TOKENS} tokens.`,
  );
  print(`${"".padEnd(width)} concurrency   req/s  p50 ms  p99 ms  failed`);
  const rows: LoadRow[] = [];
  for (const { name, send } of targets) {
    if (typeof send === "string") {
      print(`${name.padEnd(width)} skipped: ${send}`);
      continue;
    }
    await send(0);
    for (const concurrency of CONCURRENCIES) {
      const cell = await measure(send, concurrency, SECONDS_PER_CELL);
      rows.push({ name, ...cell });
      const columns = [cell.requestsPerSecond, cell.p50Milliseconds, cell.p99Milliseconds].map((value) =>
        value.toFixed(1).padStart(7),
      );
      print(
        `${name.padEnd(width)} ${String(concurrency).padStart(11)} ${columns.join(" ")} ${String(cell.failed).padStart(7)}`,
      );
    }
  }
  return rows;
}
