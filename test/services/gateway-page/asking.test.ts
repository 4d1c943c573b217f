/** Questions to the page, by mouse and by keyboard, on an API that does what each test wants. */
import { EventEmitter, once } from "node:events";
import { describe, expect, it } from "vitest";
import { NO_BROWSER, withBrowser } from "./browser.ts";
import { END, SOURCES } from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

const never = () => new Promise(() => undefined);

function openable(): { readonly opened: Promise<void>; open(): void } {
  const events = new EventEmitter();
  return { opened: once(events, "open").then(() => undefined), open: () => events.emit("open") };
}

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("asking the page"), () => {
  const the = pageFixture();

  describe("a question", () => {
    it("is answered piece by piece, with its sources and the matches beside it", async () => {
      const gate = openable();
      the.gateway.scenario.answer = async function* () {
        yield ["sources", SOURCES];
        yield ["delta", { text: "The animal is " }];
        await gate.opened;
        yield ["delta", { text: "a tabby cat." }];
        yield ["done", END];
      };
      await the.open();
      await the.question().fill("Which animal is it?");
      await the.page.getByRole("button", { name: "Ask" }).click();

      await the.page.getByText("The animal is", { exact: true }).waitFor();
      await the.answer().getByText("smollm2 is writing…").waitFor();
      expect(await the.answer().getByRole("listitem").count()).toBe(2);
      await the.page.getByRole("button", { name: "Stop" }).waitFor();
      gate.open();
      await the.answer().getByText("The animal is a tabby cat.").waitFor();
      await the
        .answer()
        .getByText(/^smollm2 · 12 tokens · first words after .+ · done after /)
        .waitFor();
      await the.page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" });

      expect(await the.matches().count()).toBe(3);
      const first = the.matches().first();
      await first.getByText("A tabby cat sits on a windowsill").waitFor();
      await first.getByRole("img", { name: "Picture of cat" }).waitFor();
      expect(await the.page.locator("#matches .score").allTextContents()).toEqual([
        "Score 0.712",
        "Score 0.322",
        "Score 0.301",
      ]);
      expect(await the.page.locator(".parts").count()).toBe(0);
      await the.page
        .getByText("ordered by cosine similarity of the words and the documents' texts")
        .waitFor();
      expect(the.gateway.asked.map(({ path, fields }) => ({ path, fields }))).toEqual([
        { path: "/v1/match", fields: { text: "Which animal is it?", topK: 5 } },
        { path: "/v1/answer", fields: { question: "Which animal is it?", topK: 5, stream: true } },
      ]);
    });

    it("leads from a source to its match", async () => {
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the
        .answer()
        .getByRole("link", { name: /^harbour/ })
        .click();
      await the.page.locator(".match:target").getByText("harbour", { exact: true }).waitFor();
      expect(await the.focusedId()).toBe("match-harbour");
    });

    it("is stopped, on both ends", async () => {
      the.gateway.scenario.answer = async function* () {
        yield ["sources", SOURCES];
        yield ["delta", { text: "The beginning" }];
        await never();
      };
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.page.getByText("The beginning").waitFor();
      await the.page.getByRole("button", { name: "Stop" }).click();
      await the.answer().getByText("Stopped.").waitFor();
      await the.page.getByText("The beginning").waitFor();
      await expect.poll(() => the.gateway.leftAnswers).toBe(1);
      expect(await the.focusedId()).toBe("submit");
    });

    it("takes the place of the one before, of which nothing more is shown", async () => {
      the.gateway.scenario.answer = async function* ({ fields }) {
        yield ["sources", SOURCES];
        yield ["delta", { text: `About ${fields.question}. ` }];
        if (fields.question === "first") await never();
        yield ["done", END];
      };
      await the.open();
      await the.question().fill("first");
      await the.question().press("Enter");
      await the.answer().getByText("About first.").waitFor();
      await the.question().fill("second");
      await the.question().press("Enter");
      await the.answer().getByText("About second.").waitFor();
      await the.answer().getByText("done after").waitFor();
      expect(await the.answer().textContent()).not.toContain("first.");
      await expect.poll(() => the.gateway.leftAnswers).toBe(1);
    });

    it("is only looked for where that is wanted", async () => {
      await the.open();
      await the.question().fill("cat");
      await the.page.getByRole("button", { name: "Find only" }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
      expect(await the.answer().isVisible()).toBe(false);
    });

    it("has to be there", async () => {
      await the.open();
      await the.page.getByRole("button", { name: "Ask" }).click();
      await the.page.locator("#notices").getByText("Write a question or add an image first.").waitFor();
      expect(await the.focusedId()).toBe("question");
      expect(the.gateway.asked).toEqual([]);
    });
  });

  describe("with the keyboard alone", () => {
    it("a question is asked, a source is followed, and focus is always seen", async () => {
      await the.open();
      await the.question().waitFor();
      await the.page.keyboard.type("Which animal is it?");
      await the.page.keyboard.press("Enter");
      await the.answer().getByText("done after").waitFor();
      const visited: string[] = [];
      for (let steps = 0; steps < 40 && !visited.includes("Copy"); steps++) {
        await the.page.keyboard.press("Tab");
        const [name, outline] = await the.page.evaluate<[string, string]>(`(() => {
          const focused = document.activeElement;
          const shown = focused.id === "file" ? focused.closest("label") : focused;
          const name = focused.id || focused.firstChild?.textContent || focused.tagName;
          return [name, getComputedStyle(shown).outlineStyle];
        })()`);
        visited.push(name);
        expect(outline, `focus on ${name}`).toBe("solid");
      }
      expect(visited).toEqual(["file", "submit", "find-only", "Options", ...visited.slice(4)]);
      expect(visited).toContain("Metadata");
      expect(visited).toContain("Copy");
      await the.page.getByRole("link", { name: "Skip to the question" }).focus();
      await the.page.keyboard.press("Enter");
      expect(await the.focusedId()).toBe("main");
    });

    it("Escape stops an answer", async () => {
      the.gateway.scenario.answer = async function* () {
        yield ["sources", SOURCES];
        await never();
      };
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.answer().getByText("smollm2 is reading…").waitFor();
      await the.page.keyboard.press("Escape");
      await the.answer().getByText("Stopped.").waitFor();
    });

    it("Shift and Enter begin a line", async () => {
      await the.open();
      await the.question().fill("a");
      await the.question().press("Shift+Enter");
      expect(await the.question().inputValue()).toBe("a\n");
      expect(the.gateway.asked).toEqual([]);
    });
  });
});
