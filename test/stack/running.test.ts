/**
 * Responses of a running stack to official clients of OpenAI's API and of Triton, to questions about its documents, and to
 * the commands that only read it. All tests use one stack.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { MongoClient } from "mongodb";
import OpenAI from "openai";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { StackOutputs } from "../../infra/outputs.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { isAnswered, sampleEntries, sampleManifest } from "../../scripts/seed/samples.ts";
import { eventually, stackConfig, TestStack } from "../harness/stack.ts";

const WRITES = 80;
const WRITERS = 4;

const key = "test-key";
const authorization = { authorization: `Bearer ${key}` };
const sha256 = createHash("sha256").update(key).digest("hex");
const stack = new TestStack("running", stackConfig({ gateway: { apiKeys: [{ name: "test", sha256 }] } }), {
  ENGINE_ROOM_API_KEY: key,
});
/** Output of the `npm start` that completed the stack. */
let started: string;
let outputs: StackOutputs;
let client: OpenAI;
/** The bundled photograph of a cat, which the bundled question is about. */
let cat: Buffer;

const capital = [{ role: "user" as const, content: "What is the capital of France?" }];
const { question, pictures } = sampleManifest();

interface Matches {
  readonly matches: readonly { readonly id: string; readonly image: string | null }[];
}

interface Answer {
  readonly answer: string;
  readonly sources: readonly { readonly id: string }[];
  readonly imageUsed: boolean;
}

beforeAll(async () => {
  // The first load of samples is killed in its middle, and the next start completes it.
  const killed = stack.spawn("start");
  const closed = once(killed, "close");
  createInterface({ input: killed.stderr as NodeJS.ReadableStream }).on("line", (line) => {
    if (/\d+ of \d+ documents/.test(line)) killed.kill("SIGKILL");
  });
  await closed;
  expect(killed.signalCode).toBe("SIGKILL");
  started = (await stack.succeed("start")).stdout;
  outputs = stack.outputs();
  client = new OpenAI({ baseURL: `${outputs.endpoints.gateway}/v1`, apiKey: key, maxRetries: 0 });
  const entries = await sampleEntries({ report: () => {}, signal: new AbortController().signal });
  cat = readFileSync(entries.find(({ id }) => id === question.picture)?.imageFile ?? "");
});
afterAll(() => stack.dispose());

