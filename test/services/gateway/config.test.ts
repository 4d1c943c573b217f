/** The configuration, and the parts of the gateway that keep its limits: keys, places, deadlines, errors, metrics. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { requestProfile } from "@engine-room/triton-requests";
import fc from "fast-check";
import { Registry } from "prom-client";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { databases as databasesSchema } from "../../../containers/services/gateway/src/config.ts";
import {
  loadConfig,
  parseConfig,
  readDatabaseSecrets,
} from "../../../containers/services/gateway/src/config-file.ts";
import {
  ApiError,
  ClientGone,
  modelNotFound,
  toApiError,
  toOpenAiBody,
} from "../../../containers/services/gateway/src/errors.ts";
import {
  ConcurrencyLimiter,
  Deadline,
  RequestMemory,
} from "../../../containers/services/gateway/src/limits.ts";
import {
  gatewayMetrics as registerGatewayMetrics,
  retrievalMetrics as registerRetrievalMetrics,
} from "../../../containers/services/gateway/src/metrics.ts";
import { KeyRing, requestId } from "../../../containers/services/gateway/src/request-lifecycle.ts";
import {
  answeredErrorKind,
  TritonClient,
  tritonMessage,
} from "../../../containers/services/gateway/src/triton/client.ts";
import { freePort } from "../../harness/ports.ts";
import { gatewayMetrics, retrievalMetrics } from "../../infra/plan/kubernetes/known-series.ts";
import { retrievalConfig } from "../gateway-retrieval/support.ts";
import { configOf, type RunningGateway, sha256, silentPeer, startGateway } from "./support.ts";

const good = configOf({ encoders: 8000, model: 8100 });

function problemsOf(values: unknown): string[] {
  try {
    parseConfig(values, "gateway.json");
  } catch (error) {
    return (error as Error).message.split("\n").map((line) => line.trim());
  }
  return [];
}

test("an incomplete configuration gets the documented defaults", () => {
  const config = parseConfig({ models: [{ name: "m", http: "http://10.0.0.1:8000/" }] });
  expect(config).toMatchObject({
    host: "127.0.0.1",
    port: 8080,
    apiKeys: [],
    limits: {
      bodyBytes: 4_194_304,
      requestSeconds: 300,
      memoryBytes: 67_108_864,
      connections: 6144,
      concurrentRequests: 256,
      queuedRequests: 1024,
    },
    log: { level: "info" },
  });
  expect(config.models[0]).toMatchObject({
    http: "http://10.0.0.1:8000",
    profile: requestProfile("inflight_batcher_llm"),
    maxTokens: 1024,
    contextTokens: 2048,
    stopWords: [],
  });
  expect(config.rateLimit).toBeUndefined();
});

test("the configuration reports all problems of its keys at once, each with its path and the right form", () => {
  const problems = problemsOf({
    ...good,
    port: 70_000,
    hots: "0.0.0.0",
    encoders: { http: "127.0.0.1:8000", modelName: "e", imageDimension: 512, maxBatchSize: 0 },
    models: [
      {
        name: "m",
        http: "http://127.0.0.1:1/v2",
        profile: { ...requestProfile("llava"), flavour: "vllm" },
        chatTemplate: "{% if %}",
        maxTokens: "many",
      },
    ],
    limits: { requestSeconds: -1 },
  });
  expect(problems[0]).toBe("gateway.json: 10 problems");
  expect(problems).toContain("port: must be 65535 or less");
  expect(problems).toContain("hots: unknown parameter");
  expect(problems).toContain("encoders.dimension: is required, as a number");
  expect(problems).toContain("encoders.maxBatchSize: must be 1 or more");
  expect(problems).toContain(
    'models[0].profile.flavour: must be one of "inflight_batcher_llm", "multimodal", "llava", "gpt", "tritonCli", "llmapi"',
  );
  expect(problems).toContain("models[0].maxTokens: must be a number");
  expect(problems.find((line) => line.startsWith("models[0].chatTemplate"))).toContain(
    "is not a valid Jinja template",
  );
  expect(problems.find((line) => line.startsWith("models[0].http"))).toContain("without path");
  expect(problems.find((line) => line.startsWith("encoders.http"))).toContain("must be http://HOST:PORT");
  expect(problems.find((line) => line.startsWith("limits.requestSeconds"))).toContain("must be more than 0");
});

test("the configuration reports duplicate ids and keys, and answers that fill the whole context", () => {
  const model = { name: "m", http: "http://127.0.0.1:1" };
  const key = { name: "alice", sha256: sha256("k") };
  expect(problemsOf({ models: [{ ...model, maxTokens: 2048 }] })[1]).toBe(
    "models[0].maxTokens: 2048 leaves no room for a prompt in a context of 2048 tokens: use 2047 or less",
  );
  expect(
    problemsOf({ encoders: good.encoders, models: [model, model], apiKeys: [key, key] }).slice(1),
  ).toEqual([
    "models[1].name: is used by another model: give each model its own id",
    "apiKeys[1].name: is used by another key: remove one of them, or give it its own",
    "apiKeys[1].sha256: is used by another key: remove one of them, or give it its own",
  ]);
});

test("a model is called by the profile of its configuration", () => {
  const profile = requestProfile("llava");
  const model = { name: "m", http: "http://127.0.0.1:1", profile };
  expect(parseConfig({ models: [model] }).models[0]?.profile).toEqual(profile);
});

test("a wrong key of a profile is named by its path", () => {
  const profile = { ...requestProfile("llava"), seedField: "sead" };
  expect(problemsOf({ models: [{ name: "m", http: "http://127.0.0.1:1", profile }] })[1]).toBe(
    'models[0].profile.seedField: must be one of "seed", "random_seed"',
  );
});

test("a language model with the encoder's id is refused", () => {
  expect(
    problemsOf({ ...good, models: [{ name: "all-MiniLM-L6-v2", http: "http://127.0.0.1:1" }] })[1],
  ).toContain("models[0].name");
});

test("a configuration without models and encoders is refused", () => {
  expect(problemsOf({})[1]).toContain("add a language model");
});

test("a key that was written where its hash belongs is never shown", () => {
  for (const [apiKeys, path] of [
    [[{ name: "alice", sha256: "sk-my-secret-key" }], "apiKeys[0].sha256"],
    [["sk-my-secret-key"], "apiKeys[0]"],
    ["sk-my-secret-key", "apiKeys"],
  ]) {
    const problems = problemsOf({ ...good, apiKeys });
    expect(problems[1]).toContain(`${path}: `);
    expect(problems.join()).not.toContain("my-secret");
  }
  expect(problemsOf("sk-my-secret-key")).toEqual(["gateway.json: 1 problem", "(file): must be an object"]);
});

test.each(["ftp://host:1", "http://user:password@host:1", "http://host:1?x", "http://host:99999", "host:1"])(
  "the Triton address %s is refused",
  (http) => {
    expect(problemsOf({ models: [{ name: "m", http }] })[1]).toContain("models[0].http");
  },
);

describe("configuration file", () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-config-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const written = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const key = { name: "alice", sha256: sha256("k") };

  test("the list of API keys may be in its own file", () => {
    const apiKeysFile = written("keys.json", JSON.stringify([key]));
    expect(loadConfig(written("gateway.json", JSON.stringify({ ...good, apiKeysFile }))).apiKeys).toEqual([
      key,
    ]);
  });

  test("keys in both the configuration and a file are refused", () => {
    const both = written("both.json", JSON.stringify({ ...good, apiKeys: [key], apiKeysFile: "/keys.json" }));
    expect(() => loadConfig(both)).toThrow(/both given; keep one/);
  });

  test("the gateway does not start open when the file with its keys is missing or unreadable", () => {
    const gone = written("gone.json", JSON.stringify({ ...good, apiKeysFile: join(folder, "nowhere.json") }));
    expect(() => loadConfig(gone)).toThrow(/nowhere\.json can't be read/);
    const apiKeysFile = written("text.json", "sk-my-secret-key");
    const other = written("other.json", JSON.stringify({ ...good, apiKeysFile }));
    expect(() => loadConfig(other)).toThrow(/text\.json is not valid JSON/);
    expect(() => loadConfig(other)).not.toThrow(/my-secret/);
  });
});

describe("databases in the configuration", () => {
  const config = (databasesConfig: object, more: object = {}) => ({
    ...configOf({ encoders: 1, model: 2 }),
    databases: databasesConfig,
    ...more,
  });
  const vectorConfig = { url: "http://127.0.0.1:6333" };

  test.each<[string, object, string]>([
    [
      "two addresses",
      config({ mongo: { uri: "mongodb://a", uriFile: "/x" }, vector: vectorConfig }),
      "either uri or uriFile",
    ],
    ["no address", config({ mongo: {}, vector: vectorConfig }), "either uri or uriFile"],
    ["a password", config({ mongo: { uri: "mongodb://u:hunter2@a" }, vector: vectorConfig }), "uriFile"],
    [
      "no encoders",
      config({ mongo: { uri: "mongodb://a" }, vector: vectorConfig }, { encoders: undefined }),
      "found by their vectors",
    ],
    [
      "an image host that is an address",
      { ...configOf({ encoders: 1, model: 2 }), imageHosts: ["10.0.0.1"] },
      "is not the name of a public host",
    ],
  ])("a configuration with %s is refused", (_what, values, message) => {
    expect(() => parseConfig(values)).toThrow(message);
    expect(() => parseConfig(values)).not.toThrow("hunter2");
  });

  test("the MongoDB address and the key of the vector database come from files", () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-secrets-"));
    const uriFile = join(folder, "uri");
    const read = (mongo: object) =>
      readDatabaseSecrets(databasesSchema.parse({ mongo, vector: { ...vectorConfig, apiKeyFile: uriFile } }));
    try {
      expect(() => read({ uriFile })).toThrow(/uriFile = .* can't be read \(ENOENT\)/);
      writeFileSync(uriFile, "\n");
      expect(() => read({ uriFile })).toThrow("is empty");
      writeFileSync(uriFile, "mongodb://u:hunter2@a\n");
      expect(read({ uriFile })).toEqual({
        mongoUri: "mongodb://u:hunter2@a",
        vectorApiKey: "mongodb://u:hunter2@a",
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("the refusal of an unreadable MongoDB address does not repeat it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-secrets-"));
    const uriFile = join(folder, "uri");
    writeFileSync(uriFile, "no address with hunter2");
    const values = retrievalConfig({ url: "http://127.0.0.1:1" }, { mongo: 1, vector: 1, area: "documents" });
    try {
      const started = startGateway({ ...values, databases: { mongo: { uriFile }, vector: vectorConfig } });
      await expect(started).rejects.toThrow("not a MongoDB connection string");
      await expect(started).rejects.not.toThrow("hunter2");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("API keys", () => {
  const keys = new KeyRing([
    { name: "alice", sha256: sha256("key-a") },
    { name: "bob", sha256: sha256("key-b") },
  ]);

  test("a key is known by its hash", () => {
    expect(keys.ownerOf("Bearer key-a")).toBe("alice");
    expect(keys.ownerOf("bearer key-b")).toBe("bob");
  });

  test("an authorization header in any other form is refused", () => {
    for (const header of [
      undefined,
      "",
      "Bearer",
      "Bearer ",
      "key-a",
      "Basic key-a",
      "Bearer key-a key-b",
      `Bearer ${"k".repeat(5000)}`,
      `Bearer ${sha256("key-a")}`,
    ]) {
      expect(() => keys.ownerOf(header)).toThrow(
        expect.objectContaining({ details: expect.objectContaining({ status: 401 }) }),
      );
    }
    // A configuration has the hash of an empty text if the variable with the key was empty.
    const mistaken = new KeyRing([{ name: "nobody", sha256: sha256("") }]);
    for (const header of [undefined, "", "Bearer", "Bearer "]) {
      expect(() => mistaken.ownerOf(header)).toThrow(ApiError);
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => keys.ownerOf(`Bearer ${text}`)).toThrow(ApiError);
      }),
    );
  });
});

describe("the memory of requests", () => {
  const REQUEST_BYTES = 16 * 1024;
  const room = (requests: number) => new RequestMemory(requests * REQUEST_BYTES);
  const answers = (count: number) =>
    Array.from({ length: count }, () => new ServerResponse(new IncomingMessage(new Socket())));

  test("above the memory limit the requests that have waited for their clients the longest are ended", () => {
    const memory = room(4);
    const ended: number[] = [];
    answers(4).forEach((answer, index) => {
      memory.waitsForClient(answer, 1, () => ended.push(index));
      // Bytes that come later do not change the order.
      memory.waitsForClient(answer, 2, () => ended.push(index));
    });
    expect(ended).toEqual([0]);
    expect(memory.bytes).toBe(3 * (REQUEST_BYTES + 2));
  });

  test("a request that is being answered is not ended for another, which is refused with 503", () => {
    const memory = room(4);
    const ended: number[] = [];
    const requests = answers(4);
    for (const [index, answer] of requests.entries())
      memory.waitsForClient(answer, 0, () => ended.push(index));
    const [first, second, third, fourth] = requests as [
      ServerResponse,
      ServerResponse,
      ServerResponse,
      ServerResponse,
    ];
    for (const answer of [first, second, third]) memory.isAnswered(answer);
    expect(() => memory.checkAnswering()).not.toThrow();
    memory.isAnswered(fourth);
    expect(() => memory.checkAnswering()).toThrow(/use the 65536 bytes of memory for requests/);
    expect(() => memory.add(first, 1)).toThrow(/try again in a second/);
    expect(ended).toEqual([]);
    memory.delete(fourth);
    // The answer of the first is complete, and waits for its client.
    memory.waitsForClient(first, 0, () => ended.push(0));
    expect(() => memory.add(second, 1)).not.toThrow();
    memory.waitsForClient(fourth, REQUEST_BYTES, () => ended.push(3));
    expect(ended).toEqual([0, 3]);
  });

  test("a client that has read all of its stream is not behind", () => {
    const memory = room(2);
    const [stream, other] = answers(2) as [ServerResponse, ServerResponse];
    const ended: string[] = [];
    memory.waitsForClient(stream, 1000, () => ended.push("stream"));
    memory.isAnswered(stream, 0);
    memory.waitsForClient(other, REQUEST_BYTES, () => ended.push("other"));
    expect(ended).toEqual(["other"]);
    memory.delete(stream);
    expect(memory.bytes).toBe(0);
  });
});

describe("limiter", () => {
  const never = new AbortController().signal;

  test("the limiter gives places in order, a place for each that is freed", async () => {
    const limiter = new ConcurrencyLimiter(1, 2);
    const release = await limiter.acquire(never);
    const order: string[] = [];
    const second = limiter.acquire(never).then((done) => {
      order.push("second");
      return done;
    });
    const third = limiter.acquire(never).then((done) => {
      order.push("third");
      return done;
    });
    expect([limiter.taken, limiter.waiting]).toEqual([1, 2]);
    release();
    release();
    (await second)();
    (await third)();
    expect(order).toEqual(["second", "third"]);
    expect([limiter.taken, limiter.waiting]).toEqual([0, 0]);
  });

  test("a full queue refuses requests with 503 and Retry-After", async () => {
    const limiter = new ConcurrencyLimiter(1, 0);
    await limiter.acquire(never);
    await expect(limiter.acquire(never)).rejects.toMatchObject({
      details: { status: 503, code: "overloaded", retryAfterSeconds: 1 },
    });
  });

  test("a request that left the queue gets no place", async () => {
    const limiter = new ConcurrencyLimiter(1, 5);
    const release = await limiter.acquire(never);
    const leaver = new AbortController();
    const left = limiter.acquire(leaver.signal);
    const stays = limiter.acquire(never);
    leaver.abort(new ClientGone());
    await expect(left).rejects.toThrow(ClientGone);
    release();
    await expect(stays).resolves.toBeTypeOf("function");
    await expect(limiter.acquire(leaver.signal)).rejects.toThrow(ClientGone);
  });

  test("the limiter never gives more places than it has, and never loses a place", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.nat(3), { maxLength: 30 }),
        async (places, steps) => {
          const limiter = new ConcurrencyLimiter(places, 100);
          const held: (() => void)[] = [];
          for (const step of steps) {
            if (step === 0) held.shift()?.();
            else void limiter.acquire(never).then((release) => held.push(release));
            await Promise.resolve();
            await Promise.resolve();
            expect(limiter.taken).toBeLessThanOrEqual(places);
            expect(limiter.waiting === 0 || limiter.taken === places).toBe(true);
          }
          while (limiter.taken > 0) {
            await new Promise(setImmediate);
            held.shift()?.();
          }
          expect(limiter.waiting).toBe(0);
        },
      ),
    );
  });
});

test("a deadline ends as 504 after its time, and as ClientGone when the client leaves before", async () => {
  const over = new Deadline(0.001);
  await new Promise((resolve) => over.signal.addEventListener("abort", resolve));
  expect(over.signal.reason).toMatchObject({ details: { status: 504, code: "timeout" } });
  const left = new Deadline(1000);
  left.clientLeft();
  expect(left.signal.reason).toBeInstanceOf(ClientGone);
});

describe("errors", () => {
  const error = modelNotFound("gpt-x", ["a", "b"]);

  test("an error has OpenAI's shape with all four members", () => {
    expect(toOpenAiBody(error)).toEqual({
      error: {
        message: 'The model "gpt-x" does not exist; this gateway serves a, b.',
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
      },
    });
    expect(toOpenAiBody(new ApiError("x", { status: 500 })).error).toEqual({
      message: "x",
      type: "server_error",
      param: null,
      code: null,
    });
  });

  test("the response to an internal error does not show its cause", () => {
    const shown = toApiError(new Error("password=hunter2"), 0);
    expect(shown.details.status).toBe(500);
    expect(shown.message).not.toContain("hunter2");
  });
});

test.each([
  [400, "text_input is 3010 tokens long, and the context has 1024; shorten text_input.", "refused"],
  [400, "8 requests run and 4 wait, which is the maximum; try again later.", "busy"],
  [503, "Server is shutting down", "busy"],
  [400, "Exceeds maximum queue size", "busy"],
  [404, "Request for unknown model: 'ensemble' is not found", "not_ready"],
  [400, "Request for unknown model: 'ensemble' has no available versions", "not_ready"],
  [500, "Stub process 'ensemble_0_0' is not healthy.", "not_ready"],
  [400, "the request failed: KeyError.", "failed"],
  [500, "anything else", "failed"],
])('Triton\'s %i "%s" is of the kind %s', (status, message, kind) => {
  expect(answeredErrorKind(status, message)).toBe(kind);
});

test("Triton's error message is read from JSON, from an event, and from plain text", () => {
  expect(tritonMessage('{"error":"no such input"}')).toBe("no such input");
  expect(tritonMessage('data: {"error":"no such input"}\n\n')).toBe("no such input");
  expect(tritonMessage("Bad Gateway")).toBe("Bad Gateway");
  expect(tritonMessage("x".repeat(10_000))).toHaveLength(500);
});

test("a request keeps the client's id when it fits into a log", () => {
  expect(requestId({ headers: { "x-request-id": "abc-1.2_3" } })).toBe("abc-1.2_3");
});

test.each([
  ["no text", ""],
  ["two words", "a b"],
  ["129 characters", "x".repeat(129)],
  ["two lines", "a\nb"],
  ["a letter outside ASCII", "é"],
])("a request with %s as its id gets a new id", (_what, given) => {
  expect(requestId({ headers: { "x-request-id": given } })).toMatch(/^[0-9a-f-]{36}$/);
});

/** Sends a request to a Triton. */
const ask = (client: TritonClient, signal = new AbortController().signal) =>
  client.post({ path: "/", headers: {}, body: "", requestId: "1", signal, isIdempotent: false });

