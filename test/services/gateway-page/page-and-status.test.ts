/** The page and GET /status on the gateway itself, with both databases and fakes of the models. */

import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { imageProfile, requestProfile } from "@engine-room/triton-requests";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { GatewayConfigInput } from "../../../containers/services/gateway/src/config.ts";
import { freePort } from "../../harness/ports.ts";
import { needs } from "../../harness/requirements.ts";
import {
  CHATML,
  type RunningGateway,
  type SilentPeer,
  sha256,
  silentPeer,
  startGateway,
} from "../gateway/support.ts";
import { type FakeTriton, startFakeTriton } from "../gateway-retrieval/fake-triton.ts";
import {
  type Databases,
  dataUrl,
  picture,
  placesOf,
  retrievalConfig,
  startDatabases,
} from "../gateway-retrieval/support.ts";
import {
  axeViolations,
  keepScreenshot,
  launchBrowser,
  NO_BROWSER,
  openPage,
  sidewaysScroll,
  type WatchedPage,
} from "./browser.ts";

const NO_CURL = spawnSync("curl", ["--version"]).error === undefined ? undefined : "no curl on PATH";

let databases: Databases;
beforeAll(async () => {
  databases = await startDatabases();
});
afterAll(() => databases?.dispose());

// The first test needs a gateway without documents.
describe("whole page", { ...needs(NO_BROWSER), shuffle: false }, () => {
  let browser: Browser;
  let triton: FakeTriton;
  let gateway: RunningGateway;
  let watched: WatchedPage;

  beforeAll(async () => {
    [browser, triton] = await Promise.all([launchBrowser(), startFakeTriton()]);
    gateway = await startGateway(retrievalConfig(triton, placesOf(databases)));
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.app.close();
    await triton?.close();
  });
  afterEach(async () => {
    await watched.context.close();
    expect(watched.faults).toEqual([]);
  });

  const open = async () => {
    watched = await openPage(browser, gateway.url);
    return watched.page;
  };

  test("an empty gateway's page says that there are no documents", async () => {
    const page = await open();
    await page.getByText("There are no documents yet.").waitFor();
    await page.locator("#overall").getByText("All 6 services ready").waitFor();
  });

  describe("with documents", () => {
    const query = () => picture("black", "white", { size: 100, format: "jpeg" });

    beforeAll(async () => {
      const documents = [
        {
          id: "cat",
          text: "a cat on a sofa",
          image: dataUrl(await picture("black", "white")),
          metadata: { licence: "CC0-1.0" },
        },
        {
          id: "sample-dog",
          text: "a dog on a lawn",
          image: dataUrl(await picture("green", "white")),
          metadata: { question: "Which animal is on the lawn?" },
        },
        { id: "boat", text: "a boat in the harbour", image: dataUrl(await picture("navy", "teal")) },
      ];
      const response = await gateway.post("/v1/documents", { documents });
      expect(await response.json()).toMatchObject({
        documents: [{ status: "created" }, { status: "created" }, { status: "created" }],
      });
    });

    test("a search by words and image finds the most similar image first, and its answer has sources", async () => {
      const page = await open();
      await page.locator("#question").fill("Where is the cat?");
      await page
        .locator("#image-file")
        .setInputFiles({ name: "query.jpg", mimeType: "image/jpeg", buffer: await query() });
      await page.getByRole("button", { name: "Ask" }).click();
      await page.locator("#answer-text").getByText("It is a cat.").waitFor();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      await page
        .locator("#answer")
        .getByText("small cannot see the image; it was used to find documents only")
        .waitFor();
      await page.locator("#answer").getByRole("link", { name: /^cat/ }).waitFor();
      const first = page.locator("#matches .match").first();
      await first.getByText("cat", { exact: true }).waitFor();
      await first.getByRole("img", { name: "Picture of cat" }).waitFor();
      const shares = await first.locator(".parts li").allTextContents();
      const sum = shares.reduce((total, share) => total + Number(share.split("adds ")[1]), 0);
      const score = (await first.locator(".score").textContent())?.replace("Score ", "");
      expect(Number(score)).toBeCloseTo(sum, 2);
    });

    test("a document that is added on the page is found, and deleted there", async () => {
      const page = await open();
      await page.getByText("Add a document").click();
      const files = page.locator("#add-image-file");
      await files.setInputFiles({ name: "boat.gif", mimeType: "image/gif", buffer: Buffer.from("GIF89a") });
      await page.getByLabel("Text").fill("a lighthouse on a cliff");
      await page.getByRole("button", { name: "Add document" }).click();
      await page.locator("#add-problem").getByText("Unsupported image format; send a JPEG").waitFor();
      await files.setInputFiles({
        name: "light.jpg",
        mimeType: "image/jpeg",
        buffer: await picture("red", "gold"),
      });
      await page.getByLabel("Id (optional)").fill("lighthouse");
      await page.getByRole("button", { name: "Add document" }).click();
      await page.getByRole("button", { name: "Find lighthouse" }).click();
      const first = page.locator("#matches .match").first();
      await first.getByText("lighthouse", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Delete lighthouse" }).click();
      await expect.poll(async () => (await fetch(`${gateway.url}/v1/documents/lighthouse`)).status).toBe(404);
    });

    test("the page asks the question of a sample with the sample's picture", async () => {
      const page = await open();
      await page.getByRole("button", { name: "Try it: Which animal is on the lawn?" }).click();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      await page.locator("#image .drop").getByText("sample-dog.jpg").waitFor();
      await page.locator("#match-sample-dog").getByText("Image: rank 1, similarity 1.000").waitFor();
    });

    test("the curl lines of the page have the same results", needs(NO_CURL), async () => {
      const page = await open();
      await page.locator("#question").fill("it's a `cat`, isn't it?");
      await page
        .locator("#image-file")
        .setInputFiles({ name: "my cat.jpg", mimeType: "image/jpeg", buffer: await query() });
      await page.getByRole("button", { name: "Ask" }).click();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      const [match = "", answer = ""] = await page.locator("#requests pre").allTextContents();
      const folder = mkdtempSync(join(tmpdir(), "gateway-page-"));
      try {
        writeFileSync(join(folder, "my cat.jpg"), await query());
        expect(JSON.parse(await outputOf(match, folder))).toMatchObject({
          matches: [{ id: "cat" }, { id: "sample-dog" }, { id: "boat" }],
        });
        expect(await outputOf(answer, folder)).toMatch(
          /^event: sources\n.*\n\nevent: delta\n[\s\S]*\n\nevent: done\n/,
        );
      } finally {
        rmSync(folder, { recursive: true });
      }
    });

    test("an unavailable database is reported in the gateway's words, and used again when it is back", async () => {
      const page = await open();
      await page.locator("#overall").getByText("All 6 services ready").waitFor();
      await databases.vector.kill();
      await page.locator("#overall").getByText("vector is unavailable").waitFor();
      await page.locator("#question").fill("a cat");
      await page.getByRole("button", { name: "Find only" }).click();
      await page
        .locator("#matches")
        .getByText("The vector database (vector) can't be reached; it may be starting.")
        .waitFor();
      await databases.vector.start();
      await page.locator("#overall").getByText("All 6 services ready").waitFor();
      await page.getByRole("button", { name: "Find only" }).click();
      await page.locator("#matches .match").first().getByText("cat", { exact: true }).waitFor();
    });
  });
});

describe("the API's page", needs(NO_BROWSER), () => {
  let browser: Browser;
  let triton: FakeTriton;
  let gateway: RunningGateway;
  let watched: WatchedPage;

  beforeAll(async () => {
    [browser, triton] = await Promise.all([launchBrowser(), startFakeTriton()]);
    const apiKeys = [{ name: "alice", sha256: sha256("sk-alice") }];
    gateway = await startGateway({ ...retrievalConfig(triton, placesOf(databases)), apiKeys });
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.app.close();
    await triton?.close();
  });
  afterEach(async () => {
    await watched.context.close();
    expect(watched.faults).toEqual([]);
  });

  const open = async (options?: Parameters<typeof openPage>[2]) => {
    watched = await openPage(browser, `${gateway.url}/docs`, options);
    await watched.page.locator(".operation").first().waitFor();
    return watched.page;
  };

  test.each([
    ["light", 1180],
    ["dark", 320],
  ] as const)(
    "the API's page has no axe violation and no sideways scroll, %s, %i px wide",
    async (colorScheme, width) => {
      const page = await open({ colorScheme, viewport: { width, height: 900 } });
      expect(await axeViolations(page)).toEqual([]);
      expect(await sidewaysScroll(page)).toBe(0);
      await keepScreenshot(page, `docs-${colorScheme}`);
    },
  );

  test("the API's page has every operation, and sends it with the key", async () => {
    const page = await open();
    const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { paths: object };
    const operations = Object.values(paths).flatMap((methods) => Object.keys(methods));
    expect(await page.locator(".operation").count()).toBe(operations.length);
    const unfold = async (name: string) => {
      await page.getByRole("heading", { name, exact: true }).click();
      return page.getByRole("form", { name: `Try ${name}` });
    };
    const write = await unfold("POST /v1/documents");
    await write.getByLabel("Body, as JSON").fill('{ "id": "a/b", "text": "a cat" }');
    await write.getByRole("button", { name: "Send" }).click();
    await write.getByText("401: Missing API key").waitFor();
    await page.getByLabel("API key, kept in this tab").fill("sk-alice");
    await write.getByRole("button", { name: "Send" }).click();
    await write.getByText('"status": "created"').waitFor();
    const remove = await unfold("DELETE /v1/documents/{id}");
    await remove.getByLabel("id").fill("a/b");
    await remove.getByRole("button", { name: "Send" }).click();
    await remove.getByText(/^204 after /).waitFor();
    const list = await unfold("GET /v1/documents");
    await list.getByLabel("limit").fill("0");
    await list.getByRole("button", { name: "Send" }).click();
    await list.getByText("400: limit: must be 1 or more").waitFor();
  });
});

/** Output of a shell command; rejects when it fails. */
async function outputOf(line: string, cwd: string): Promise<string> {
  return (await promisify(execFile)("sh", ["-c", line], { cwd })).stdout;
}

describe("status", () => {
  /** A Triton of which some models are ready. */
  let triton: Server;

  let tritonUrl: string;

  let readyModels: ReadonlySet<string> = new Set();

  let probed: string[] = [];

  let silent: SilentPeer;

  let gateway: RunningGateway;

  beforeAll(async () => {
    triton = createServer((request, response) => {
      const [, model = ""] = /^\/v2\/models\/([^/]+)\/ready$/.exec(request.url ?? "") ?? [];
      probed.push(model);
      response.writeHead(readyModels.has(model) ? 200 : 400).end();
    });
    await new Promise<void>((resolve) => triton.listen(0, "127.0.0.1", resolve));
    tritonUrl = `http://127.0.0.1:${(triton.address() as AddressInfo).port}`;
    silent = await silentPeer();
  });

  afterAll(async () => {
    await silent?.close();
    triton.closeAllConnections();
    await new Promise((resolve) => triton.close(resolve));
  });

  afterEach(() => gateway.app.close());

  interface Row {
    readonly name: string;
    readonly latencyMilliseconds: number | null;
  }

  async function statusOf(config: GatewayConfigInput): Promise<Row[]> {
    probed = [];
    gateway = await startGateway({ log: { level: "silent" }, ...config });
    return read();
  }

  async function read(): Promise<Row[]> {
    const response = await fetch(`${gateway.url}/status`);
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    return (await response.json()) as Row[];
  }

  const encoders = () => ({
    http: tritonUrl,
    modelName: "all-MiniLM-L6-v2",
    dimension: 384,
    imageDimension: 512,
    maxBatchSize: 8,
  });

  const milliseconds = expect.any(Number);

  test("/status names each service's kind, and measures its time", async () => {
    const vision = requestProfile("multimodal", {
      image: imageProfile("mllama", "multimodal", { maxImages: 1, tokensPerImage: 0 }),
    });
    readyModels = new Set([
      "text_encoder",
      "vision_encoder",
      "llava_ensemble",
      "ensemble",
      "tensorrt_llm_bls",
      vision.tritonModel,
      vision.streamingModel,
    ]);
    const bls = requestProfile("inflight_batcher_llm", { tritonModel: "tensorrt_llm_bls" });
    const rows = await statusOf({
      encoders: encoders(),
      models: [
        { name: "smollm2", http: tritonUrl, chatTemplate: CHATML },
        { name: "base", http: tritonUrl, profile: bls },
        { name: "llava", http: tritonUrl, profile: vision },
      ],
      databases: {
        mongo: { uri: `mongodb://127.0.0.1:${databases.mongo.port}/` },
        vector: { url: `http://127.0.0.1:${databases.vector.port}` },
      },
    });
    const ready = { state: "ready", latencyMilliseconds: milliseconds };
    expect(rows).toEqual([
      {
        name: "text_encoder",
        kind: "text-encoder",
        detail: "all-MiniLM-L6-v2: text to 384 numbers",
        ...ready,
      },
      { name: "vision_encoder", kind: "image-encoder", detail: "image to 512 numbers", ...ready },
      { name: "smollm2", kind: "language-model", detail: "chat, 2,048-token context", ...ready },
      {
        name: "base",
        kind: "completion-model",
        detail: "text completion, 2,048-token context",
        ...ready,
      },
      {
        name: "llava",
        kind: "vision-language-model",
        detail: "chat with images, 2,048-token context",
        ...ready,
      },
      { name: "mongo", kind: "document-database", detail: "documents and pictures", ...ready },
      { name: "vector", kind: "vector-database", detail: "vectors of texts and pictures", ...ready },
    ]);
  });

  test("/status distinguishes starting and unavailable services, and waits a second at most", async () => {
    readyModels = new Set(["text_encoder"]);
    const gone = await freePort();
    const rows = await statusOf({
      encoders: encoders(),
      models: [
        { name: "silent", http: `http://127.0.0.1:${silent.port}`, chatTemplate: CHATML },
        { name: "gone", http: `http://127.0.0.1:${gone}`, chatTemplate: CHATML },
      ],
      databases: {
        mongo: { uri: `mongodb://127.0.0.1:${silent.port}/` },
        vector: { url: `http://127.0.0.1:${gone}` },
      },
    });
    expect(rows).toMatchObject([
      { name: "text_encoder", state: "ready", latencyMilliseconds: milliseconds },
      {
        name: "vision_encoder",
        state: "starting",
        latencyMilliseconds: null,
        detail: "its server is running, but /v2/models/vision_encoder/ready is not ready",
      },
      { name: "silent", state: "unavailable", latencyMilliseconds: null, detail: "no answer within 1000 ms" },
      {
        name: "gone",
        state: "unavailable",
        latencyMilliseconds: null,
        detail: "can't be reached (ECONNREFUSED)",
      },
      { name: "mongo", state: "unavailable", latencyMilliseconds: null, detail: "no answer within 1000 ms" },
      {
        name: "vector",
        state: "unavailable",
        latencyMilliseconds: null,
        detail: expect.stringContaining("ECONNREFUSED"),
      },
    ]);
  });

  test("/status checks a service once for many clients, and again when the result is old", async () => {
    readyModels = new Set(["text_encoder", "vision_encoder", "llava_ensemble"]);
    const begin = performance.now();
    const clock = vi.spyOn(performance, "now").mockReturnValue(begin);
    onTestFinished(() => clock.mockRestore());
    await statusOf({ encoders: encoders() });
    await Promise.all(Array.from({ length: 50 }, read));
    expect(probed.toSorted()).toEqual(["llava_ensemble", "text_encoder", "vision_encoder"]);
    readyModels = new Set();
    clock.mockReturnValue(begin + 60_000);
    expect((await read()).map((row) => row.latencyMilliseconds)).toEqual([null, null]);
  });

  test("/status needs no key, and shows no internal address", async () => {
    const rows = await statusOf({
      encoders: encoders(),
      apiKeys: [{ name: "alice", sha256: sha256("sk-alice") }],
    });
    expect(rows).toHaveLength(2);
    expect(JSON.stringify(rows)).not.toMatch(/127\.0\.0\.1|http:/);
  });
});
