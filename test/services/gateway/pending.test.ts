import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PendingRequests } from "../../../containers/services/gateway/src/pending.ts";
import { closedPort, configOf, type RunningGateway, startGateway } from "./support.ts";

describe("requests that wait", () => {
  it("are counted until their answer begins", () => {
    const pending = new PendingRequests(() => 0);
    pending.add("llama");
    const end = pending.begin("llama");
    pending.begin("llama");
    expect([...pending.counts]).toEqual([["llama", 2]]);
    end();
    expect([...pending.counts]).toEqual([["llama", 1]]);
  });

  it("leave their model wanted until they come back, and for 90 s at least", () => {
    let now = 1_000_000;
    const pending = new PendingRequests(() => now);
    pending.add("llama");
    pending.missed("llama", 240);
    pending.missed("llama", 5);
    now += 239_999;
    expect(pending.counts.get("llama")).toBe(1);
    now += 1;
    expect(pending.counts.get("llama")).toBe(0);
    pending.missed("llama", 5);
    now += 89_999;
    expect(pending.counts.get("llama")).toBe(1);
    now += 1;
    expect(pending.counts.get("llama")).toBe(0);
  });

  it("of a name that is no model's are not counted", () => {
    const pending = new PendingRequests(() => 0);
    pending.missed("llama", 5);
    pending.begin("llama")();
    expect(pending.counts.size).toBe(0);
  });
});

describe("a gateway whose models have no server", () => {
  let gateway: RunningGateway;
  beforeAll(async () => {
    const port = await closedPort();
    const config = configOf({ encoders: port, model: port });
    const [first, ...others] = config.models ?? [];
    if (first === undefined) throw new Error("The configuration has no model.");
    gateway = await startGateway({ ...config, models: [{ ...first, coldStartSeconds: 240 }, ...others] });
  });
  afterAll(() => gateway?.app.close());

  const metric = async (model: string) => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    return new RegExp(`^gateway_pending_requests\\{model="${model}"\\} (\\d+)$`, "m").exec(text)?.[1];
  };

  it("has a number for each from the start", async () => {
    expect([await metric("encoders"), await metric("smollm2"), await metric("base-model")]).toEqual([
      "0",
      "0",
      "0",
    ]);
  });

  it("says when to come back, and shows whom somebody waits for", async () => {
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