// Tests that change the stack, or kill a part of it, come last.
describe("a running stack", { shuffle: false }, () => {
  test("the models are the language model and the text encoder", async () => {
    const ids = (await client.models.list()).data.map((model) => model.id).sort();
    expect(ids).toEqual(["all-MiniLM-L6-v2", "smollm2"]);
  });

  test("a greedy chat has the right answer, and its usage counts its tokens", async () => {
    const answer = await client.chat.completions.create({
      model: "smollm2",
      messages: capital,
      temperature: 0,
      max_tokens: 32,
    });
    expect(answer.choices[0]?.message.content).toContain("Paris");
    expect(answer.choices[0]?.finish_reason).toBe("stop");
    expect(answer.usage?.completion_tokens).toBeGreaterThan(3);
    expect(answer.usage?.total_tokens).toBe(
      (answer.usage?.prompt_tokens ?? 0) + (answer.usage?.completion_tokens ?? 0),
    );
  });

  test("a streamed chat has the same text as a chat without a stream", async () => {
    const request = { model: "smollm2", messages: capital, temperature: 0, max_tokens: 24 };
    const whole = await client.chat.completions.create(request);
    const parts: string[] = [];
    let usage = false;
    for await (const chunk of await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })) {
      parts.push(chunk.choices[0]?.delta.content ?? "");
      usage ||= chunk.usage?.completion_tokens !== undefined;
    }
    expect(parts.filter((part) => part !== "").length).toBeGreaterThan(3);
    expect(parts.join("")).toBe(whole.choices[0]?.message.content);
    expect(usage).toBe(true);
  });

  test("a completion continues the prompt and ends at its limit", async () => {
    const answer = await client.completions.create({
      model: "smollm2",
      prompt: "The capital of France is",
      temperature: 0,
      max_tokens: 6,
    });
    expect(answer.choices[0]?.text).toContain("Paris");
    expect(answer.choices[0]?.finish_reason).toBe("length");
  });

  test("embeddings of similar meanings are close, and embeddings of a batch equal single embeddings", async () => {
    const input = ["a cat on a sofa", "a kitten on a couch", "quarterly tax report"];
    const { data, usage } = await client.embeddings.create({ model: "all-MiniLM-L6-v2", input });
    const dot = (a: number, b: number) =>
      data[a]?.embedding.reduce((sum, x, i) => sum + x * (data[b]?.embedding[i] ?? 0), 0) ?? 0;
    expect(dot(0, 1)).toBeGreaterThan(0.7);
    expect(dot(0, 2)).toBeLessThan(0.3);
    expect(usage.prompt_tokens).toBeGreaterThan(10);
    const alone = await client.embeddings.create({ model: "all-MiniLM-L6-v2", input: input[0] ?? "" });
    const differences = (alone.data[0]?.embedding ?? []).map((x, i) =>
      Math.abs(x - (data[0]?.embedding[i] ?? 0)),
    );
    expect(differences).toHaveLength(384);
    expect(Math.max(...differences)).toBeLessThan(1e-5);
  });

  test("each of four chats at once gets its own answer", async () => {
    const animals = ["cat", "dog", "cow", "hen"];
    const ask = async (animal: string) => {
      const messages = [{ role: "user" as const, content: `What is a ${animal}? Answer in one sentence.` }];
      const answer = await client.chat.completions.create({
        model: "smollm2",
        messages,
        temperature: 0,
        max_tokens: 8,
      });
      return answer.choices[0]?.message.content?.toLowerCase() ?? "";
    };
    const together = await Promise.all(animals.map(ask));
    // Sums in shared batches round differently, so texts may differ in a word, but not in their topic.
    for (const [index, text] of together.entries()) expect(text).toContain(animals[index]);
  });

  describe("bad requests through the official client", () => {
    const chat = (changes: object) =>
      client.chat.completions.create({
        model: "smollm2",
        messages: capital,
        ...changes,
      } as OpenAI.ChatCompletionCreateParamsNonStreaming);

    test("a request for an unknown model is answered with 404", async () => {
      await expect(chat({ model: "gpt-5" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    });

    test("a request with a wrong key is answered with 401", async () => {
      const stranger = new OpenAI({
        baseURL: `${outputs.endpoints.gateway}/v1`,
        apiKey: "wrong",
        maxRetries: 0,
      });
      await expect(stranger.models.list()).rejects.toMatchObject({ status: 401 });
    });

    test("a request for 10^9 tokens is answered with 400 and the limit", async () => {
      await expect(chat({ max_tokens: 1_000_000_000 })).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining("256"),
      });
    });

    test("a parameter of a wrong type is answered with 400 and its name", async () => {
      await expect(chat({ messages: "hello" })).rejects.toMatchObject({ status: 400, param: "messages" });
      await expect(chat({ temperature: "hot" })).rejects.toMatchObject({ status: 400, param: "temperature" });
    });

    test("an empty input is answered with 400", async () => {
      await expect(client.embeddings.create({ model: "all-MiniLM-L6-v2", input: [] })).rejects.toMatchObject({
        status: 400,
      });
      await expect(chat({ messages: [] })).rejects.toMatchObject({ status: 400 });
    });

    test("a body of 50 MB is answered with 413", async () => {
      const input = "x".repeat(50_000_000);
      await expect(client.embeddings.create({ model: "all-MiniLM-L6-v2", input })).rejects.toMatchObject({
        status: 413,
      });
    });

    test("broken JSON is answered with 400", async () => {
      const response = await fetch(`${outputs.endpoints.gateway}/v1/chat/completions`, {
        method: "POST",
        headers: { ...authorization, "content-type": "application/json" },
        body: '{"model": ',
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error" } });
    });
  });

  test.each(["openai_client.py", "triton_client.py"])(
    "the checks of %s by an official Python client hold",
    (script) => {
      const python = process.env.ENGINE_ROOM_TEST_PYTHON;
      if (python === undefined) throw new Error("Run it by `npm test -- stack`, which sets Python up.");
      const run = spawnSync(python, [join(projectRoot, "test/stack/clients", script)], {
        encoding: "utf8",
        timeout: 120_000,
        env: {
          ...process.env,
          OUTPUTS: JSON.stringify(outputs),
          API_KEY: key,
          STACK_DIRECTORY: stack.directory,
        },
      });
      expect(`${run.stdout}${run.stderr}`).toMatch(/^all checks hold$/m);
      expect(run.status).toBe(0);
    },
  );

  test("the outputs are those of the contract and no others", async () => {
    expect(Object.keys(outputs).sort()).toEqual([
      "cost",
      "endpoints",
      "engineStore",
      "models",
      "notes",
      "release",
    ]);
    expect(outputs.models).toEqual([
      {
        name: "smollm2",
        model: "smollm2-135m-instruct",
        release: outputs.release,
        engineKey: null,
        nodePool: "host",
      },
    ]);
    expect(outputs.endpoints.gateway).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(outputs.cost).toEqual({
      hourlyUsd: 0,
      monthlyUsd: 0,
      withoutPrice: [],
      buildUsd: 0,
      pricesAsOf: null,
    });
    expect(outputs.notes.join()).toContain("efficientnet-lite0");
  });

  describe.each(["gateway", "triton"])("ask --endpoint %s", (endpoint) => {
    /** Output of `ask --json` for a question, or a text to continue, that has many probable answers. */
    const asked = async (...options: string[]) => {
      const question = options.includes("--text") ? [] : ["--text", "Tell me a story about a cat."];
      const words = ["--endpoint", endpoint, "--max-tokens", "16", "--json"];
      const { stdout } = await stack.succeed("ask", ...question, ...words, ...options);
      return JSON.parse(stdout) as {
        readonly text: string;
        readonly request: { readonly url: string; readonly body: Record<string, unknown> };
        readonly answer: Record<string, unknown>;
      };
    };

    test("the same seed gives the same text, and other seeds give others", async () => {
      const texts: string[] = [];
      for (const seed of ["1", "1", "2", "3"])
        texts.push(
          (await asked("--seed", seed, "--temperature", "1.5", "--top-k", "200", "--top-p", "0.99")).text,
        );
      expect(texts[1]).toBe(texts[0]);
      expect(new Set(texts).size).toBeGreaterThan(1);
    });

    test("different seeds give different texts without other options", async () => {
      const texts = new Set<string>();
      for (const seed of ["1", "2", "3"]) texts.add((await asked("--seed", seed)).text);
      expect(texts.size).toBeGreaterThan(1);
    });

    test("temperature 0 is greedy: it is the default, ignores a seed, and equals sampling from one token", async () => {
      const greedy = await asked();
      expect((await asked("--temperature", "0", "--seed", "5")).text).toBe(greedy.text);
      expect((await asked("--top-k", "1", "--seed", "5")).text).toBe(greedy.text);
      expect(greedy.request.url).toContain(endpoint === "gateway" ? "/v1/chat/completions" : "/v2/models/");
      expect(JSON.stringify(greedy.answer)).toContain(JSON.stringify(greedy.text).slice(1, -1));
    });

    test("a penalty changes a greedy text that repeats itself", async () => {
      const repeat = (...options: string[]) =>
        asked("--text", "Say cat cat cat cat cat cat cat cat.", ...options);
      const { text } = await repeat();
      expect((await repeat("--frequency-penalty", "2")).text).not.toBe(text);
      expect((await repeat("--presence-penalty", "2")).text).not.toBe(text);
    });
  });

  test("a sweep through the gateway measures each load, writes its files, and names the largest load within the limits", async () => {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-sweep-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = (name: string) => join(folder, name);
    const limits = ["--ttft-ms", "600000", "--itl-ms", "600000"];
    const load = ["--concurrency", "1,2", "--seconds", "1", "--input-tokens", "20", "--output-tokens", "8"];
    const files = ["--out", file("s.json"), "--csv", file("s.csv"), "--svg", file("s.svg")];
    const { stdout } = await stack.succeed("bench", "sweep", ...limits, ...load, ...files);
    expect(stdout).toMatch(/The largest load that keeps the limits is a concurrency of 2,/);
    const { sweep } = JSON.parse(readFileSync(file("s.json"), "utf8"));
    expect(sweep).toMatchObject({
      model: "smollm2",
      largest: 2,
      limits: { ttftMs: 600_000, itlMs: 600_000 },
    });
    for (const { failed, requests, promptTokens, outputTokens, ttftMs, itlMs } of sweep.rows) {
      expect([failed, requests > 0, promptTokens > 15, outputTokens > 1]).toEqual([0, true, true, true]);
      expect(outputTokens).toBeLessThanOrEqual(8);
      expect(Math.min(ttftMs.p50, itlMs.p50)).toBeGreaterThan(0);
    }
    expect(readFileSync(file("s.csv"), "utf8").trim().split("\n")).toHaveLength(3);
    expect(readFileSync(file("s.svg"), "utf8")).toContain("concurrency 2</text>");
    const broken = await stack.run("bench", "sweep", "--itl-ms", "0.001", ...load);
    expect(broken.code).toBe(1);
    expect(broken.stdout).toMatch(
      /No load keeps the limits\. At a concurrency of 1, the p95 of the inter-token latency is/,
    );
    const tooLong = await stack.run("bench", "sweep", "--itl-ms", "9", "--input-tokens", "600");
    expect(tooLong.stderr).toContain("--input-tokens is 600, and smollm2 takes 512 at most.");
  });

  test("logs shows the log of a service, and lists the services for an unknown name", async () => {
    expect((await stack.succeed("logs", "encoders", "--lines", "1000")).stdout).toContain(
      "Started GRPCInferenceService",
    );
    expect((await stack.succeed("logs", "gateway", "--lines", "1")).stdout.trim().split("\n")).toHaveLength(
      1,
    );
    const all = (await stack.succeed("logs", "--lines", "2")).stdout.trim().split("\n");
    expect(all.map((line) => line.split(/ {2,}/)[1]).filter((name) => name === "vector")).toHaveLength(2);
    const times = all.map((line) => line.slice(0, 20));
    expect(times).toEqual(times.toSorted());
    const [raw = ""] = (await stack.succeed("logs", "gateway", "--lines", "1", "--json")).stdout.split("\n");
    expect(JSON.parse(raw)).toMatchObject({ service: "gateway", level: 30 });
    const unknown = await stack.run("logs", "redis");
    expect([unknown.code, unknown.stderr.split("\n")[0]]).toEqual([
      2,
      'Unknown service "redis". Choose from encoders, gateway, mongo, smollm2, vector.',
    ]);
    expect((await stack.run("logs", "gateway", "--lines", "many")).code).toBe(2);
  });

  test("the release in the outputs is the version of Triton that serves", async () => {
    const { release, endpoints } = outputs;
    const { version } = (await (await fetch(`${endpoints.encoders?.http}/v2`)).json()) as { version: string };
    expect(release).toContain(`Triton ${version}`);
  });

  test("verify passes all checks of a CPU, skips the rest with the reason, and writes no proof file", async () => {
    const out = join(tmpdir(), `engine-room-verify-${process.pid}.json`);
    const { code, stdout, stderr } = await stack.run("verify", "--out", out);
    expect(stderr).toBe("");
    const lines = stdout.split("\n").flatMap((line) => {
      const [, sign, subject, title] = /^(ok|FAILED|skipped) +(\S+) +(.*?) {2,}\d+ ms/.exec(line) ?? [];
      return sign === undefined ? [] : [[`${subject}: ${title}`, sign]];
    });
    expect(Object.fromEntries(lines)).toEqual({
      "smollm2: golden question at Triton": "ok",
      "smollm2: golden question at the gateway": "ok",
      "smollm2: streamed answer equals the whole one": "ok",
      "smollm2: asked at once equals asked one by one": "ok",
      "smollm2: names of metrics": "ok",
      "smollm2: seconds of the start": "skipped",
      "encoders: published similarities of texts": "ok",
      "encoders: captions find their pictures": "skipped",
      "encoders: a batch equals single requests": "ok",
      "encoders: llava_ensemble equals its encoders": "ok",
      "encoders: names of metrics": "ok",
      "encoders: seconds of the start": "skipped",
    });
    expect(stdout).toContain("no record of a GPU is written");
    expect(stdout).toContain("Verified: 9 passed, 0 failed, 3 skipped.");
    expect(stdout).toContain("No proof file was written: the stack runs on a CPU.");
    expect(existsSync(out)).toBe(false);
    expect(code).toBe(0);
  });

  async function post<T>(path: string, body: FormData | object): Promise<T> {
    const isForm = body instanceof FormData;
    const response = await fetch(`${outputs.endpoints.gateway}${path}`, {
      method: "POST",
      headers: isForm ? authorization : { ...authorization, "content-type": "application/json" },
      body: isForm ? body : JSON.stringify(body),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return JSON.parse(text) as T;
  }

  /** Runs commands in their own folder; curl sends the stack's API key. @throws Error with their output when one fails. */
  function inBash(commands: string, environment: NodeJS.ProcessEnv = {}) {
    const folder = mkdtempSync(join(tmpdir(), "engine-room-commands-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    if (Object.keys(environment).length === 0)
      writeFileSync(join(folder, ".curlrc"), `header = "authorization: Bearer ${key}"\n`);
    const env = { ...process.env, CURL_HOME: folder, ...environment };
    const run = spawnSync("bash", ["-e"], {
      input: commands,
      cwd: folder,
      env,
      encoding: "utf8",
      timeout: 120_000,
    });
    if (run.status !== 0)
      throw new Error(`${commands}\nended with ${run.status}: ${run.stdout}${run.stderr}`);
    return run;
  }

  function form(fields: Record<string, string>, image: Buffer): FormData {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.set(name, value);
    data.set("image", new Blob([new Uint8Array(image)]), "picture.jpg");
    return data;
  }

  test("the sample pictures are loaded once, and not again after they are deleted", async () => {
    const list = async () =>
      (await (
        await fetch(`${outputs.endpoints.gateway}/v1/documents?limit=500`, { headers: authorization })
      ).json()) as {
        documents: { id: string }[];
      };
    const ids = pictures.map(({ id }) => id).sort();
    expect((await list()).documents.map(({ id }) => id)).toEqual(ids);
    expect((await stack.succeed("seed")).stdout).toContain(`${ids.length} unchanged, 0 failed`);
    for (const id of ids)
      await fetch(`${outputs.endpoints.gateway}/v1/documents/${id}`, {
        method: "DELETE",
        headers: authorization,
      });
    await stack.succeed("start");
    expect((await list()).documents).toEqual([]);
    expect((await stack.succeed("smoke")).stdout).toMatch(/, 1 skipped\.\n$/);
    expect((await stack.succeed("seed")).stdout).toContain(`${ids.length} created`);
  });

  test('the words "a cat" find the cat', async () => {
    const { matches } = await post<Matches>("/v1/match", { text: "a cat" });
    expect(matches[0]?.id).toBe(question.picture);
  });

  test("the cat's own picture, cropped by a tenth, scaled and encoded again, finds the cat", async () => {
    const { width, height } = await sharp(cat).metadata();
    const changed = await sharp(cat)
      .extract({
        left: Math.round(width * 0.05),
        top: Math.round(height * 0.05),
        width: Math.round(width * 0.9),
        height: Math.round(height * 0.9),
      })
      .resize({ width: Math.round(width * 0.6) })
      .jpeg({ quality: 70 })
      .toBuffer();
    const { matches } = await post<Matches>("/v1/match", form({}, changed));
    expect(matches[0]?.id).toBe(question.picture);
    const picture = await fetch(`${outputs.endpoints.gateway}${matches[0]?.image}`, {
      headers: authorization,
    });
    expect(picture.headers.get("content-type")).toBe("image/jpeg");
  });

  test("the answer names the animal of the bundled question, with its document first among the sources", async () => {
    const stored = await fetch(`${outputs.endpoints.gateway}/v1/documents/${question.picture}/image`, {
      headers: authorization,
    });
    // The original, and the gateway's stored picture, which the page and the README send.
    for (const picture of [cat, Buffer.from(await stored.arrayBuffer())]) {
      const answer = await post<Answer>("/v1/answer", form({ question: question.text }, picture));
      expect(answer.answer).toSatisfy((text: string) => isAnswered(question, text));
      expect(answer.sources[0]?.id).toBe(question.picture);
      // The language model of this platform reads no pictures, and the answer says so.
      expect(answer.imageUsed).toBe(false);
    }
  });

  test("the request that `npm start` prints last is answered", () => {
    const [request = ""] = /^ {2}curl [\s\S]*?'$/m.exec(started) ?? [];
    const { stdout } = inBash(request, { ENGINE_ROOM_API_KEY: key });
    expect(JSON.parse(stdout)).toMatchObject({
      choices: [{ message: { content: expect.stringMatching(/Paris/) } }],
    });
  });

  test("README.md ends its output of `npm start` as `npm start` does, except addresses and times", () => {
    const readme = readFileSync(join(projectRoot, "README.md"), "utf8");
    const [, shown = ""] = /^\$ npm start\n([\s\S]*?)^```$/m.exec(readme) ?? [];
    const ofStack = ` --stack ${stack.name} --config-file ${stack.configFile}`;
    const printed = started.replaceAll(ofStack, "").replace(/^ +-H "authorization: .*\n/m, "");
    const end = (text: string) =>
      text
        .slice(text.indexOf("Up in "))
        .replaceAll(/\d+(?:\.\d+)? s\b|\d{5}/g, "N")
        .replaceAll(/ +/g, " ")
        .trim();
    expect(end(shown)).toBe(end(printed));
  });

  test("the commands of docs/platforms/local.md print what the page shows", () => {
    const page = readFileSync(join(projectRoot, "docs/platforms/local.md"), "utf8");
    const [block = ""] = /^\$ GATEWAY=[\s\S]*?(?=^```$)/m.exec(page) ?? [];
    const commands = block
      .split("\n")
      .filter((line) => /^\$ | {4}-d /.test(line))
      .map((line) => line.replace(/^\$ /, ""));
    expect(commands.length).toBeGreaterThan(5);
    const address = outputs.endpoints.gateway ?? "";
    const { stdout } = inBash(commands.join("\n").replace("http://127.0.0.1:PORT", address));
    const [answer = "", match = "", written = ""] = stdout.replaceAll("}{", "}\n{").trim().split("\n");
    // The page omits parts.
    const [, ...parts] = /^\{"sources.*$/m.exec(block)?.[0].split("…") ?? [];
    expect(parts.length).toBeGreaterThan(2);
    for (const part of parts.slice(1)) expect(answer).toContain(part.replace(/^,|,$/g, ""));
    expect(JSON.parse(match).matches[0]).toMatchObject({ id: question.picture });
    expect(JSON.parse(written)).toEqual({ documents: [{ id: "tank", status: "created" }] });
  });

  test("the Python program of docs/platforms/local.md prints an answer", () => {
    const python = process.env.ENGINE_ROOM_TEST_PYTHON;
    if (python === undefined) throw new Error("Run it by `npm test -- stack`, which sets Python up.");
    const page = readFileSync(join(projectRoot, "docs/platforms/local.md"), "utf8");
    const [, program = ""] = /^```python\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const input = program
      .replace("http://127.0.0.1:PORT", outputs.endpoints.gateway ?? "")
      .replace('"unused"', JSON.stringify(key));
    const { status, stdout, stderr } = spawnSync(python, ["-"], {
      input,
      encoding: "utf8",
      timeout: 120_000,
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(/Paris/);
  });

  test("a match by `describe` is refused with the name of the model that it needs", async () => {
    const response = await fetch(`${outputs.endpoints.gateway}/v1/match`, {
      method: "POST",
      headers: authorization,
      body: form({ via: "describe" }, cat),
    });
    expect([response.status, await response.text()]).toEqual([409, expect.stringContaining("llava")]);
  });

  test("smoke gets a response from every endpoint", async () => {
    const { stdout } = await stack.succeed("smoke");
    expect(stdout).not.toMatch(/FAILED|skipped/);
    expect(stdout).toMatch(/(\d+) of \1 checks passed/);
  });

  test("a request to a killed Triton is answered with 503 and Retry-After, and the gateway recovers by itself", async () => {
    stack.kill((await stack.pids()).smollm2);
    const refused = await eventually(async () => {
      const response = await fetch(`${outputs.endpoints.gateway}/v1/completions`, {
        method: "POST",
        headers: { ...authorization, "content-type": "application/json" },
        body: JSON.stringify({ model: "smollm2", prompt: "Hi", max_tokens: 1 }),
      });
      return response.status === 503 ? response : undefined;
    });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    await eventually(
      async () => (await client.completions.create({ model: "smollm2", prompt: "Hi", max_tokens: 1 })).id,
    );
  });

  test("both databases have every acknowledged document after both were killed under writes", async () => {
    const { mongo, vector } = await stack.pids();
    const acknowledged: string[] = [];
    let next = 0;
    const write = async () => {
      for (let index = next++; index < WRITES; index = next++) {
        if (index === WRITES / 4) stack.kill(vector);
        if (index === WRITES / 2) stack.kill(mongo);
        const id = `note-${index}`;
        const response = await fetch(`${outputs.endpoints.gateway}/v1/documents`, {
          method: "POST",
          body: JSON.stringify({ id, text: `Note number ${index}.` }),
          headers: { ...authorization, "content-type": "application/json" },
        });
        await response.arrayBuffer();
        if (response.status === 200) acknowledged.push(id);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, write));
    expect(acknowledged.length).toBeGreaterThan(0);
    // The gateway creates missing vectors by itself, seconds after a failure.
    await expect
      .poll(
        async () => {
          const [documents, vectors] = [await documentIds(), await vectorIds()];
          const missing = acknowledged.filter((id) => !documents.includes(id));
          return {
            missing,
            unfinished: documents.filter((id) => !vectors.includes(id)),
            orphans: vectors.filter((id) => !documents.includes(id)),
          };
        },
        { timeout: 120_000, interval: 100 },
      )
      .toEqual({ missing: [], unfinished: [], orphans: [] });
  });

  async function documentIds(): Promise<string[]> {
    const client = new MongoClient(outputs.endpoints.mongo ?? "", { serverSelectionTimeoutMS: 5000 });
    try {
      const documents = await client
        .db("engine_room")
        .collection<{ _id: string }>("documents")
        .find({}, { projection: { _id: 1 } })
        .toArray();
      return documents.map(({ _id }) => _id).sort();
    } catch {
      return ["(unavailable)"];
    } finally {
      await client.close();
    }
  }

  async function vectorIds(): Promise<string[]> {
    const response = await fetch(`${outputs.endpoints.vector}/collections/documents/points/scroll`, {
      method: "POST",
      body: JSON.stringify({ limit: 1000, with_payload: true }),
      headers: { "content-type": "application/json" },
    }).catch(() => undefined);
    if (response === undefined || !response.ok) return ["(unavailable)"];
    const { result } = (await response.json()) as {
      result: { points: { payload: { documentId: string } }[] };
    };
    return result.points.map(({ payload }) => payload.documentId).sort();
  }
});
