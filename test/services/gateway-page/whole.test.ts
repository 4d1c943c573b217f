/** The page on the gateway itself, with both databases and fakes of the models. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { type FakeTriton, startFakeTriton } from "../gateway-retrieval/fake-triton.ts";
import {
  type Databases,
  dataUrl,
  picture,
  retrievalConfig,
  startDatabases,
} from "../gateway-retrieval/support.ts";
import { launchBrowser, NO_BROWSER, openPage, type WatchedPage, withBrowser } from "./browser.ts";

const NO_CURL = spawnSync("curl", ["--version"]).error !== undefined;

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("the page on the gateway itself"), () => {
  let browser: Browser;
  let databases: Databases;
  let triton: FakeTriton;
  let gateway: RunningGateway;
  let watched: WatchedPage;

  beforeAll(async () => {
    [browser, databases, triton] = await Promise.all([launchBrowser(), startDatabases(), startFakeTriton()]);
    gateway = await startGateway(
      retrievalConfig(triton, { mongo: databases.mongo.port, vector: databases.vector.port }),
    );
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.app.close();
    await Promise.all([triton?.close(), databases?.dispose()]);
  });
  afterEach(async () => {
    await watched.context.close();
    expect(watched.faults).toEqual([]);
  });

  const open = async () => {
    watched = await openPage(browser, gateway.url);
    return watched.page;
  };

  it("begins empty, and says so", async () => {
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

    it("finds the likest image first, and reads an answer with its sources", async () => {
      const page = await open();
      await page.locator("#question").fill("Where is the cat?");
      await page
        .locator("#file")
        .setInputFiles({ name: "query.jpg", mimeType: "image/jpeg", buffer: await query() });
      await page.getByRole("button", { name: "Ask" }).click();
      await page.locator("#answer-text").getByText("It is a cat.").waitFor();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      await page
        .locator("#answer")
        .getByText("small takes no images: the image was used to find documents")
        .waitFor();
      await page.locator("#answer").getByRole("link", { name: /^cat/ }).waitFor();
      const first = page.locator("#matches .match").first();
      await first.getByText("cat", { exact: true }).waitFor();
      await first.getByRole("img", { name: "Picture of cat" }).waitFor();
      const shares = await first.locator(".parts li").allTextContents();
      const sum = shares.reduce((total, share) => total + Number(share.split("counts ")[1]), 0);
      const score = (await first.locator(".score").textContent())?.replace("Score ", "");
      expect(Number(score)).toBeCloseTo(sum, 2);
    });

    it("offers the question of a sample, and asks it with the sample's picture", async () => {
      const page = await open();
      await page.getByRole("button", { name: "Try it: Which animal is on the lawn?" }).click();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      await page.locator("#drop").getByText("sample-dog.jpg").waitFor();
      await page.locator("#match-sample-dog").getByText("Picture: place 1, similarity 1.000").waitFor();
    });

    it.skipIf(NO_CURL)("does the same from a terminal (skipped without curl)", async () => {
      const page = await open();
      await page.locator("#question").fill("it's a `cat`, isn't it?");
      await page
        .locator("#file")
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

    it("says what is away, in the gateway's words, and goes on when it is back", async () => {
      const page = await open();
      await page.locator("#overall").getByText("All 6 services ready").waitFor();
      await databases.vector.kill();
      await page.locator("#overall").getByText("vector is away").waitFor();
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

/** What a shell command prints; it has to succeed. */
async function outputOf(line: string, cwd: string): Promise<string> {
  return (await promisify(execFile)("sh", ["-c", line], { cwd })).stdout;
}
