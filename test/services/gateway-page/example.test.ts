/** The question of the sample collection: offered where it is loaded, and asked by one click. */
import { describe, expect, it } from "vitest";
import { sampleManifest } from "../../../scripts/seed/sample-manifest.ts";
import { NO_BROWSER, withBrowser } from "./browser.ts";
import { type FakeSample, READY } from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

const { question } = sampleManifest();
const IMAGE = { url: "/v1/documents/x/image", width: 640, height: 420 };
const SAMPLES: readonly FakeSample[] = [
  { id: "sample-boats", image: IMAGE, metadata: { collection: "samples" } },
  { id: question.picture, image: IMAGE, metadata: { question: question.text } },
];

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("the question of the samples"), () => {
  const the = pageFixture();
  const offer = () => the.page.getByRole("button", { name: `Try it: ${question.text}` });

  it("is asked with its picture by one click", async () => {
    the.gateway.scenario.samples = SAMPLES;
    await the.open();
    await offer().click();
    await the.answer().getByText("done after").waitFor();
    const picture = await fetch(`${the.gateway.url}/v1/documents/${question.picture}/image`);
    const imageBytes = (await picture.arrayBuffer()).byteLength;
    expect(the.gateway.asked).toMatchObject([
      { path: "/v1/match", fields: { text: question.text }, imageBytes },
      { path: "/v1/answer", fields: { question: question.text }, imageBytes },
    ]);
    expect(await the.question().inputValue()).toBe(question.text);
    await the.page.locator("#drop").getByText(`${question.picture}.jpg`).waitFor();
  });

  it("comes with the line that fetches its picture, which a reader's own image does not", async () => {
    the.gateway.scenario.samples = SAMPLES;
    await the.open();
    await offer().click();
    const lines = the.page.locator("#requests pre");
    await expect.poll(() => lines.count()).toBe(3);
    expect(await lines.first().textContent()).toBe(
      `curl ${the.gateway.url}/v1/documents/${question.picture}/image \\\n  --output ${question.picture}.jpg`,
    );
    expect(await lines.last().textContent()).toContain(`--form image=@${question.picture}.jpg`);
    await the.page.getByRole("button", { name: "Remove image" }).click();
    await the.page.getByRole("button", { name: "Ask" }).click();
    await expect.poll(() => lines.count()).toBe(2);
  });

  it("is offered once there is a key", async () => {
    the.gateway.scenario.samples = SAMPLES;
    the.gateway.scenario.key = "secret";
    await the.open();
    await the.page.getByLabel("API key", { exact: true }).fill("secret");
    await the.page.getByRole("button", { name: "Use this key" }).click();
    await offer().waitFor();
  });

  it.each<[string, readonly FakeSample[]]>([
    ["has no question", [{ id: "sample-boats", image: IMAGE, metadata: {} }]],
    ["has lost its picture", [{ id: question.picture, image: null, metadata: { question: question.text } }]],
    ["is a document of somebody else", [{ id: "tank", image: IMAGE, metadata: { question: "Why?" } }]],
  ])("is not offered where the only sample %s", async (_what, samples) => {
    the.gateway.scenario.samples = samples;
    await the.open();
    await expect.poll(() => the.gateway.sampleLists).toBe(1);
    // The page asks for the state again after it has dealt with the list.
    const { statusRequests } = the.gateway;
    await expect.poll(() => the.gateway.statusRequests, { timeout: 15_000 }).toBeGreaterThan(statusRequests);
    expect(await the.page.locator("#example").isVisible()).toBe(false);
  });

  it("is not offered where no image can be looked for", async () => {
    the.gateway.scenario.samples = SAMPLES;
    the.gateway.scenario.services = READY.filter(({ kind }) => kind !== "image-encoder");
    await the.open();
    await expect.poll(() => the.page.locator("#example-question").textContent()).toBe(question.text);
    expect(await the.page.locator("#example").isVisible()).toBe(false);
  });
});
