import { RequestError } from "@engine-room/triton-requests";

import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { gatewayRequest, type PreparedRequest, tritonRequest } from "../ask/prepared-request.ts";
import { asCurl, asGrpc, asPython } from "../ask/printed.ts";
import {
  type AskedEndpoint,
  askedImage,
  askedTokens,
  chats,
  ENDPOINTS,
  profileOf,
  type Question,
  usualEndpoint,
} from "../ask/question.ts";
import { figuresLine, send } from "../ask/send.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

const FORMS = ["curl", "python", "grpc"] as const;

export const command = defineCommand({
  argument: { name: "[text]", text: "the prompt; with images, a question about them" },
  options: {
    "-m, --model <name>": "the model, as the stack names it (default: the only one)",
    "-t, --text <text>": "the prompt, in place of the argument",
    "--image <file|url...>": "a picture (jpg, png, webp)",
    "--max-tokens <n>": { text: "maximum output tokens", default: "128" },
    "--stream": "print the answer as it is written, and time the first token",
    "--endpoint <name>": {
      text: "gateway: a chat message in the model's template (default for a text question to a model with one); triton: the model's own server, which completes the text as it is (default otherwise)",
      choices: ENDPOINTS,
    },
    "--as <form>": {
      text: "send nothing, and print the request to paste: for curl (bash, zsh), Python without packages, or Python with tritonclient (grpc)",
      choices: FORMS,
    },
    "--json":
      "print JSON: {text, promptTokens, completionTokens, firstTextSeconds, totalSeconds, finishReason, isEstimate}",
  },
  notes: [
    "The most probable tokens are taken (temperature 0). The answer goes to standard output, figures to standard error.",
    "The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY.",
  ],
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const { as: form } = values;
    const plan = readPlan(stack);
    const question = questionOf(values, positionals[0], plan);
    const endpoint = values.endpoint ?? usualEndpoint(plan, question, form === "grpc");
    const endedAtOnce = endpoint === "triton" && chats(plan, question.model) ? ENDED_AT_ONCE : "";
    return withEndpoints(stack, endpoint === "triton" ? ["triton"] : [], async ({ endpoints }) => {
      const request = prepared(plan, endpoints, question, endpoint);
      if (form === undefined) return answer(request, stack, values.json === true, endedAtOnce);
      process.stdout.write(PRINTERS[form](request, question.images));
      return EXIT.ok;
    });
  },
});

const PRINTERS: Readonly<
  Record<(typeof FORMS)[number], (request: PreparedRequest, images: Question["images"]) => string>
> = { curl: asCurl, python: asPython, grpc: asGrpc };

/** @throws UserError for a model that is not there, or for what it can't take. */
function prepared(
  plan: StackPlan,
  { gateway, models }: StackOutputs["endpoints"],
  question: Question,
  endpoint: AskedEndpoint,
): PreparedRequest {
  const profile = profileOf(plan, question.model);
  if (endpoint === "gateway") {
    const needsKey = plan.gateway.apiKeys.length > 0 || process.env.ENGINE_ROOM_API_KEY !== undefined;
    return gatewayRequest(gateway, question, needsKey);
  }
  const server = models[question.model];
  if (server === undefined) {
    throw new UserError(
      `${question.model} is in the stack file and not yet in the stack; \`npx engine-room up\` adds it.`,
    );
  }
  try {
    return tritonRequest(profile, server, question);
  } catch (error) {
    throw error instanceof RequestError ? new UserError(error.message) : error;
  }
}

/** Models that were trained for chat end a bare question at once. */
const ENDED_AT_ONCE =
  "The model ended its answer at once; --endpoint gateway puts the chat template around the text.\n";

/** @param whenEmpty - What is said besides of an answer without text. */
async function answer(
  request: PreparedRequest,
  stack: StackReference,
  isJson: boolean,
  whenEmpty: string,
): Promise<number> {
  let whole = "";
  const figures = await send(request, {
    apiKey: process.env.ENGINE_ROOM_API_KEY,
    write: (text) => {
      whole += text;
      if (!isJson) process.stdout.write(text);
    },
    whenUnreachable: `\`npx engine-room connect --stack ${stack.name}\` says how it is reached.`,
  });
  if (isJson) printJson({ text: whole, ...figures });
  else process.stdout.write("\n");
  process.stderr.write(`${figuresLine(figures)}\n${whole.trim() === "" ? whenEmpty : ""}`);
  return EXIT.ok;
}

interface AskValues {
  readonly model?: string | undefined;
  readonly text?: string | undefined;
  readonly image?: readonly string[] | undefined;
  readonly maxTokens: string;
  readonly stream?: boolean | undefined;
}

function questionOf(values: AskValues, word: string | undefined, { models }: StackPlan): Question {
  const { text = word, image = [] } = values;
  const [only, ...others] = models.map(({ name }) => name);
  const model = values.model ?? (others.length === 0 ? only : undefined);
  if (model === undefined)
    throw new UsageError(`Choose a model with --model: ${[only, ...others].join(", ")}.`);
  if (text === undefined) throw new UsageError('Missing prompt: npx engine-room ask "TEXT".');
  if (word !== undefined && values.text !== undefined)
    throw new UsageError(`Two prompts: ${JSON.stringify(word)} and --text. Give one.`);
  return {
    model,
    text,
    images: image.map((given) => askedImage(given, callerDirectory())),
    maxTokens: askedTokens(values.maxTokens),
    stream: values.stream === true,
  };
}
