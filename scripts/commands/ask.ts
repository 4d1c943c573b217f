import { RequestError } from "@engine-room/triton-requests";
import type { Endpoints } from "../../infra/plan/endpoints.ts";
import { PIPELINES, type Pipeline } from "../../infra/plan/requests/request-profile.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { gatewayRequest, tritonRequest } from "../ask/prepared-request.ts";
import {
  type Asked,
  asked,
  askedImage,
  askedNumbers,
  askedVideo,
  ENDPOINTS,
  type Question,
  requirePassedOn,
  usualEndpoint,
} from "../ask/question.ts";
import { asCurl, asGrpc, asPython } from "../ask/request-snippets.ts";
import { figuresLine, send } from "../ask/send.ts";
import { framesOfVideo } from "../ask/video.ts";
import { printedEndpoints, withEndpoints } from "../connect/connected-stack.ts";
import { UsageError, UserError } from "../errors.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { readPlan } from "../program/targets.ts";
import { defineCommand } from "./command.ts";

/** By the values of `--as`. */
export const PRINTERS = { curl: asCurl, python: asPython, grpc: asGrpc } as const;

export const command = defineCommand({
  argument: { name: "[text]", text: "the prompt; with images, a question about them" },
  options: {
    "-m, --model <name>": "the model, as the stack names it (default: the only one)",
    "-t, --text <text>": "the prompt, in place of the argument",
    "--image <file|url...>": "a picture (jpg, png, webp)",
    "--video <file>":
      "a video in place of pictures, of which frames are picked evenly, by ffmpeg on this machine (LLaVA-OneVision)",
    "--frames <n>": "frames of the video (default: the model's, 8 for LLaVA-OneVision)",
    "--max-tokens <n>": { text: "maximum output tokens", default: "128" },
    "--temperature <n>":
      "0 to 2; 0 takes the most probable token each time (default: 0; 1 with --seed, --top-k or --top-p)",
    "--seed <n>": "the same seed draws the same tokens, as far as the server's batches allow",
    "--top-k <n>": "draw from so many of the most probable tokens, 0 to 1024; 0: from all",
    "--top-p <n>": "draw from the most probable tokens that have this probability together, up to 1",
    "--frequency-penalty <n>": "-2 to 2; less of a token for each time that it came already",
    "--presence-penalty <n>": "-2 to 2; less of a token that came already",
    "--beam-width <n>":
      "search with so many beams, up to `limits.maxBeamWidth` of the engine, and print the best; --endpoint triton only",
    "--stream": "print the answer as it is written, and time the first token",
    "--pipeline <name>": {
      text: "bls: the model's `tensorrt_llm_bls`, whose stream has all text so far in each event with `triton.accumulateTokens`; ensemble: its ensemble (default; streams of such a model go through the BLS); --endpoint triton only",
      choices: PIPELINES,
    },
    "--endpoint <name>": {
      text: "gateway: a chat message in the model's template (default for a text question to a model with one); triton: the model's own server, which completes the text as it is (default otherwise)",
      choices: ENDPOINTS,
    },
    "--as <form>": {
      text: "send nothing, and print the request to paste: for curl (bash, zsh), Python without packages, or Python with tritonclient (grpc); only a stack of `platform: local` must be up",
      choices: Object.keys(PRINTERS) as (keyof typeof PRINTERS)[],
    },
    "--json":
      "print JSON: {text, promptTokens, completionTokens, firstTextSeconds, totalSeconds, finishReason, isEstimate, request, answer}; request is {url, body}, and answer the JSON that came, a list of events with --stream",
  },
  notes: ["The answer goes to standard output, figures to standard error."],
  asksCluster: ({ as }) => as === undefined,
  asksGateway: true,
  async run({ stack, values, positionals: [word] }) {
    const plan = readPlan(stack);
    const given = questionOf(values, word, plan);
    const endpoint = values.endpoint ?? usualEndpoint(plan, given, values.as === "grpc");
    const model = asked(plan, given.model);
    requirePassedOn(model, given, endpoint);
    const question = await withFrames(given, model);
    const { chats, pipelines } = model;
    const profile = (question.pipeline && pipelines[question.pipeline]) ?? model.profile;
    const { temperature, topK, topP, seed } = question.sampling ?? {};
    if (temperature === 0 && (seed ?? topK ?? topP) !== undefined)
      process.stderr.write(
        "--temperature 0 takes the most probable token each time: --seed, --top-k and --top-p change nothing.\n",
      );
    // A request that the model can't take is refused before the stack is asked for addresses.
    if (endpoint === "triton") forPeople(() => tritonRequest(profile, { http: "", grpc: "" }, question));
    const apiKey = process.env.ENGINE_ROOM_API_KEY;
    const requestAt = ({ gateway, models }: Endpoints) => {
      const server = models[question.model];
      if (endpoint === "triton" && server === undefined)
        throw new UserError(
          `${question.model} is in the stack file and not yet in the stack; \`npx engine-room up\` adds it.`,
        );
      const needsKey = plan.gateway.apiKeys.length > 0 || apiKey !== undefined;
      return endpoint === "gateway" || server === undefined
        ? gatewayRequest(gateway, question, needsKey)
        : tritonRequest(profile, server, question);
    };
    const parts = endpoint === "triton" ? (["triton"] as const) : [];
    if (values.as !== undefined)
      return { text: PRINTERS[values.as](requestAt(await printedEndpoints(stack, parts)), question.images) };
    return withEndpoints(stack, parts, async ({ endpoints }) => {
      const request = requestAt(endpoints);
      let text = "";
      const answers: unknown[] = [];
      const figures = await send(request, {
        apiKey,
        write: (part) => {
          text += part;
          if (values.json !== true) process.stdout.write(part);
        },
        onJson: (json) => answers.push(json),
        whenUnreachable: `\`npx engine-room connect --stack ${stack.name}\` says how it is reached.`,
      });
      if (values.json !== true) process.stdout.write("\n");
      process.stderr.write(`${figuresLine(figures)}\n`);
      // Models that were trained for chat end a bare question at once.
      if (text.trim() === "" && endpoint === "triton" && chats)
        process.stderr.write(
          "The model ended its answer at once; --endpoint gateway puts the chat template around the text.\n",
        );
      const { url, body } = request;
      return {
        json: {
          text,
          ...figures,
          request: { url, body: JSON.parse(body) },
          answer: request.stream ? answers : answers[0],
        },
      };
    });
  },
});

