import { existsSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { asked, type NumberOption, readNumbers, whole } from "../ask/question.ts";
import { send } from "../ask/send.ts";
import { genaiPerfTable, measureWithGenaiPerf } from "../bench/genai-perf.ts";
import { figureKeeper } from "../bench/load.ts";
import { loadTargets, longestTokens, measureLoad, streams } from "../bench/stack-load.ts";
import { largestLoad, sweep, sweepCsv, sweepLine, sweepLoads, sweepVerdict } from "../bench/sweep.ts";
import { sweepPicture } from "../bench/sweep-picture.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { type CommandResult, defineCommand, EXIT, type Values } from "./command.ts";

const OPTIONS = {
  "-o, --out <file>": "the figures as JSON, besides the table",
  "--csv <file>": "of a sweep: a row for each load",
  "--svg <file>": "of a sweep: its picture, for light and dark pages",
  "-m, --model <name>":
    "of a stack in a cluster: measure that model's Triton with NVIDIA's GenAI-Perf, a Job of the release's SDK image; --out keeps its table. Of a sweep: the model (default: the only one)",
  "--ttft-ms <n>": "of a sweep: limit of the p95 of the time to first token",
  "--itl-ms <n>": "of a sweep: limit of the p95 of the inter-token latency",
  "--concurrency <list>":
    "of a sweep: requests at a time, such as 1,4,16 (default: doubled from 1, until a limit is broken)",
  "--seconds <n>": "of a sweep: how long new requests are sent at each load (default: 10)",
  "--input-tokens <n>": "of a sweep: tokens of each prompt, about (default: 200)",
  "--output-tokens <n>": "of a sweep: tokens of each answer, at most (default: 100)",
} as const;

type BenchValues = Values<typeof OPTIONS>;
type OptionName = keyof BenchValues;

const OF_A_SWEEP: readonly OptionName[] = [
  "csv",
  "svg",
  "ttftMs",
  "itlMs",
  "concurrency",
  "seconds",
  "inputTokens",
  "outputTokens",
];

const milliseconds = (flag: string): NumberOption => ({
  flag,
  isWhole: false,
  range: "a number of milliseconds above 0",
  isInRange: (value) => value > 0 && value <= 3_600_000,
});

const NUMBERS = {
  ttftMs: milliseconds("--ttft-ms"),
  itlMs: milliseconds("--itl-ms"),
  seconds: whole("--seconds", 1, 3600),
  inputTokens: whole("--input-tokens", 10, 1_048_576),
  outputTokens: whole("--output-tokens", 2, 1_048_576),
} as const;

const print = (line: string) => void process.stdout.write(`${line}\n`);

export const command = defineCommand({
  argument: {
    name: "[what]",
    text: "what is measured",
    choices: {
      sweep:
        "one model with streamed questions at rising concurrency, and the largest load that keeps --ttft-ms and --itl-ms",
    },
  },
  options: OPTIONS,
  notes: [
    "Without --model: requests per second and latency of the encoders and of each language model, directly and through the gateway.",
    "A sweep asks the gateway, and a model without chat template its own server. Its exit code is 1 where no load keeps the limits.",
  ],
  asksCluster: true,
  asksGateway: true,
  async run({ stack, values, positionals: [what] }) {
    requireFolders(values);
    if (what === "sweep") return runSweep(stack, values);
    const foreign = OF_A_SWEEP.filter((name) => values[name] !== undefined);
    if (foreign.length > 0)
      throw new UsageError(`${foreign.map(flagOf).join(", ")}: for \`npx engine-room bench sweep\` alone.`);
    const { model, out } = values;
    if (model === undefined) {
      return withEndpoints(stack, ["triton"], async (outputs) => {
        const targets = loadTargets(readPlan(stack), outputs, process.env.ENGINE_ROOM_API_KEY);
        figureKeeper(out)("load", await measureLoad(targets, print));
        return EXIT.ok;
      });
    }
    const cluster = (await operationsOf(stack)).cluster();
    if (cluster === null)
      throw new UsageError(
        "--model is for stacks of `platform: kubernetes`; without it the gateway is measured.",
      );
    const record = await measureWithGenaiPerf(cluster.target, model, cluster.probe);
    write(out, `${JSON.stringify(record, null, 2)}\n`);
    return { text: `${genaiPerfTable(record.figures).join("\n")}\n` };
  },
});

const flagOf = (name: OptionName) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Measures cost minutes: a file that can't be written is said before them. @throws UsageError with a sentence for each. */
function requireFolders(values: BenchValues): void {
  const problems = (["out", "csv", "svg"] as const).flatMap((name) => {
    const file = values[name];
    const folder = file === undefined ? undefined : dirname(resolve(callerDirectory(), file));
    return folder === undefined || existsSync(folder)
      ? []
      : [`${flagOf(name)}: there is no folder ${folder}.`];
  });
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
}

/** @param file - Relative to where the user typed; undefined: nothing is written. */
function write(file: string | undefined, text: string): void {
  if (file !== undefined) writeFileSync(resolve(callerDirectory(), file), text);
}

async function runSweep(stack: StackReference, values: BenchValues): Promise<CommandResult> {
  const { seconds = 10, inputTokens = 200, outputTokens = 100, ...limits } = readNumbers(NUMBERS, values);
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
  const longest = longestTokens(plan, name);
  const tooLong = [
    ["--input-tokens", inputTokens, longest.input] as const,
    ["--output-tokens", outputTokens, longest.output] as const,
  ].filter(([, tokens, most]) => tokens > most);
  if (tooLong.length > 0)
    throw new UserError(
      tooLong
        .map(([flag, tokens, most]) => `${flag} is ${tokens}, and ${name} takes ${most} at most.`)
        .join("\n"),
    );
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
