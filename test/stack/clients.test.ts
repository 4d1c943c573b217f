import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StackOutputs } from "../../infra/outputs.ts";
import { projectRoot } from "../../scripts/program/stack-file.ts";
import { eventually, stackConfig, TestStack } from "../harness/stack.ts";

const key = "test-key";
const sha256 = createHash("sha256").update(key).digest("hex");
const stack = new TestStack(
  "clients",
  stackConfig({ gateway: { apiKeys: [{ name: "test", sha256 }], limits: { bodyMiB: 1 } } }),
);
let outputs: StackOutputs;
let client: OpenAI;

beforeAll(async () => {
  await stack.succeed("up");
  outputs = await stack.outputs();
  client = new OpenAI({ baseURL: `${outputs.endpoints.gateway}/v1`, apiKey: key, maxRetries: 0 });
});
afterAll(() => stack.dispose());

const question = [{ role: "user" as const, content: "What is the capital of France?" }];

describe("the official openai client for Node", () => {
  test("lists the models", async () => {
    const ids = (await client.models.list()).data.map((model) => model.id).sort();
    expect(ids).toEqual(["all-MiniLM-L6-v2", "smollm2"]);
  });

  test("chats, greedily and with a right answer", async () => {
    const answer = await client.chat.completions.create({
      model: "smollm2",
      messages: question,
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

  test("streams the same text as it gets at once", async () => {
    const request = { model: "smollm2", messages: question, temperature: 0, max_tokens: 24 };
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

  test("completes", async () => {
    const answer = await client.completions.create({
      model: "smollm2",
      prompt: "The capital of France is",
      temperature: 0,
      max_tokens: 6,
    });
    expect(answer.choices[0]?.text).toContain("Paris");
    expect(answer.choices[0]?.finish_reason).toBe("length");
  });

  test("embeds: near meanings are near, and the batch changes nothing", async () => {
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

  test("has sixteen chats at once, and each of them is answered", async () => {
    const animals = ["cat", "dog", "cow", "hen"];
    const ask = async (animal: string) => {
      const messages = [{ role: "user" as const, content: `What is a ${animal}? Answer in one sentence.` }];
      const answer = await client.chat.completions.create({
        model: "smollm2",
        messages,
        temperature: 0,
        max_tokens: 16,
      });
      return answer.choices[0]?.message.content?.toLowerCase() ?? "";
    };
    const asked = Array.from({ length: 16 }, (_, index) => animals[index % animals.length] ?? "");
    const together = await Promise.all(asked.map(ask));
    // Sums in shared batches round differently, so texts may differ in a word; what they are about may not.
    for (const [index, text] of together.entries()) expect(text).toContain(asked[index]);
  });
});

describe("bad requests through the official client", () => {
  const chat = (changes: object) =>
    client.chat.completions.create({
      model: "smollm2",
      messages: question,
      ...changes,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming);

  test("an unknown model is 404", async () => {
    await expect(chat({ model: "gpt-5" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });
  test("a wrong key is 401", async () => {
    const stranger = new OpenAI({
      baseURL: `${outputs.endpoints.gateway}/v1`,
      apiKey: "wrong",
      maxRetries: 0,
    });
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401 });
  });
  test("10^9 tokens are 400, with the limit in the message", async () => {
    await expect(chat({ max_tokens: 1_000_000_000 })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("256"),
    });
  });
  test("wrong types are 400 and name the parameter", async () => {
    await expect(chat({ messages: "hello" })).rejects.toMatchObject({ status: 400, param: "messages" });
    await expect(chat({ temperature: "hot" })).rejects.toMatchObject({ status: 400, param: "temperature" });
  });
  test("an empty input is 400", async () => {
    await expect(client.embeddings.create({ model: "all-MiniLM-L6-v2", input: [] })).rejects.toMatchObject({
      status: 400,
    });
    await expect(chat({ messages: [] })).rejects.toMatchObject({ status: 400 });
  });
  test("a body of 50 MB is 413", async () => {
    const input = "x".repeat(50_000_000);
    await expect(client.embeddings.create({ model: "all-MiniLM-L6-v2", input })).rejects.toMatchObject({
      status: 413,
    });
  });
  test("broken JSON is 400", async () => {
    const response = await fetch(`${outputs.endpoints.gateway}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: '{"model": ',
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error" } });
  });
});

describe("official clients for Python", () => {
  test.each(["openai_client.py", "triton_client.py"])("%s", (script) => {
    const python = process.env.ENGINE_ROOM_TEST_PYTHON;
    if (python === undefined) throw new Error("Run it by `npm test -- stack`, which sets Python up.");
    const run = spawnSync(python, [join(projectRoot, "test/stack/clients", script)], {
      encoding: "utf8",
      env: {
        ...process.env,
        OUTPUTS: JSON.stringify(outputs),
        API_KEY: key,
        STACK_DIRECTORY: stack.directory,
      },
    });
    expect(`${run.stdout}${run.stderr}`).toMatch(/^all checks hold$/m);
    expect(run.status).toBe(0);
  });
});

describe("a Triton that is away", () => {
  test("is 503 with Retry-After, and the gateway recovers by itself", async () => {
    const before = (await stack.pids()).smollm2 ?? 0;
    process.kill(before, "SIGSTOP");
    process.kill(before, "SIGKILL");
    const refused = await eventually(async () => {
      const response = await fetch(`${outputs.endpoints.gateway}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: "smollm2", prompt: "Hi", max_tokens: 1 }),
      });
      return response.status === 503 ? response : undefined;
    });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    await eventually(
      async () => (await client.completions.create({ model: "smollm2", prompt: "Hi", max_tokens: 1 })).id,
    );
  });
});
