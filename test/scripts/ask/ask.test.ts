import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { parseConfig } from "../../../infra/config/config.ts";
import { planStack } from "../../../infra/plan/plan-stack.ts";
import { SAMPLE_IMAGE_DATA_URL } from "../../../scripts/ask/golden.ts";
import {
  gatewayRequest,
  type PreparedRequest,
  tritonRequest,
} from "../../../scripts/ask/prepared-request.ts";
import {
  type AskedImage,
  asked,
  askedImage,
  askedNumbers,
  type Question,
  requirePassedOn,
  usualEndpoint,
} from "../../../scripts/ask/question.ts";
import { asCurl, asPython } from "../../../scripts/ask/request-snippets.ts";
import { AnswerText, send } from "../../../scripts/ask/send.ts";
import { projectRoot, stackReference } from "../../../scripts/program/stack-file.ts";
import { readPlan } from "../../../scripts/program/targets.ts";
import { EC2_STACK, EKS_STACK } from "../../harness/aws/stacks.ts";
import { projectStackValues, writtenStackFile } from "../../harness/stack-files.ts";
import { dockerModel } from "../../infra/plan/checks/stacks.ts";
import { STACK } from "../cluster/fake-kubectl.ts";
import { runCommand } from "../plan/run-plan.ts";
import { type FakeServers, GATEWAY_KEY, PIECES, startFakeServers } from "./fake-servers.ts";