test("a pending request is counted until its answer begins", async () => {
  const peer = await silentPeer();
  const origin = `http://127.0.0.1:${peer.port}`;
  const client = new TritonClient({ name: "llama", origin, onError: () => undefined });
  const leaving = new AbortController();
  const answers = [ask(client), ask(client, leaving.signal)].map((answer) => answer.catch(() => "failed"));
  expect(client.pending).toBe(2);
  leaving.abort(new Error("left"));
  await answers[1];
  expect(client.pending).toBe(1);
  await peer.close();
  await answers[0];
  await client.close();
});

test("a refused request counts as pending until its client may retry, and for at least 90 s", async () => {
  let now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
  const origin = `http://127.0.0.1:${await freePort()}`;
  const options = { name: "llama", origin, onError: () => undefined };
  for (const [coldStartSeconds, wantedMs] of [
    [240, 240_000],
    [5, 90_000],
  ] as const) {
    const client = new TritonClient({ ...options, coldStartSeconds });
    await expect(ask(client)).rejects.toMatchObject({ details: { retryAfterSeconds: coldStartSeconds } });
    now += wantedMs - 1;
    expect(client.pending).toBe(1);
    now += 1;
    expect(client.pending).toBe(0);
    await client.close();
  }
  clock.mockRestore();
});

