import { RequestError } from "@engine-room/triton-requests";

import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { asCurl } from "../ask/as-curl.ts";
import { asGrpc } from "../ask/as-grpc.ts";
import { asPython } from "../ask/as-python.ts";
import { type AskedEndpoint, chats, ENDPOINTS, usualEndpoint } from "../ask/endpoint.ts";
import { gatewayRequest, type PreparedRequest, tritonRequest } from "../ask/prepared-request.ts";
import { profileOf } from "../ask/profile.ts";
import { askedImage, askedTokens, type Question } from "../ask/question.ts";
import { figuresLine, send } from "../ask/send.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { readPlan } from "../program/docker-target.ts";
import { callerDirectory, type StackReference } from "../program/stack-file.ts";
import { type Command, type CommandContext, EXIT } from "./command.ts";

const FORMS = ["curl", "python", "grpc"] as const;

export const command: Command = {
  summary: "Asks a model of the stack, in the model's own shape, and prints the answer with its times.",
  usage:
    "TEXT [--model NAME] [--image FILE|URL …] [--max-tokens N] [--stream] [--endpoint triton|gateway] [--as curl|python|grpc]",
  details: [
    "--model NAME         the model, as the stack names it (default: the only one)",
    "TEXT, --text TEXT    the prompt; where there are images, a question about them is enough",
    "--image FILE|URL     a picture (jpg, png, webp); may be given more than once",
    "--max-tokens N       most tokens of the answer (default: 128)",
    "--stream             print the answer as it is written, and time the first token",
    "--endpoint NAME      gateway: a chat message, with the model's template around it (default for a question in words to a model that has one); triton: the model's own server, which completes the text as it is (default for all else)",
    "--as FORM            send nothing, and print the same request to be pasted: curl (bash, zsh), python (no packages), grpc (Python with tritonclient)",
    "The most probable tokens are taken (temperature 0). The answer goes to standard output, figures to standard error.",
    "The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY.",
  ],
  options: {
    model: { type: "string", short: "m" },
    text: { type: "string", short: "t" },
    image: { type: "string", multiple: true },
    "max-tokens": { type: "string", default: "128" },
    stream: { type: "boolean" },
    endpoint: { type: "string" },
    as: { type: "string" },
  },
  maxPositionals: 1,
  asksCluster: true,
  async run({ stack, values, positionals }) {
    const given = values.endpoint === undefined ? undefined : oneOf(ENDPOINTS, "--endpoint", values.endpoint);
    const form = values.as === undefined ? undefined : oneOf(FORMS, "--as", values.as);
    const plan = readPlan(stack);
    const question = questionOf(values, positionals[0], plan);
    const endpoint = given ?? usualEndpoint(plan, question, form === "grpc");
    const endedAtOnce = endpoint === "triton" && chats(plan, question.model) ? ENDED_AT_ONCE : "";
    return withEndpoints(stack, endpoint === "triton" ? ["triton"] : [], async ({ endpoints }) => {
      const request = prepared(plan, endpoints, question, endpoint);
      if (form === undefined) return answer(request, stack, endedAtOnce);
      process.stdout.write(PRINTERS[form](request, question.images));
      return EXIT.ok;
    });
  },
};

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
async function answer(request: PreparedRequest, stack: StackReference, whenEmpty: string): Promise<number> {
  let hasText = false;
  const figures = await send(request, {
    apiKey: process.env.ENGINE_ROOM_API_KEY,
    write: (text) => {
      hasText ||= text.trim() !== "";
      process.stdout.write(text);
    },
    whenUnreachable: `\`npx engine-room connect --stack ${stack.name}\` says how it is reached.`,
  });
  process.stdout.write("\n");
  process.stderr.write(`${figuresLine(figures)}\n${hasText ? "" : whenEmpty}`);
  return EXIT.ok;
}

function questionOf(
  values: CommandContext["values"],
  word: string | undefined,
  { models }: StackPlan,
): Question {
  const { text = word, image } = values;
  const [only, ...others] = models.map(({ name }) => name);
  const model = values.model ?? (others.length === 0 ? only : undefined);
  if (typeof model !== "string")
    throw new UsageError(`Say which model with --model: ${[only, ...others].join(", ")}.`);
  if (typeof text !== "string") throw new UsageError('Say what to ask: npx engine-room ask "TEXT".');
  if (word !== undefined && values.text !== undefined)
    throw new UsageError(`Ask one thing: “${word}”, or what --text says.`);
  const images = Array.isArray(image) ? (image as readonly string[]) : [];
  return {
    model,
    text,
    images: images.map((given) => askedImage(given, callerDirectory())),
    maxTokens: askedTokens(String(values["max-tokens"])),
    stream: values.stream === true,
  };
}

function oneOf<const Name extends string>(
  names: readonly Name[],
  option: string,
  given: CommandContext["values"][string],
): Name {
  const found = names.find((name) => name === given);
  if (found === undefined) throw new UsageError(`${option} ${String(given)} is none of ${names.join(", ")}.`);
  return found;
}
