import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type RequestProfile, requestProfile } from "@engine-room/triton-requests";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asCurl } from "../../../scripts/ask/as-curl.ts";
import { asPython } from "../../../scripts/ask/as-python.ts";
import {
  gatewayRequest,
  type PreparedRequest,
  tritonRequest,
} from "../../../scripts/ask/prepared-request.ts";
import { type AskedImage, askedImage, type Question } from "../../../scripts/ask/question.ts";
import { send } from "../../../scripts/ask/send.ts";
import { SAMPLE_IMAGE_DATA_URL } from "../../../scripts/smoke/sample-image.ts";
import { type FakeServers, GATEWAY_KEY, PIECES, startFakeServers } from "./fake-servers.ts";

const run = promisify(execFile);
const ANSWER = PIECES.join("");
const folder = mkdtempSync(join(tmpdir(), "engine-room-ask-"));
const png = Buffer.from(SAMPLE_IMAGE_DATA_URL.slice(SAMPLE_IMAGE_DATA_URL.indexOf(",") + 1), "base64");
/** Larger in base64 than an argument of a command may be (128 KiB). */
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

/** Hard to quote in every language at once. */
const HARD_TEXT = 'It\'s "50 %" of $HOME\\n `id` — {"a": \'☕\'}\nand a \t tab, !history, \u2028 separator';

const question = (changes: Partial<Question> = {}): Question => ({
  model: "m",
  text: "What is the capital of France?",
  images: [],
  maxTokens: 16,
  stream: false,
  ...changes,
});

const file = (path: string): AskedImage => askedImage(path, folder);

const multimodal = requestProfile("multimodal", {
  image: {
    accepts: ["httpUrl", "dataUrl"],
    maxImages: 4,
    isRequired: false,
    takesVideo: false,
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

async function asked(work: () => Promise<unknown>) {
  const before = servers.asked.length;
  await work();
  expect(servers.asked).toHaveLength(before + 1);
  return servers.asked[before];
}

const environment = { ...process.env, ENGINE_ROOM_API_KEY: GATEWAY_KEY };
const inShell = (shell: string, line: string) => run(shell, ["-c", line], { cwd: folder, env: environment });
const inPython = (program: string) => run("python3", ["-c", program], { cwd: folder, env: environment });

describe("what is printed does what is sent", () => {
  test.each(Object.keys(requests))("%s", async (name) => {
    const [request, images] = requests[name]?.() ?? expect.fail();
    const printed = { curl: asCurl(request, images), python: asPython(request, images) };
    let answer = "";
    const sent = await asked(() =>
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
      await asked(async () => {
        curlOutput = (await inShell("bash", printed.curl)).stdout;
      }),
    ).toEqual(sent);
    expect(curlOutput).toContain(request.stream ? PIECES[0] : ANSWER);

    let pythonOutput = "";
    expect(
      await asked(async () => {
        pythonOutput = (await inPython(printed.python)).stdout;
      }),
    ).toEqual(sent);
    expect(pythonOutput).toBe(`${ANSWER}\n`);
    for (const text of Object.values(printed)) expect(text).not.toContain(GATEWAY_KEY);
  });

  test("a program can be pasted into Python's own prompt", async () => {
    const images = [file("small.png")];
    const program = asPython(grpcless(multimodal, question({ images, stream: true })), images);
    const sent = await asked(async () => {
      const prompt = run("python3", ["-i", "-q"], { cwd: folder });
      prompt.child.stdin?.end(`${program}\n`);
      const { stdout } = await prompt;
      expect(stdout).toContain(ANSWER);
    });
    expect(JSON.stringify(sent?.body)).toContain(png.toString("base64"));
  });
});

describe("what is sent", () => {
  test("has the prompt of the model around a question, once", () => {
    const images = [{ kind: "url", url }] as const;
    const body = (text: string) =>
      JSON.parse(grpcless(llavaProfile, question({ images, text })).body) as { prompt: string };
    const { prompt } = body("What city is this?");
    expect(prompt.match(/<image>/g)).toHaveLength(1);
    expect(prompt).toContain("What city is this?");
    expect(body(prompt).prompt).toBe(prompt);
  });

  test("a picture in the gateway's message has its own media type", () => {
    const body = gatewayRequest("http://x", question({ images: [file("small.png")] }), false).body;
    expect(body).toContain(SAMPLE_IMAGE_DATA_URL);
  });
});

describe("figures", () => {
  const figures = (request: PreparedRequest) =>
    send(request, { apiKey: GATEWAY_KEY, write: () => {}, whenUnreachable: "" });

  test("of whole answers are the server's counts", async () => {
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

  test("of streams add up where each event counts its own", async () => {
    const counted = await figures(
      grpcless(requestProfile("inflight_batcher_llm"), question({ stream: true })),
    );
    expect(counted.completionTokens).toBe(PIECES.length);
    expect(counted.firstTextSeconds).toBeLessThanOrEqual(counted.totalSeconds);
  });
});

describe("what goes wrong is one sentence", () => {
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
  const broken = requestProfile("inflight_batcher_llm", { tritonModel: "broken", streamingModel: "broken" });

  test("an error of the server", async () => {
    const { name, message } = await failing(grpcless(broken, question()));
    expect(name).toBe("UserError");
    expect(message).toContain("answered 400: unexpected inference input 'x'");
  });

  test("an error in the middle of a stream, after the text before it", async () => {
    const { name, message, written } = await failing(grpcless(broken, question({ stream: true })));
    expect([name, written]).toEqual(["UserError", "The"]);
    expect(message).toContain("out of KV cache");
  });

  test("no key", async () => {
    const { message } = await failing(gatewayRequest(servers.url, question(), true), "wrong");
    expect(message).toContain("ENGINE_ROOM_API_KEY");
  });

  test("nobody there", async () => {
    const nowhere = tritonRequest(broken, { http: "http://127.0.0.1:9", grpc: "127.0.0.1:9" }, question());
    const { name, message } = await failing(nowhere);
    expect(name).toBe("UserError");
    expect(message).toMatch(/127\.0\.0\.1:9.*Start it\.$/);
  });

  test("a file that is no picture, and one that is not there", () => {
    writeFileSync(join(folder, "text.png"), "hello");
    expect(() => file("text.png")).toThrow("does not begin like a JPEG, PNG or WebP file");
    expect(() => file("missing.png")).toThrow(/no file .*missing\.png/);
  });
});
