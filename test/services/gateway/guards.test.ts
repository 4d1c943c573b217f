import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KeyRing } from "../../../containers/services/gateway/src/auth.ts";
import { toApiError } from "../../../containers/services/gateway/src/error-handler.ts";
import {
  ApiError,
  modelNotFound,
  toOpenAiBody,
  toProblem,
} from "../../../containers/services/gateway/src/errors.ts";
import { ClientGone, ConcurrencyLimiter, Deadline } from "../../../containers/services/gateway/src/limits.ts";
import { requestId } from "../../../containers/services/gateway/src/request-life.ts";
import { answeredErrorKind, tritonMessage } from "../../../containers/services/gateway/src/triton/client.ts";
import { sha256 } from "./support.ts";

describe("API keys", () => {
  const keys = new KeyRing([
    { name: "alice", sha256: sha256("key-a") },
    { name: "bob", sha256: sha256("key-b") },
  ]);

  it("are known by their hash", () => {
    expect(keys.ownerOf("Bearer key-a")).toBe("alice");
    expect(keys.ownerOf("bearer key-b")).toBe("bob");
  });

  it("are refused in every other form", () => {
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
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => keys.ownerOf(`Bearer ${text}`)).toThrow(ApiError);
      }),
    );
  });
});

describe("places", () => {
  const never = new AbortController().signal;

  it("are given in order, one for each that comes back", async () => {
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

  it("are refused with 503 and Retry-After when the queue is full", async () => {
    const limiter = new ConcurrencyLimiter(1, 0);
    await limiter.acquire(never);
    await expect(limiter.acquire(never)).rejects.toMatchObject({
      details: { status: 503, code: "overloaded", retryAfterSeconds: 1 },
    });
  });

  it("are not given to a request that left the queue", async () => {
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

  it("are never more than there are, and never lost", async () => {
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

describe("deadline", () => {
  it("ends as 504 when the time is over, and as the client's leaving before", async () => {
    const over = new Deadline(0.001);
    await new Promise((resolve) => over.signal.addEventListener("abort", resolve));
    expect(over.signal.reason).toMatchObject({ details: { status: 504, code: "timeout" } });
    const left = new Deadline(1000);
    left.clientLeft();
    expect(left.signal.reason).toBeInstanceOf(ClientGone);
  });
});

describe("errors", () => {
  const error = modelNotFound("gpt-x", ["a", "b"]);

  it("have OpenAI's shape with all four members", () => {
    expect(toOpenAiBody(error)).toEqual({
      error: {
        message: 'The model "gpt-x" does not exist; this gateway serves a, b.',
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
      },
    });
    expect(toOpenAiBody(new ApiError("x", { status: 500, type: "server_error" })).error).toEqual({
      message: "x",
      type: "server_error",
      param: null,
      code: null,
    });
  });

  it("are problem details elsewhere", () => {
    expect(toProblem(error, "/readyz")).toEqual({
      type: "about:blank",
      title: "Not Found",
      status: 404,
      detail: error.message,
      instance: "/readyz",
      code: "model_not_found",
    });
  });

  it("show nothing of what went wrong inside", () => {
    const shown = toApiError(new Error("password=hunter2"), 0);
    expect(shown.details.status).toBe(500);
    expect(shown.message).not.toContain("hunter2");
  });
});

describe("an error of Triton", () => {
  it.each([
    [400, "text_input is 3010 tokens long, and the context has 1024; shorten text_input.", "refused"],
    [400, "8 requests run and 4 wait, which are the most there may be; try again later.", "busy"],
    [503, "Server is shutting down", "busy"],
    [400, "Exceeds maximum queue size", "busy"],
    [404, "Request for unknown model: 'ensemble' is not found", "not_ready"],
    [400, "Request for unknown model: 'ensemble' has no available versions", "not_ready"],
    [500, "Stub process 'ensemble_0_0' is not healthy.", "not_ready"],
    [400, "the request failed: KeyError.", "failed"],
    [500, "anything else", "failed"],
  ])("%i %s is: %s", (status, message, kind) => {
    expect(answeredErrorKind(status, message)).toBe(kind);
  });

  it("is read from JSON, from an event, and from plain text", () => {
    expect(tritonMessage('{"error":"no such input"}')).toBe("no such input");
    expect(tritonMessage('data: {"error":"no such input"}\n\n')).toBe("no such input");
    expect(tritonMessage("Bad Gateway")).toBe("Bad Gateway");
    expect(tritonMessage("x".repeat(10_000))).toHaveLength(500);
  });
});

describe("request id", () => {
  it("is the client's when it is fit for a log", () => {
    expect(requestId({ headers: { "x-request-id": "abc-1.2_3" } })).toBe("abc-1.2_3");
  });

  it.each([
    ["no text", ""],
    ["two words", "a b"],
    ["129 characters", "x".repeat(129)],
    ["two lines", "a\nb"],
    ["a letter outside ASCII", "é"],
  ])("is a fresh one instead of %s", (_what, given) => {
    expect(requestId({ headers: { "x-request-id": given } })).toMatch(/^[0-9a-f-]{36}$/);
  });
});
