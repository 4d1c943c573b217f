/** Images given to the page, and what is done with them. */
import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { keepScreenshot, NO_BROWSER, withBrowser } from "./browser.ts";
import { READY } from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("images on the page"), () => {
  const the = pageFixture();

  describe("an image", () => {
    const png = () =>
      sharp({ create: { width: 90, height: 60, channels: 3, background: "teal" } })
        .png()
        .toBuffer();

    /** Expression of a DataTransfer that holds the picture as a file. */
    const transferOf = async (name: string, type: string) => {
      const base64 = (await png()).toString("base64");
      return `(() => {
        const bytes = Uint8Array.from(atob(${JSON.stringify(base64)}), (letter) => letter.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([bytes], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
        return transfer;
      })()`;
    };

    async function drop(target: string, name: string, type = "image/png"): Promise<void> {
      const dataTransfer = await the.page.evaluateHandle(await transferOf(name, type));
      await the.page.dispatchEvent(target, "dragenter", { dataTransfer });
      await the.page.dispatchEvent(target, "dragover", { dataTransfer });
      expect(await the.page.locator("#drop[data-over]").count()).toBe(1);
      await the.page.dispatchEvent(target, "drop", { dataTransfer });
      expect(await the.page.locator("#drop[data-over]").count()).toBe(0);
    }

    async function paste(name: string): Promise<void> {
      const transfer = await transferOf(name, "image/png");
      await the.page.evaluate(
        `document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: ${transfer}, bubbles: true, cancelable: true }))`,
      );
    }

    it("is dropped, and both searches and their fusion are explained", async () => {
      await the.open();
      await drop("#drop", "my cat.png");
      await the.page.locator("#preview").waitFor();
      await the.page.locator("#drop").getByText("my cat.png").waitFor();
      await the.question().fill("Which animal is it?");
      await the.page.getByRole("button", { name: "Ask" }).click();
      await the.answer().getByText("done after").waitFor();
      const bytes = (await png()).length;
      expect(the.gateway.asked).toMatchObject([
        { path: "/v1/match", fields: { text: "Which animal is it?", topK: 5 }, imageBytes: bytes },
        { path: "/v1/answer", fields: { question: "Which animal is it?", stream: true }, imageBytes: bytes },
      ]);
      await the.page.getByText("a place counts 1 ÷ (1 + place), and the sum is the score").waitFor();
      const second = the.matches().nth(1);
      await second.getByText("Words: place 3, similarity 0.301, counts 0.250").waitFor();
      await second.getByText("Picture: place 2, similarity 0.402, counts 0.333").waitFor();
      await the.matches().nth(2).getByText("Picture: not in this list").waitFor();
      await keepScreenshot(the.page, "answer-light");
    });

    it("is taken wherever it falls, and from the clipboard", async () => {
      await the.open();
      await drop("h1", "beside.png");
      await the.page.locator("#drop").getByText("beside.png").waitFor();
      await paste("pasted.png");
      await the.page.locator("#drop").getByText("pasted.png").waitFor();
      await the.page.getByRole("button", { name: "Find only" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked).toMatchObject([{ path: "/v1/match", fields: { topK: 5 } }]);
      expect(the.gateway.asked[0]?.imageBytes).toBeGreaterThan(0);
    });

    it("is found alone, without an answer, when there is no question", async () => {
      await the.open();
      await the.page
        .locator("#file")
        .setInputFiles({ name: "a.png", mimeType: "image/png", buffer: await png() });
      await the.page.getByRole("button", { name: "Ask" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
      await the.page
        .locator("#notices")
        .getByText("Add a question to get an answer in words as well.")
        .waitFor();
    });

    it("is removed again", async () => {
      await the.open();
      await the.page
        .locator("#file")
        .setInputFiles({ name: "a.png", mimeType: "image/png", buffer: await png() });
      await the.page.getByRole("button", { name: "Remove image" }).click();
      expect(await the.page.locator("#preview").isVisible()).toBe(false);
      expect(await the.focusedId()).toBe("file");
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.matches().first().waitFor();
      expect(the.gateway.asked[0]?.imageBytes).toBeUndefined();
    });

    it("is refused in a sentence when it is none", async () => {
      await the.open();
      await drop("#drop", "notes.pdf", "application/pdf");
      await the.page
        .locator("#notices")
        .getByText("notes.pdf is no image; give a JPEG, PNG or WebP file.")
        .waitFor();
    });
  });

  it("offers what several models can do", async () => {
    the.gateway.scenario.services = [
      ...READY,
      {
        name: "llava",
        kind: "vision-language-model",
        state: "starting",
        latencyMilliseconds: null,
        detail: "Triton answers, and its model ensemble is not ready",
      },
    ];
    await the.open();
    await the.page.locator("#file").setInputFiles({
      name: "a.png",
      mimeType: "image/png",
      buffer: await sharp({ create: { width: 8, height: 8, channels: 3, background: "red" } })
        .png()
        .toBuffer(),
    });
    await the.page.getByText("Options").click();
    await the.page.getByLabel("Matches 3").selectOption("10");
    await the.page.getByLabel("Model").selectOption("llava");
    await the.page.getByLabel("Image is compared by").selectOption("its description in words");
    the.gateway.scenario.match = () => ({
      matches: [],
      fusion: null,
      via: "describe",
      description: "a red square",
    });
    await the.question().fill("What is it?");
    await the.page.getByRole("button", { name: "Ask" }).click();
    await the.answer().getByText("done after").waitFor();
    expect(the.gateway.asked.map(({ fields }) => fields)).toEqual([
      { topK: 10, via: "describe" },
      { question: "What is it?", topK: 10, model: "llava", stream: true },
    ]);
  });
});