describe("requests of `ask`", () => {
  const run = promisify(execFile);

  const ANSWER = PIECES.join("");

  const folder = mkdtempSync(join(tmpdir(), "engine-room-ask-"));

  const png = Buffer.from(SAMPLE_IMAGE_DATA_URL.slice(SAMPLE_IMAGE_DATA_URL.indexOf(",") + 1), "base64");

  /** Larger in base64 than the maximum argument of a command (128 KiB). */
  const largePng = Buffer.concat([png, Buffer.alloc(300_000, 7)]);

  const PICTURE = "it's a cat/große Katze.png";

  let servers: FakeServers;

  let grpcless: (profile: RequestProfile, question: Question) => PreparedRequest;

  beforeAll(async () => {
    servers = await startFakeServers();
    grpcless = (profile, question) =>
      tritonRequest(profile, { http: servers.url, grpc: "127.0.0.1:1" }, question);
    mkdirSync(join(folder, "it's a cat"));
    writeFileSync(join(folder, PICTURE), largePng);
    writeFileSync(join(folder, "small.png"), png);
  });

  afterAll(async () => {
    await servers.close();
    rmSync(folder, { recursive: true });
  });

  /** Text that is hard to quote in every language. */
  const HARD_TEXT = 'It\'s "50 %" of $HOME\\n `id` — {"a": \'☕\'}\nand a \t tab, !history, \u2028 separator';

  const question = (changes: Partial<Question> = {}): Question => ({
    model: "m",
    text: "What is the capital of France?",
    images: [],
    maxTokens: 16,
    stream: false,
    ...changes,
  });

  const SAMPLED = {
    temperature: 0.7,
    topK: 40,
    topP: 0.9,
    seed: 123,
    frequencyPenalty: 0.5,
    presencePenalty: -1,
  };

  const file = (path: string): AskedImage => askedImage(path, folder);

  const multimodal = requestProfile("multimodal", {
    image: {
      takesFiles: true,
      maxImages: 4,
      isRequired: false,
      mark: "<|image|>",
      prompt: "{marks}{question}",
      tokensPerImage: 0,
    },
    kvCacheReuse: true,
  });

  const llavaProfile = requestProfile("llava");

  const url = "http://pictures.example.org/merlion.png";

  /** Every kind of repository, with and without pictures and streams, and the gateway. */
  const requests: Readonly<Record<string, () => [PreparedRequest, readonly AskedImage[]]>> = {
    "a text model": () => [
      grpcless(requestProfile("inflight_batcher_llm", { endId: 2, padId: 2 }), question()),
      [],
    ],
    "a text model, streaming": () => [
      grpcless(requestProfile("inflight_batcher_llm"), question({ stream: true, text: HARD_TEXT })),
      [],
    ],
    "every sampling option": () => [
      grpcless(requestProfile("inflight_batcher_llm"), question({ sampling: { ...SAMPLED, beamWidth: 4 } })),
      [],
    ],
    "every sampling option of the gateway": () => [
      gatewayRequest(servers.url, question({ sampling: SAMPLED }), true),
      [],
    ],
    "hard text": () => [
      grpcless(requestProfile("gpt", { endId: 1, padId: 1 }), question({ text: HARD_TEXT })),
      [],
    ],
    "all text so far, streaming": () => [grpcless(requestProfile("llmapi"), question({ stream: true })), []],
    "the tutorials' LLaVA": () => {
      const images = [{ kind: "url", url }] as const;
      return [grpcless(llavaProfile, question({ images })), images];
    },
    "two files, one of them twice": () => {
      const images = [file(PICTURE), file("small.png"), file(PICTURE)];
      return [grpcless(multimodal, question({ images, text: HARD_TEXT })), images];
    },
    "a file, streaming": () => {
      const images = [file("small.png")];
      return [grpcless(multimodal, question({ images, stream: true })), images];
    },
    "the gateway": () => [gatewayRequest(servers.url, question({ text: HARD_TEXT }), true), []],
    "the gateway, streaming": () => [gatewayRequest(servers.url, question({ stream: true }), true), []],
    "the gateway, with files": () => {
      const images = [file(PICTURE), file("small.png")];
      return [gatewayRequest(servers.url, question({ images }), true), images];
    },
  };

  async function received(work: () => Promise<unknown>) {
    const before = servers.asked.length;
    await work();
    expect(servers.asked).toHaveLength(before + 1);
    return servers.asked[before];
  }

  const environment = { ...process.env, ENGINE_ROOM_API_KEY: GATEWAY_KEY };

  const inShell = (shell: string, line: string) =>
    run(shell, ["-c", line], { cwd: folder, env: environment });

  const inPython = (program: string) => run("python3", ["-c", program], { cwd: folder, env: environment });

  describe("printed programs send the command's request", () => {
    test.each(Object.keys(requests))(
      "the printed curl and Python requests send the same for %s",
      async (name) => {
        const [request, images] = requests[name]?.() ?? expect.fail();
        const printed = { curl: asCurl(request, images), python: asPython(request, images) };
        let answer = "";
        const sent = await received(() =>
          send(request, {
            apiKey: GATEWAY_KEY,
            write: (text) => {
              answer += text;
            },
            whenUnreachable: "",
          }),
        );
        expect(answer).toBe(ANSWER);

        let curlOutput = "";
        expect(
          await received(async () => {
            curlOutput = (await inShell("bash", printed.curl)).stdout;
          }),
        ).toEqual(sent);
        expect(curlOutput).toContain(request.stream ? PIECES[0] : ANSWER);

        let pythonOutput = "";
        expect(
          await received(async () => {
            pythonOutput = (await inPython(printed.python)).stdout;
          }),
        ).toEqual(sent);
        expect(pythonOutput).toBe(`${ANSWER}\n`);
        for (const text of Object.values(printed)) expect(text).not.toContain(GATEWAY_KEY);
      },
    );

    test("the printed Python program can be pasted into Python's prompt", async () => {
      const images = [file("small.png")];
      const program = asPython(grpcless(multimodal, question({ images, stream: true })), images);
      const sent = await received(async () => {
        const prompt = run("python3", ["-i", "-q"], { cwd: folder });
        prompt.child.stdin?.end(`${program}\n`);
        const { stdout } = await prompt;
        expect(stdout).toContain(ANSWER);
      });
      expect(JSON.stringify(sent?.body)).toContain(png.toString("base64"));
    });
  });

  test("a question gets the model's prompt around it only once", () => {
    const images = [{ kind: "url", url }] as const;
    const body = (text: string) =>
      JSON.parse(grpcless(llavaProfile, question({ images, text })).body) as { prompt: string };
    const { prompt } = body("What city is this?");
    expect(prompt.match(/<image>/g)).toHaveLength(1);
    expect(prompt).toContain("What city is this?");
    expect(body(prompt).prompt).toBe(prompt);
  });

  test.each([
    ["until 0.19", "random_seed"],
    ["since 0.20", "seed"],
  ] as const)("sampling options have the names of TensorRT-LLM's tensors %s", (_release, seedField) => {
    const profile = requestProfile("inflight_batcher_llm", { seedField });
    const { body } = grpcless(profile, question({ sampling: { ...SAMPLED, beamWidth: 4 } }));
    expect(JSON.parse(body)).toMatchObject({
      temperature: 0.7,
      top_k: 40,
      top_p: 0.9,
      [seedField]: 123,
      frequency_penalty: 0.5,
      presence_penalty: -1,
      beam_width: 4,
    });
  });

  test("sampling options have the names of OpenAI's API at the gateway, with its top_k, and are left out if none is given", () => {
    const body = (changes: Partial<Question>) =>
      JSON.parse(gatewayRequest("http://x", question(changes), false).body);
    const bare = body({});
    expect(Object.keys(bare)).toEqual(["model", "messages", "max_tokens", "temperature"]);
    expect(body({ sampling: SAMPLED })).toEqual({
      ...bare,
      temperature: 0.7,
      top_k: 40,
      top_p: 0.9,
      seed: 123,
      frequency_penalty: 0.5,
      presence_penalty: -1,
    });
  });

  test("the LLaVA walkthrough's request is sent unchanged", () => {
    const images = [{ kind: "url", url }] as const;
    const given = { maxTokens: "64", temperature: "0.0", topK: "1", frequencyPenalty: "0.0", seed: "0" };
    const text = "USER: <image>\nQuestion: which city is this? Answer:";
    const { url: address, body } = grpcless(llavaProfile, question({ images, text, ...askedNumbers(given) }));
    expect(address).toBe(`${servers.url}/v2/models/llava-1.5/generate`);
    expect(JSON.parse(body)).toEqual({
      prompt: text,
      image: url,
      max_tokens: 64,
      temperature: 0,
      top_k: 1,
      frequency_penalty: 0,
      seed: 0,
    });
  });

  test("the JSON of the answer, and of each event of a stream, is printed unchanged", async () => {
    const received = async (stream: boolean) => {
      const json: unknown[] = [];
      const options = { apiKey: undefined, write: () => {}, whenUnreachable: "" };
      const request = grpcless(requestProfile("inflight_batcher_llm"), question({ stream }));
      await send(request, { ...options, onJson: (one) => json.push(one) });
      return json;
    };
    expect(await received(false)).toEqual([
      { model_name: "ensemble", text_output: ANSWER, num_output_tokens: 4 },
    ]);
    expect(await received(true)).toEqual(
      PIECES.map((text_output) => ({ text_output, num_output_tokens: 1 })),
    );
  });

  test("an image in the gateway's message has its own media type", () => {
    const body = gatewayRequest("http://x", question({ images: [file("small.png")] }), false).body;
    expect(body).toContain(SAMPLE_IMAGE_DATA_URL);
  });

  describe("figures", () => {
    const figures = (request: PreparedRequest) =>
      send(request, { apiKey: GATEWAY_KEY, write: () => {}, whenUnreachable: "" });

    test("the figures of an answer without a stream are the server's counts", async () => {
      const counted = await figures(grpcless(requestProfile("inflight_batcher_llm"), question()));
      expect(counted).toMatchObject({
        promptTokens: null,
        completionTokens: 4,
        isEstimate: false,
        firstTextSeconds: null,
      });
      expect(await figures(gatewayRequest(servers.url, question(), true))).toMatchObject({
        promptTokens: 12,
        completionTokens: 4,
        finishReason: "length",
      });
    });

    test("the token counts of a stream's events are added up", async () => {
      const counted = await figures(
        grpcless(requestProfile("inflight_batcher_llm"), question({ stream: true })),
      );
      expect(counted.completionTokens).toBe(PIECES.length);
      expect(counted.firstTextSeconds).toBeLessThanOrEqual(counted.totalSeconds);
    });
  });

  describe("an error is one sentence", () => {
    const failing = (request: PreparedRequest, apiKey: string | undefined = GATEWAY_KEY) => {
      let written = "";
      const sending = send(request, {
        apiKey,
        write: (text) => {
          written += text;
        },
        whenUnreachable: "Start it.",
      });
      return sending.then(
        () => expect.fail("it was answered"),
        (error: Error) => ({ name: error.name, message: error.message, written }),
      );
    };
    const broken = requestProfile("inflight_batcher_llm", {
      tritonModel: "broken",
      streamingModel: "broken",
    });

    test("`ask` reports an error of the server", async () => {
      const { name, message } = await failing(grpcless(broken, question()));
      expect(name).toBe("UserError");
      expect(message).toContain("answered 400: unexpected inference input 'x'");
    });

    test("`ask` writes a stream's text before it reports the stream's error", async () => {
      const { name, message, written } = await failing(grpcless(broken, question({ stream: true })));
      expect([name, written]).toEqual(["UserError", "The"]);
      expect(message).toContain("out of KV cache");
    });

    test("`ask` with a wrong key names ENGINE_ROOM_API_KEY", async () => {
      const { message } = await failing(gatewayRequest(servers.url, question(), true), "wrong");
      expect(message).toContain("ENGINE_ROOM_API_KEY");
    });

    test("`ask` reports an unreachable server", async () => {
      const nowhere = tritonRequest(broken, { http: "http://127.0.0.1:9", grpc: "127.0.0.1:9" }, question());
      const { name, message } = await failing(nowhere);
      expect(name).toBe("UserError");
      expect(message).toMatch(/127\.0\.0\.1:9.*Start it\.$/);
    });

    test("`ask` refuses a file that is not an image and a missing file", () => {
      writeFileSync(join(folder, "text.png"), "hello");
      expect(() => file("text.png")).toThrow("is not a JPEG, PNG or WebP file");
      expect(() => file("missing.png")).toThrow(/no file .*missing\.png/);
    });
  });
});