describe("pending requests", () => {
  let gateway: RunningGateway;
  beforeEach(async () => {
    const port = await freePort();
    const config = configOf({ encoders: port, model: port });
    const [first, ...others] = config.models ?? [];
    if (first === undefined) throw new Error("The configuration has no model.");
    gateway = await startGateway({ ...config, models: [{ ...first, coldStartSeconds: 240 }, ...others] });
  });
  afterEach(() => gateway?.app.close());

  const metric = async (model: string) => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return new RegExp(`^gateway_pending_requests\\{model="${model}"\\} (\\d+)$`, "m").exec(text)?.[1];
  };

  test("the pending metric has a value for each model from the start", async () => {
    expect([await metric("encoders"), await metric("smollm2"), await metric("base-model")]).toEqual([
      "0",
      "0",
      "0",
    ]);
  });

  test("a 503 has Retry-After, and the pending metric counts it", async () => {
    const answers = await Promise.all(
      ["smollm2", "base-model"].map((model) => gateway.post("/v1/completions", { model, prompt: "Hi" })),
    );
    expect(answers.map(({ status, headers }) => [status, headers.get("retry-after")])).toEqual([
      [503, "240"],
      [503, "5"],
    ]);
    expect([await metric("encoders"), await metric("smollm2")]).toEqual(["0", "1"]);
  });
});

