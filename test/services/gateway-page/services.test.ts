/** The states of services on the page, and gateways that lack some of them. */
import { describe, expect, it } from "vitest";
import { keepScreenshot, NO_BROWSER, withBrowser } from "./browser.ts";
import { END, READY } from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("services on the page"), () => {
  const the = pageFixture();

  describe("services", () => {
    it("are shown with their states, and followed while the page is seen", async () => {
      the.gateway.scenario.services = READY.map((one) =>
        one.name === "vector"
          ? {
              ...one,
              state: "away" as const,
              latencyMilliseconds: null,
              detail: "it does not answer (ECONNREFUSED)",
            }
          : one,
      );
      await the.open();
      await the.page.locator("#overall").getByText("vector is away").waitFor();
      await the.page
        .locator("#notices")
        .getByText("vector is away: it does not answer (ECONNREFUSED). Searches fail until it is ready.")
        .waitFor();
      await keepScreenshot(the.page, "vector-away");
      the.gateway.scenario.services = READY;
      await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
      await the.page.locator("#service-list").getByText("4.7 ms").waitFor();
      expect(await the.page.locator("#notices").textContent()).toBe("");
    });

    it("are not asked while the page is hidden", async () => {
      await the.open();
      await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
      const setHidden = (isHidden: boolean) =>
        the.page.evaluate(
          `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`,
        );
      await the.page.clock.install();
      await setHidden(true);
      const before = the.gateway.statusRequests;
      await the.page.clock.runFor(60_000);
      await the.page.evaluate('fetch("status")');
      expect(the.gateway.statusRequests).toBe(before + 1);
      await setHidden(false);
      await expect.poll(() => the.gateway.statusRequests).toBe(before + 2);
    });
  });

  describe("a gateway without", () => {
    const without = (...kinds: string[]) => READY.filter(({ kind }) => !kinds.includes(kind));

    it("documents says how to load some, until there are", async () => {
      the.gateway.scenario.documents = 0;
      await the.open();
      await the.page.locator("#notices").getByText("There are no documents yet.").waitFor();
      await the.page.getByText("npm run seed", { exact: true }).waitFor();
      await keepScreenshot(the.page, "no-documents");
      the.gateway.scenario.documents = 3;
      await the.page.getByText("There are no documents yet.").waitFor({ state: "hidden" });
    });

    it("matches says so", async () => {
      the.gateway.scenario.match = () => ({ matches: [], fusion: null, via: "vectors" });
      the.gateway.scenario.answer = () => [
        [
          "sources",
          { sources: [], model: "smollm2", imageUsed: false, note: "No document with a text was found." },
        ],
        ["done", { ...END, usage: { ...END.usage, completion_tokens: 0 } }],
      ];
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.page.getByText("Nothing was found.").waitFor();
      await the.answer().getByText("No document with a text was found.").waitFor();
    });

    it("databases has no question box, says why, and shows what it has", async () => {
      the.gateway.scenario.services = without("document-database", "vector-database");
      await the.open();
      await the.page
        .getByText("There is nothing to search: this gateway's configuration names no databases.")
        .waitFor();
      expect(await the.question().isVisible()).toBe(false);
      const line = await the.page.locator("#requests pre").textContent();
      expect(line).toContain("/v1/chat/completions");
      await keepScreenshot(the.page, "no-databases");
    });

    it("a language model finds only", async () => {
      the.gateway.scenario.services = without("language-model");
      await the.open();
      await the.page.getByText("You get matches and no answer in words").waitFor();
      await the.question().fill("cat");
      await the.page.getByRole("button", { name: "Find", exact: true }).click();
      await the.matches().first().waitFor();
      expect(the.gateway.asked.map(({ path }) => path)).toEqual(["/v1/match"]);
      expect(await the.page.getByRole("button", { name: "Find only" }).isVisible()).toBe(false);
    });

    it("an image encoder takes words only", async () => {
      the.gateway.scenario.services = without("image-encoder");
      await the.open();
      await the.page.getByText("A search takes words only").waitFor();
      expect(await the.page.locator("#drop").isVisible()).toBe(false);
    });
  });
});