const example = (name: string) => stackReference(name, join(projectRoot, "examples", `${name}.yaml`));

const url = { kind: "url", url: "http://pictures.example.org/merlion.png" } as const;

test.each([
  ["a text for the default stack's model", stackReference("local"), "smollm2", [], false, "gateway"],
  ["gRPC for the default stack's model", stackReference("local"), "smollm2", [], true, "triton"],
  ["a text for a completion model", example("llama-2-7b-tutorial"), "llama-2-7b-cli", [], false, "triton"],
  [
    "a picture's address that the gateway would refuse",
    example("llava-1.5"),
    "llava",
    [url],
    false,
    "triton",
  ],
  ["a text for a model that takes pictures", example("llava-1.5"), "llava", [], false, "gateway"],
] as const)("`ask` sends %s to the right endpoint", (_what, stack, model, images, isOverGrpc, endpoint) => {
  const plan = readPlan(stack);
  expect(usualEndpoint(plan, { model, images }, isOverGrpc)).toBe(endpoint);
  expect(usualEndpoint(plan, { model, images, pipeline: "bls" }, isOverGrpc)).toBe("triton");
});

const CLUSTER = { ...STACK, models: [{ name: "gpt", model: "gpt2-medium" }] };

describe("`ask --as` prints a request without a stack that is up", () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-ask-as-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  const printed = (stackFile: string, ...words: readonly string[]) => {
    vi.stubEnv("ENGINE_ROOM_RUNNER", "tryout");
    for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"])
      vi.stubEnv(name, undefined);
    return runCommand("ask", "--stack", "it", "--config-file", stackFile, "--text", "Hello?", ...words);
  };
  const connect = (parts: string) =>
    `\`npx engine-room connect --stack it${parts}\` opens the printed address`;

  const TUTORIAL = projectStackValues("examples/llama-2-7b-tutorial.yaml");

  test.each<readonly [string, Readonly<Record<string, unknown>>, string, string]>([
    ["on a Docker host", TUTORIAL, "8000/v2/models/", "The stack it is not up;"],
    ["in a cluster, for the gateway", CLUSTER, "8080/v1/chat/completions", connect("")],
    ["in a cluster", CLUSTER, "8000/v2/models/", connect(" triton")],
    ["on EKS, behind the encoders' ports", EKS_STACK, "8100/v2/models/", connect(" triton")],
    ["on EC2", EC2_STACK, "8000/v2/models/", connect(" triton")],
  ])("%s", async (_, values, address, note) => {
    const [{ name = "" } = {}] = values.models as readonly { readonly name?: string }[];
    const endpoint = address.includes("/v2/") ? "triton" : "gateway";
    const words = ["--model", name, "--endpoint", endpoint, "--as", "curl"];
    const { exitCode, stdout, stderr } = await printed(writtenStackFile(folder, values), ...words);
    expect(exitCode, stderr).toBe(0);
    expect(stdout.startsWith(`curl -sS http://127.0.0.1:${address}`), stdout).toBe(true);
    expect(stderr).toContain(note);
  });

  test("but not on this machine, whose ports are chosen at its start", async () => {
    const { exitCode, stdout, stderr } = await printed(
      join(projectRoot, "Pulumi.local.yaml"),
      "--as",
      "curl",
    );
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("The stack it is not up; `npx engine-room start --stack it` brings it up.");
  });
});

