import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { asked, type NumberOption, readNumbers, whole } from "../ask/question.ts";
import { send } from "../ask/send.ts";
import { figuresOf, genaiPerfTable } from "../bench/genai-perf.ts";
import { figureKeeper } from "../bench/load.ts";
import { loadTargets, longestTokens, measureLoad, streams } from "../bench/stack-load.ts";
import { largestLoad, sweep, sweepCsv, sweepLine, sweepLoads, sweepVerdict } from "../bench/sweep.ts";
import { sweepPicture } from "../bench/sweep-picture.ts";
import { printedEndpoints, withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { type CommandResult, defineCommand, EXIT, requireFolders, type Values } from "./command.ts";

const OPTIONS = {
  "-o, --out <file>": "write the figures as JSON, in addition to the table",
  "--csv <file>": "the figures as CSV: GenAI-Perf's own file; sweep: a row for each load",
  "--svg <file>": "sweep: a picture of it, for light and dark pages",
  "-m, --model <name>":
    "measure that model with NVIDIA's GenAI-Perf; sweep: the model (default: the only one)",
  "--concurrency <list>":
    "requests at a time (default: 8); sweep: several, such as 1,4,16 (default: doubled from 1, until a limit is broken)",
  "--input-tokens <n>": "tokens of each prompt; sweep: approximately (default: 200)",
  "--output-tokens <n>": "tokens of each answer; through the gateway: at most (default: 100)",
  "--prompts <n>": "GenAI-Perf: prompts, each sent once (default: 100)",
  "--seed <n>": "GenAI-Perf: seed of the prompts (default: 0)",
  "--tokenizer <folder>":
    "GenAI-Perf for a stack on CPUs: the tokenizer that counts, as a folder or a repository of the Hugging Face hub (default: the model's repository)",
  "--explain":
    "GenAI-Perf: print the command, or the Job of a cluster, and run nothing; only a stack of `platform: local` must be up",
  "--ttft-ms <n>": "sweep: limit of the p95 of the time to first token",
  "--itl-ms <n>": "sweep: limit of the p95 of the inter-token latency",
  "--seconds <n>": "sweep: how long new requests are sent at each load (default: 10)",
} as const;

type BenchValues = Values<typeof OPTIONS>;
type OptionName = keyof BenchValues;

const SWEEP = "`npx engine-room bench sweep`";
const GENAI_PERF = "`npx engine-room bench --model NAME`";

/** The forms of the command that an option is for; `--out` and `--model` say which form it is. */
const FORMS: Readonly<Partial<Record<OptionName, readonly string[]>>> = {
  csv: [SWEEP, GENAI_PERF],
  svg: [SWEEP],
  concurrency: [SWEEP, GENAI_PERF],
  inputTokens: [SWEEP, GENAI_PERF],
  outputTokens: [SWEEP, GENAI_PERF],
  prompts: [GENAI_PERF],
  seed: [GENAI_PERF],
  tokenizer: [GENAI_PERF],
  explain: [GENAI_PERF],
  ttftMs: [SWEEP],
  itlMs: [SWEEP],
  seconds: [SWEEP],
};

const milliseconds = (flag: string): NumberOption => ({
  flag,
  isWhole: false,
  range: "a number of milliseconds above 0",
  isInRange: (value) => value > 0 && value <= 3_600_000,
});

const TOKENS = {
  inputTokens: whole("--input-tokens", 10, 1_048_576),
  outputTokens: whole("--output-tokens", 2, 1_048_576),
} as const;

const SWEEP_NUMBERS = {
  ...TOKENS,
  ttftMs: milliseconds("--ttft-ms"),
  itlMs: milliseconds("--itl-ms"),
  seconds: whole("--seconds", 1, 3600),
} as const;

const GENAI_PERF_NUMBERS = {
  ...TOKENS,
  concurrency: whole("--concurrency", 1, 9999),
  prompts: whole("--prompts", 1, 1_000_000),
  seed: whole("--seed", 0, 2 ** 32 - 1),
} as const;

const print = (line: string) => void process.stdout.write(`${line}\n`);

export const command = defineCommand({
  argument: {
    name: "[measurement]",
    text: "what to measure (default: encoders and models)",
    choices: {
      sweep:
        "one model with streamed questions at rising concurrency, and the largest load that keeps --ttft-ms and --itl-ms",
    },
  },
  options: OPTIONS,
  notes: [
    "Without --model: requests per second and latency of the encoders and of each language model, directly and through the gateway.",
    "GenAI-Perf asks the model's Triton, from a container of the SDK image of the stack's release: a Job in a cluster, and on a Docker host and on EC2 a container beside the model's. Models of `runtime: llmapi` and of the flavours `gpt` and `multimodal` are asked through the gateway. A stack on CPUs, on any platform, is asked through the gateway by the genai-perf of this machine's PATH (pip install genai-perf).",
    "A sweep asks the gateway, and a model without chat template its own server. Its exit code is 1 if no load keeps the limits.",
  ],
  asksCluster: ({ explain }) => explain !== true,
  asksGateway: true,
  async run({ stack, values, positionals: [what] }) {
    const { model, out } = values;
    const form = what === "sweep" ? SWEEP : model === undefined ? undefined : GENAI_PERF;
    requireForm(values, form);
    requireFolders({ "--out": out, "--csv": values.csv, "--svg": values.svg });
    if (what === "sweep") return runSweep(stack, values);
    if (model !== undefined) return runGenaiPerf(stack, model, values);
    return withEndpoints(stack, ["triton"], async (outputs) => {
      const targets = loadTargets(readPlan(stack), outputs, process.env.ENGINE_ROOM_API_KEY);
      figureKeeper(out)("load", await measureLoad(targets, print));
      return EXIT.ok;
    });
  },
});

const flagOf = (name: OptionName) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** @throws UsageError with a sentence for each option of another form. */
function requireForm(values: BenchValues, form: string | undefined): void {
  const problems = (Object.keys(FORMS) as OptionName[]).flatMap((name) => {
    const forms = FORMS[name] ?? [];
    return values[name] === undefined || (form !== undefined && forms.includes(form))
      ? []
      : [`${flagOf(name)} is for ${forms.join(" and ")}.`];
  });
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
}

/** @throws UserError with a sentence for each that the model does not support. */
function requireTokens(
  plan: StackPlan,
  name: string,
  tokens: { readonly input: number; readonly output: number },
): void {
  const longest = longestTokens(plan, name);
  const problems = (["input", "output"] as const).flatMap((kind) =>
    tokens[kind] <= longest[kind]
      ? []
      : [`--${kind}-tokens is ${tokens[kind]}, and ${name} takes ${longest[kind]} at most.`],
  );
  if (problems.length > 0) throw new UserError(problems.join("\n"));
}

async function runGenaiPerf(
  stack: StackReference,
  model: string,
  values: BenchValues,
): Promise<CommandResult> {
  const numbers = readNumbers(GENAI_PERF_NUMBERS, { ...values });
  const { concurrency = 8, prompts = 100, inputTokens = 200, outputTokens = 100, seed = 0 } = numbers;
  if (prompts < concurrency)
    throw new UsageError(
      `--prompts is ${prompts}, and --concurrency ${concurrency}: there must be a prompt for each request at a time.`,
    );
  const operations = await operationsOf(stack);
  const plan = readPlan(stack);
  const { tokenizer } = values;
  if (tokenizer !== undefined && plan.tier === "gpu")
    throw new UsageError(
      "--tokenizer is for stacks on CPUs: in a container it is that of the model's weights.",
    );
  const load = { concurrency, requests: prompts, inputTokens, outputTokens, seed };
  const runAt = (gateway: string) => operations.genaiPerf({ model, load, tokenizer, gateway });
  // A model that can't be measured is refused before the stack is asked for addresses.
  const run = await runAt("");
  requireTokens(plan, model, { input: inputTokens, output: outputTokens });
  if (values.explain === true) {
    const { explained } =
      plan.tier === "gpu" ? run : await runAt((await printedEndpoints(stack, [])).gateway);
    return { text: explained };
  }
  const log =
    plan.tier === "gpu"
      ? await run.run()
      : await withEndpoints(stack, [], async ({ endpoints }) => (await runAt(endpoints.gateway)).run());
  const { figures, csv } = figuresOf(log);
  write(values.out, `${JSON.stringify({ ...run.record, figures }, null, 2)}\n`);
  write(values.csv, csv);
  return { text: `${genaiPerfTable(figures).join("\n")}\n` };
}

/** @param file - Relative to the user's folder; undefined: nothing is written. */
function write(file: string | undefined, text: string): void {
  if (file !== undefined) writeFileSync(resolve(callerDirectory(), file), text);
}

async function runSweep(stack: StackReference, values: BenchValues): Promise<CommandResult> {
  const {
    seconds = 10,
    inputTokens = 200,
    outputTokens = 100,
    ...limits
  } = readNumbers(SWEEP_NUMBERS, values);
  const { ttftMs, itlMs } = limits;
  if ((ttftMs ?? itlMs) === undefined)
    throw new UsageError(
      "A sweep needs a limit: --ttft-ms, --itl-ms or both, such as --ttft-ms 500 --itl-ms 50.",
    );
  const loads = sweepLoads(values.concurrency);
  const plan = readPlan(stack);
  const names = plan.models.map(({ name }) => name);
  const name = values.model ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined) throw new UsageError(`Choose a model with --model: ${names.join(", ")}.`);
  const model = asked(plan, name);
  requireTokens(plan, name, { input: inputTokens, output: outputTokens });
  return withEndpoints(stack, model.chats ? [] : ["triton"], async ({ endpoints }) => {
    const server = endpoints.models[name];
    if (server === undefined)
      throw new UserError(
        `${name} is in the stack file and not yet in the stack; \`npx engine-room up\` adds it.`,
      );
    const apiKey = process.env.ENGINE_ROOM_API_KEY;
    const whenUnreachable = `\`npx engine-room connect --stack ${stack.name}\` says how it is reached.`;
    const asksModel = { name, ...model, server, gateway: endpoints.gateway, apiKey, whenUnreachable };
    const request = streams(asksModel, { input: inputTokens, output: outputTokens });
    const keep = figureKeeper(values.out);
    const title = `${name}, ${model.chats ? "gateway" : "direct"}: prompts of about ${inputTokens} tokens, answers of at most ${outputTokens}, ${seconds} s at each load`;
    print(`${title}.`);
    print(sweepLine());
    const rows = await sweep({
      loads,
      endsAtLimit: values.concurrency === undefined,
      limits,
      seconds,
      ask: (index) => send(request(index), { apiKey, whenUnreachable, write: () => {} }),
      onRow(row, soFar) {
        print(sweepLine(row));
        const largest = largestLoad(soFar, limits)?.concurrency ?? null;
        keep("sweep", { model: name, seconds, inputTokens, outputTokens, limits, largest, rows: soFar });
      },
    });
    write(values.csv, sweepCsv(rows));
    write(values.svg, sweepPicture(title, rows, limits));
    return { text: `${sweepVerdict(rows, limits)}\n`, isOk: largestLoad(rows, limits) !== undefined };
  });
}