/** Picks the frames of a question's video. @throws UserError. */
async function withFrames(question: Question, { profile }: Asked): Promise<Question> {
  const { video } = question;
  if (video === undefined) return question;
  const count = video.frameCount ?? profile.image?.video?.defaultFrames ?? 1;
  return { ...question, video: { ...video, frames: await framesOfVideo(video.path, count) } };
}

/** @throws UserError for input that the model does not support. */
function forPeople<Result>(make: () => Result): Result {
  try {
    return make();
  } catch (error) {
    throw error instanceof RequestError ? new UserError(error.message) : error;
  }
}

export type AskValues = Parameters<typeof askedNumbers>[0] & {
  readonly model?: string | undefined;
  readonly text?: string | undefined;
  readonly image?: readonly string[] | undefined;
  readonly video?: string | undefined;
  readonly frames?: string | undefined;
  readonly stream?: boolean | undefined;
  readonly pipeline?: Pipeline | undefined;
};

/** @throws UserError, UsageError for an incomplete question. */
export function questionOf(values: AskValues, word: string | undefined, { models }: StackPlan): Question {
  const { text = word, image = [], stream = false, pipeline } = values;
  const names = models.map(({ name }) => name);
  const model = values.model ?? (names.length === 1 ? names[0] : undefined);
  if (model === undefined) throw new UsageError(`Choose a model with --model: ${names.join(", ")}.`);
  if (text === undefined) throw new UsageError('Missing prompt: npx engine-room ask "TEXT".');
  if (word !== undefined && values.text !== undefined)
    throw new UsageError(`Two prompts: ${JSON.stringify(word)} and --text. Give one.`);
  const images = image.map((given) => askedImage(given, callerDirectory()));
  const video = askedVideo(values.video, values.frames, callerDirectory());
  return { model, text, images, video, ...askedNumbers(values), stream, pipeline };
}