test("a model that the plan lacks is refused by name", () => {
  expect(() => asked(readPlan(stackReference("local")), "smollm")).toThrow("Did you mean smollm2?");
});

test.each([
  [{}, { temperature: 0 }],
  [{ seed: "7" }, { temperature: 1, seed: 7 }],
  [{ topK: "0" }, { temperature: 1, topK: 0 }],
  [
    { temperature: "0", seed: "7" },
    { temperature: 0, seed: 7 },
  ],
  [{ frequencyPenalty: "-.5" }, { temperature: 0, frequencyPenalty: -0.5 }],
])("the options %j sample with %j", (given, sampling) => {
  expect(askedNumbers({ maxTokens: "5", ...given })).toEqual({ maxTokens: 5, sampling });
});

test("every option that is not a number in its range is refused with its own sentence", () => {
  const given = {
    maxTokens: "0",
    temperature: "-1",
    topK: "1025",
    topP: "0",
    seed: "now",
    frequencyPenalty: "2.1",
    presencePenalty: "1e400",
    beamWidth: "1.5",
  };
  expect(() => askedNumbers(given)).toThrow(
    [
      '--max-tokens is "0"; it must be a whole number from 1 to 999999.',
      '--temperature is "-1"; it must be a number from 0 to 2.',
      '--top-k is "1025"; it must be a whole number from 0 to 1024.',
      '--top-p is "0"; it must be a number above 0, 1 at most.',
      '--seed is "now"; it must be a whole number from 0 to 9007199254740991.',
      '--frequency-penalty is "2.1"; it must be a number from -2 to 2.',
      '--presence-penalty is "1e400"; it must be a number from -2 to 2.',
      '--beam-width is "1.5"; it must be a whole number from 1 to 64.',
    ].join("\n"),
  );
});

