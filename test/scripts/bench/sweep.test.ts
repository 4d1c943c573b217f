import { describe, expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { tritonEndpoints } from "../../../infra/plan/endpoints.ts";
import { TRITON_PORTS } from "../../../infra/plan/repository/launch.ts";
import { asked } from "../../../scripts/ask/question.ts";
import type { AnswerFigures } from "../../../scripts/ask/send.ts";
import { streams } from "../../../scripts/bench/stack-load.ts";
import {
  largestLoad,
  type SweepRow,
  sweep,
  sweepCsv,
  sweepLine,
  sweepLoads,
  sweepRow,
  sweepVerdict,
} from "../../../scripts/bench/sweep.ts";
import { sweepPicture } from "../../../scripts/bench/sweep-picture.ts";
import { command } from "../../../scripts/commands/bench.ts";
import { STACK as CLUSTER } from "../cluster/fake-kubectl.ts";

/** Row of a load whose percentiles are equal. */
function row(concurrency: number, ttft: number, itl: number | null, more: Partial<SweepRow> = {}): SweepRow {
  return {
    concurrency,
    requests: 20,
    failed: 0,
    requestsPerSecond: concurrency / 2,
    outputTokensPerSecond: 10 * concurrency,
    promptTokens: 200,
    outputTokens: 20,
    ttftMs: { p50: ttft / 2, p95: ttft },
    itlMs: itl === null ? null : { p50: itl / 2, p95: itl },
    ...more,
  };
}

const answer = (firstTextSeconds: number, totalSeconds: number, completionTokens: number): AnswerFigures => ({
  promptTokens: 100,
  completionTokens,
  isEstimate: false,
  firstTextSeconds,
  totalSeconds,
  finishReason: "length",
});

const RISING = [row(1, 100, 10), row(2, 150, 20), row(4, 300, 30), row(8, 900, 25)];

describe("a load", () => {
  const cell = {
    concurrency: 4,
    requests: 3,
    requestsPerSecond: 2,
    p50Milliseconds: 0,
    p99Milliseconds: 0,
    failed: 1,
  };

  test("the inter-token latency of a request is the time after its first token by the number of tokens after it", () => {
    const measured = sweepRow(cell, [answer(0.5, 1.5, 11), answer(1, 2, 6), answer(2, 2, 1)], "HTTP 503");
    expect(measured).toEqual({
      concurrency: 4,
      requests: 3,
      failed: 1,
      failure: "HTTP 503",
      requestsPerSecond: 2,
      outputTokensPerSecond: 12,
      promptTokens: 100,
      outputTokens: 6,
      ttftMs: { p50: 1000, p95: 2000 },
      // An answer of one token has no inter-token latency.
      itlMs: { p50: 200, p95: 200 },
    });
  });

  test("a load whose requests all failed has a row, and exceeds the limits", () => {
    const none = sweepRow({ ...cell, requests: 0, requestsPerSecond: 0, failed: 9 }, []);
    expect(none).toMatchObject({ outputTokens: 0, promptTokens: null, itlMs: null });
    expect(sweepVerdict([none], { ttftMs: 1 })).toBe(
      "No load keeps the limits. At a concurrency of 4, 9 of 9 requests failed.",
    );
    expect(sweepVerdict([{ ...none, failed: 1 }], { ttftMs: 1 })).toContain(" 1 of 1 request failed.");
  });
});

describe("the largest load", () => {
  test.each([
    ["one limit", { ttftMs: 300 }, 4],
    ["both limits, of which one is broken first", { ttftMs: 300, itlMs: 20 }, 2],
    ["a limit that no load breaks", { ttftMs: 900 }, 8],
    ["a limit that a smaller load breaks and a larger one keeps", { itlMs: 25 }, 2],
    ["a limit that the smallest load breaks", { ttftMs: 99 }, undefined],
  ])("that keeps %s", (_, limits, expected) => {
    expect(largestLoad(RISING, limits)?.concurrency).toBe(expected);
  });

  test("a load without inter-token latency exceeds only a limit of it", () => {
    const rows = [row(1, 100, 10), row(2, 100, null)];
    expect(largestLoad(rows, { ttftMs: 100 })?.concurrency).toBe(2);
    expect(sweepVerdict(rows, { itlMs: 50 })).toMatch(
      /concurrency of 1, .* At a concurrency of 2, no answer had two tokens\.$/,
    );
  });

  test("the verdict has the load, its figures, and the reason why the next load is too high", () => {
    expect(sweepVerdict(RISING, { ttftMs: 300, itlMs: 50 })).toBe(
      "The largest load that keeps the limits is a concurrency of 4, with 40.0 output tokens a second: the p95 of the time to first token is 300.0 of 300 ms, and the p95 of the inter-token latency is 30.0 of 50 ms. At a concurrency of 8, the p95 of the time to first token is 900.0 ms, above 300.",
    );
    expect(sweepVerdict(RISING, { ttftMs: 1000 })).toMatch(/No larger load was measured\.$/);
  });
});

test("a doubled sweep ends at the load that exceeds a limit, and a list is measured to its end", async () => {
  const measured = (endsAtLimit: boolean) =>
    sweep({
      loads: [1, 2, 4],
      endsAtLimit,
      limits: { ttftMs: 1 },
      seconds: 0.01,
      ask: () => new Promise((resolve) => setTimeout(() => resolve(answer(0.1, 0.2, 3)), 1)),
      onRow: () => {},
    });
  expect((await measured(true)).map(({ concurrency }) => concurrency)).toEqual([1]);
  expect((await measured(false)).map(({ concurrency }) => concurrency)).toEqual([1, 2, 4]);
});

test("a model whose first answer has no text ends the sweep before any load", async () => {
  const ask = async () => ({ ...answer(0, 1, 0), firstTextSeconds: null });
  const options = { loads: [1], endsAtLimit: true, limits: {}, seconds: 60, onRow: expect.fail };
  await expect(sweep({ ...options, ask })).rejects.toThrow("without any text");
});

test("the CSV has a row for each load and an empty cell for a missing figure", () => {
  expect(sweepCsv([row(1, 100.25, null)]).split("\n")).toEqual([
    "concurrency,requests,failed,requests_per_second,output_tokens_per_second,prompt_tokens,output_tokens,ttft_p50_ms,ttft_p95_ms,itl_p50_ms,itl_p95_ms",
    "1,20,0,0.5,10,200,20,50.125,100.25,,",
    "",
  ]);
  expect(sweepLine(row(1, 100.25, null))).toHaveLength(sweepLine().length);
});

test.each<readonly [string, object, object]>([
  ["triton: { streaming: true }", { triton: { streaming: false } }, { triton: { streaming: true } }],
  ["flavour: inflight_batcher_llm", { flavour: "gpt" }, { flavour: "inflight_batcher_llm" }],
])(
  "a model that does not stream is refused with the change `%s`, which makes it stream",
  (fix, row, changed) => {
    const streamsOf = (values: object) => {
      const { plan } = checkedPlan({
        ...CLUSTER,
        models: [{ name: "gpt", model: "gpt2-medium", ...values }],
      });
      const server = { ...tritonEndpoints("gpt", TRITON_PORTS), generate: "" };
      const more = { name: "gpt", server, gateway: "", apiKey: undefined, whenUnreachable: "" };
      return streams({ ...asked(plan, "gpt"), ...more }, { input: 20, output: 8 })(0).stream;
    };
    expect(() => streamsOf(row)).toThrow(`so it does not stream. Write \`${fix}\` in its row of \`models\``);
    expect(streamsOf(changed)).toBe(true);
  },
);

describe("the picture", () => {
  const limits = { ttftMs: 300, itlMs: 50 };
  const picture = sweepPicture('llama <7b> & "others"', RISING, limits);

  test("the same rows give the same bytes", async () => {
    expect(sweepPicture('llama <7b> & "others"', structuredClone(RISING), limits)).toBe(picture);
    await expect(picture).toMatchFileSnapshot("../../recorded/bench/sweep.svg");
  });

  test("a sweep of one load without inter-token latency, and one without requests, are drawn", () => {
    for (const rows of [[row(1, 100, null)], [row(1, 0, null, { failed: 3, outputTokensPerSecond: 0 })]])
      expect(sweepPicture("x", rows, { itlMs: 5 })).not.toMatch(/NaN|Infinity|undefined/);
  });
});

describe("the command line", () => {
  const stack = { name: "local", configFile: "/nowhere/Pulumi.local.yaml" };
  const run = (what: readonly string[], values: Readonly<Record<string, string>>) =>
    command.run({
      stack,
      values,
      positionals: what,
      out: process.stdout,
      describedCommands: expect.fail,
    } as never);

  test.each([
    ["without a limit", {}, "A sweep needs a limit"],
    [
      "with limits that are none",
      { ttftMs: "0", itlMs: "fast" },
      '--ttft-ms is "0"; it must be a number of milliseconds above 0.\n--itl-ms is "fast"',
    ],
    [
      "with loads that fall",
      { ttftMs: "9", concurrency: "4,2" },
      '--concurrency is "4,2"; it must be whole numbers from 1 to 9999 that rise',
    ],
    ["with a load of nobody", { ttftMs: "9", concurrency: "0" }, "--concurrency is"],
    [
      "with a file in no folder",
      { ttftMs: "9", svg: "/nowhere/x.svg", csv: "/nowhere/x.csv" },
      "There is no folder /nowhere for --csv; make it, or name a file elsewhere.\nThere is no folder /nowhere for --svg;",
    ],
    [
      "with a folder in place of a file",
      { ttftMs: "9", out: "/" },
      "--out is /, a folder; name a file in it.",
    ],
    ["with answers of one token", { ttftMs: "9", outputTokens: "1" }, "--output-tokens is"],
  ])("a sweep %s is refused before the stack file is read", async (_, values, message) => {
    await expect(run(["sweep"], values)).rejects.toThrow(message);
  });

  test("options of a sweep without `sweep` are refused by name", async () => {
    await expect(run([], { ttftMs: "9", svg: "x.svg" })).rejects.toThrow(
      "--svg is for `npx engine-room bench sweep`.\n--ttft-ms is for `npx engine-room bench sweep`.",
    );
  });
});

test("doubled loads are powers of two, and a list is used unchanged", () => {
  expect(sweepLoads(undefined)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256]);
  expect(sweepLoads("3, 10,40")).toEqual([3, 10, 40]);
});
