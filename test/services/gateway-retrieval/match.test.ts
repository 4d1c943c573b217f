/** Matches, their filters and their limits, over real database processes. */
import { beforeAll, describe, expect, it } from "vitest";
import { errorOf } from "../gateway/support.ts";
import { useRetrieval } from "./databases-and-triton.ts";
import { dataUrl, picture } from "./support.ts";

const { triton, gateway } = useRetrieval();

const match = async (body: object) => {
  const response = await gateway().post("/v1/match", body);
  return (await response.json()) as {
    matches: { id: string; [key: string]: unknown }[];
    [key: string]: unknown;
  };
};

describe("a match", () => {
  beforeAll(async () => {
    await gateway().post("/v1/documents", {
      documents: [
        {
          id: "cat",
          text: "a cat sleeps on a sofa",
          image: dataUrl(await picture("grey", "brown")),
          metadata: { kind: "animal", legs: 4, wild: false, weight: 4.5 },
        },
        {
          id: "dog",
          text: "a dog runs on the beach",
          image: dataUrl(await picture("yellow", "blue")),
          metadata: { kind: "animal", legs: 4, wild: false, weight: 20 },
        },
        { id: "bird", text: "a bird sings", metadata: { kind: "animal", legs: 2, wild: true } },
        {
          id: "bicycle",
          text: "a red bicycle",
          image: dataUrl(await picture("red", "white")),
          metadata: { kind: "thing", size: { wheel: 28 } },
        },
      ],
    });
  });

  it("of a text finds texts, with one embedding", async () => {
    const { matches, ...rest } = await match({ text: "a cat", topK: 2 });
    expect(rest).toEqual({ fusion: null, via: "vectors" });
    expect(matches).toHaveLength(2);
    expect(matches[0]).toEqual({
      id: "cat",
      score: expect.any(Number),
      scores: { text: { score: matches[0]?.score, rank: 1 } },
      text: "a cat sleeps on a sofa",
      metadata: { kind: "animal", legs: 4, wild: false, weight: 4.5 },
      image: expect.stringMatching(/^\/v1\/documents\/cat\/image\?sha256=[0-9a-f]{64}$/),
    });
    expect(triton().encoderCalls).toMatchObject([{ model: "text_encoder", rows: 1 }]);
  });

  it("of an image finds the picture that is scaled and encoded again", async () => {
    const image = dataUrl(await picture("yellow", "blue", { size: 200, format: "webp" }), "image/webp");
    const { matches } = await match({ image: { url: image } });
    expect(matches[0]).toMatchObject({ id: "dog", scores: { image: { rank: 1 } } });
    expect(triton().encoderCalls).toMatchObject([{ model: "vision_encoder" }]);
  });

  it("of both fuses the ranks, and its numbers say how", async () => {
    const { matches, fusion } = (await match({
      text: "a dog runs on the beach",
      image: dataUrl(await picture("grey", "brown", { size: 90 })),
    })) as unknown as {
      matches: { id: string; score: number; scores: Record<string, { rank: number }> }[];
      fusion: { method: string; k: number };
    };
    expect(fusion.method).toBe("rrf");
    const byId = new Map(matches.map(({ id, scores }) => [id, scores]));
    expect([byId.get("dog")?.text?.rank, byId.get("cat")?.image?.rank]).toEqual([1, 1]);
    for (const { score, scores } of matches) {
      const sum = Object.values(scores).reduce((total, { rank }) => total + 1 / (fusion.k + rank), 0);
      expect(score).toBeCloseTo(sum, 5);
    }
    expect(triton().encoderCalls).toMatchObject([{ model: "llava_ensemble" }]);
  });

  it.each<[string, object, string[]]>([
    ["a text", { "metadata.kind": "thing" }, ["bicycle"]],
    ["a boolean", { "metadata.wild": true }, ["bird"]],
    ["a number", { "metadata.legs": 2 }, ["bird"]],
    ["a fraction", { "metadata.weight": 4.5 }, ["cat"]],
    ["a range", { "metadata.weight": { gte: 4.5, lt: 20 } }, ["cat"]],
    ["a list of several kinds", { "metadata.legs": { in: [2, "x", 28.5, true] } }, ["bird"]],
    ["a nested key", { "metadata.size.wheel": { gt: 27 } }, ["bicycle"]],
    ["two conditions", { "metadata.kind": "animal", "metadata.wild": false }, ["cat", "dog"]],
    ["a key that no document has", { "metadata.colour": "red" }, []],
  ])("is filtered by %s", async (_what, filter, expected) => {
    const { matches } = await match({ text: "anything", filter, topK: 100 });
    expect(matches.map(({ id }) => id).sort()).toEqual(expected);
  });

  it.each<[string, object, string, string]>([
    [
      "an unknown operator",
      { text: "a", filter: { "metadata.a": { regex: "x" } } },
      "filter.metadata.a.regex",
      "in, gt",
    ],
    [
      "a field that is no metadata",
      { text: "a", filter: { contentHash: "x" } },
      "filter.contentHash",
      "metadata.KEY",
    ],
    ["an empty range", { text: "a", filter: { "metadata.a": {} } }, "filter.metadata.a", "in, gt"],
    ["a topK of 10^9", { text: "a", topK: 1e9 }, "topK", "100 or less"],
    ["an unknown parameter", { text: "a", colour: "red" }, "colour", "no such parameter"],
    ["nothing", {}, "", "needs text, or image"],
    ["a text without words", { text: "  " }, "text", "must not be empty"],
    ["a long text", { text: "x".repeat(70_000) }, "text", "65536"],
    ["a text and via: describe", { text: "a", via: "describe" }, "via", "takes an image"],
    ["an image of an unknown host", { image: "https://example.org/a.jpg" }, "image", ""],
  ])("refuses %s", async (_what, body, param, message) => {
    const error = await errorOf(await gateway().post("/v1/match", body));
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining(message) });
    expect(error.param ?? "").toBe(param);
    expect(triton().encoderCalls).toEqual([]);
  });

  it("via describe needs a vision-language model, and says how to get one", async () => {
    const image = dataUrl(await picture("grey", "brown"));
    const error = await errorOf(await gateway().post("/v1/match", { image, via: "describe" }));
    expect(error).toMatchObject({
      status: 409,
      code: "no_vision_language_model",
      message: expect.stringContaining("engine-room:models"),
    });
  });
});