const cpu = asked(readPlan(stackReference("local")), "smollm2");
const llava = asked(readPlan(example("llava-1.5")), "llava");
const blip2 = asked(readPlan(example("multimodal-guide")), "blip2");
const beams = { ...cpu, maxBeamWidth: 4 };
const servedByLlmApi = (release: string) => {
  const model = { name: "m", model: "llama-2-7b-chat", runtime: "llmapi" };
  const config = parseConfig(dockerModel(model, { release, hub: { tokenFile: "/etc/hub-token" } }));
  return asked(planStack(config).plan ?? expect.fail(), "m");
};
const greedy = servedByLlmApi("25.07");
const llmapi = servedByLlmApi("25.12");

test.each([
  ["beams on a CPU", cpu, { beamWidth: 4 }, "triton", ["smollm2 runs on CPUs, without beam search"]],
  ["more beams than the engine takes", beams, { beamWidth: 5 }, "triton", ["takes 4 at most"]],
  ["beams through the gateway", beams, { beamWidth: 4 }, "gateway", ["The gateway's API has no beam width"]],
  [
    "top-p of a model without that input",
    llava,
    { topP: 0.5 },
    "gateway",
    ["--top-p is 0.5, and this model"],
  ],
  ["a seed of the LLM API", llmapi, { temperature: 0, seed: 7 }, "triton", ["--seed is 7, and the LLM API"]],
  [
    "a penalty of the LLM API",
    llmapi,
    { temperature: 0, presencePenalty: 1 },
    "gateway",
    ["--presence-penalty is 1"],
  ],
  [
    "a temperature of the LLM API of 25.07",
    greedy,
    {},
    "triton",
    ["takes the most probable token each time"],
  ],
  ["no problem with a temperature of the LLM API", llmapi, {}, "triton", []],
  ["what there is no problem with", beams, { beamWidth: 4, topK: 5 }, "triton", []],
] as const)("before anything is sent a sentence reports that %s does not reach the model", (...row) => {
  const [, model, sampling, endpoint, sentences] = row;
  const question = { model: "smollm2", text: "", images: [], maxTokens: 1, stream: false };
  const look = () =>
    requirePassedOn(model, { ...question, sampling: { temperature: 1, ...sampling } }, endpoint);
  if (sentences.length === 0) look();
  for (const sentence of sentences) expect(look).toThrow(sentence);
});

