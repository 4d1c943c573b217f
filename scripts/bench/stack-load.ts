/** What a running stack answers under load: its encoders, and each language model at its Triton and at the gateway. */
import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { type AskedModel, atGateway, atTriton, Skipped } from "../ask/golden.ts";
import type { PreparedRequest } from "../ask/prepared-request.ts";
import { asked } from "../ask/question.ts";
import { gatewayHeaders } from "../http.ts";
import {
  type Cell,
  embeddingsSender,
  measure,
  type Send,
  sampleText,
  textEncoderSender,
  textSender,
} from "./load.ts";

const CONCURRENCIES = [1, 8, 32];
const SECONDS_PER_CELL = 5;
/** Of an answer, at most. */
const ANSWER_TOKENS = 32;

interface LoadTarget {
  readonly name: string;
  /** A sentence where it can't be measured. */
  readonly send: Send | string;
}

interface LoadRow extends Cell {
  readonly name: string;
}

/** @param apiKey - Of the gateway, where it asks for one. */
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
          { name: "/v1/embeddings", send: embeddingsSender(gateway, headers) },
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
  const prepared = (index: number) => {
    const prompt = `Tell me about ${sampleText(index)}.`;
    return request({ ...model, golden: { ...model.golden, prompt, maxTokens: ANSWER_TOKENS } });
  };
  try {
    const { url, headers, needsKey } = prepared(0);
    const own = { ...headers, ...(needsKey ? gatewayHeaders(model.apiKey) : {}) };
    return textSender(url, (index) => prepared(index).body, own);
  } catch (error) {
    if (error instanceof Skipped) return error.message;
    throw error;
  }
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