interface Row {
  readonly kind: string;
  readonly labels: readonly string[];
}

/** Metrics by name, except those of Node.js, which prom-client adds. */
function registered(registry: Registry): Readonly<Record<string, Row>> {
  const own = registry.getMetricsAsArray().filter(({ name }) => !/^(process|nodejs)_/.test(name));
  return Object.fromEntries(
    own.map((metric) => {
      // The library keeps its labels in a field that its types lack.
      const { name, labelNames = [] } = metric as unknown as { name: string; labelNames?: readonly string[] };
      return [name, { kind: metric.constructor.name.toLowerCase(), labels: [...labelNames].sort() }];
    }),
  );
}

function planned(table: Readonly<Record<string, Row>>): Readonly<Record<string, Row>> {
  return Object.fromEntries(
    Object.entries(table).map(([name, { kind, labels }]) => [name, { kind, labels: [...labels].sort() }]),
  );
}

test("the gateway registers the request metrics that expressions may read", () => {
  const { registry } = registerGatewayMetrics({
    limiter: new ConcurrencyLimiter(1, 1),
    memory: new RequestMemory(1),
    pending: () => new Map(),
    inFlight: () => 0,
  });
  expect(registered(registry)).toEqual(planned(gatewayMetrics));
});

test("the gateway registers the retrieval metrics that expressions may read", () => {
  const registry = new Registry();
  registerRetrievalMetrics(registry);
  expect(registered(registry)).toEqual(planned(retrievalMetrics));
});