test.each([
  ["a model on CPUs", cpu, "triton", "the repository of m does not have both an ensemble and a BLS"],
  ["the tutorials' LLaVA", llava, "triton", "the repository of m does not have both"],
  ["the gateway", blip2, "gateway", "--endpoint triton takes --pipeline"],
] as const)("a pipeline that can't be chosen is refused for %s", (_what, model, endpoint, sentence) => {
  const question = { model: "m", text: "", images: [], maxTokens: 1, stream: false };
  expect(() => requirePassedOn(model, { ...question, pipeline: "bls" }, endpoint)).toThrow(sentence);
});

test("a model with an ensemble and a BLS is called through either, with beams too", () => {
  const question = {
    model: "m",
    text: "",
    images: [],
    maxTokens: 1,
    stream: false,
    pipeline: "bls",
  } as const;
  const beams = { ...question, sampling: { temperature: 0, beamWidth: 4 } };
  requirePassedOn({ ...blip2, maxBeamWidth: 4 }, beams, "triton");
  const server = { http: "http://127.0.0.1:8000", grpc: "127.0.0.1:8001" };
  const profile = blip2.pipelines.bls ?? expect.fail();
  const { url: address, body } = tritonRequest({ ...profile, image: null }, server, beams);
  expect(address).toBe("http://127.0.0.1:8000/v2/models/tensorrt_llm_bls/generate");
  expect(JSON.parse(body)).toMatchObject({ beam_width: 4 });
});

test("a stream of several beams is refused", () => {
  const sampling = { temperature: 0, beamWidth: 2 };
  const question = { model: "m", text: "", images: [], maxTokens: 1, stream: true, sampling };
  expect(() => requirePassedOn(beams, question, "triton")).toThrow("--stream prints one text");
});

/** Shown text of an answer that arrives in these pieces. */
function shown(streamedText: "delta" | "cumulative", echo: string, texts: readonly string[]): string {
  const text = new AnswerText({ streamedText, echo });
  return [...texts.map((piece) => text.push(piece)), text.end()].join("");
}

const pieces = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 8 });

test("an answer's text is the same for any pieces, new or cumulative", () => {
  fc.assert(
    fc.property(pieces, (texts) => {
      const sums = texts.map((_, index) => texts.slice(0, index + 1).join(""));
      expect(shown("delta", "", texts)).toBe(texts.join(""));
      expect(shown("cumulative", "", sums)).toBe(texts.join(""));
    }),
  );
});

test("an echoed prompt is left out, but only at the answer's start", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), pieces, fc.nat(5), (prompt, texts, cut) => {
      const whole = [prompt.slice(0, cut), prompt.slice(cut), ...texts];
      expect(shown("delta", prompt, whole)).toBe(texts.join(""));
    }),
  );
  expect(shown("delta", "Question", ["Answer to the Question"])).toBe("Answer to the Question");
  expect(shown("delta", "Question", ["Quest"])).toBe("Quest");
});

test("half a character is held back until it is complete or the answer ends", () => {
  const text = new AnswerText({ streamedText: "cumulative", echo: "" });
  expect(text.push("tea \uFFFD")).toBe("tea ");
  expect(text.push("tea ☕")).toBe("☕");
  expect(shown("cumulative", "", ["tea \uFFFD"])).toBe("tea \uFFFD");
});
