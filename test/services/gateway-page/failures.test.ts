/** API keys, and everything that goes wrong behind the page. */
import { describe, expect, it } from "vitest";
import { keepScreenshot, NO_BROWSER, withBrowser } from "./browser.ts";
import { Refusal, SOURCES } from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("keys and failures on the page"), () => {
  const the = pageFixture();

  describe("an API key", () => {
    it("is asked for, kept by the tab alone, sent with everything, and forgotten", async () => {
      the.gateway.scenario.key = "sk-right";
      await the.open();
      await the.page
        .getByText("No API key was given; send it as Authorization: Bearer KEY.")
        .first()
        .waitFor();
      await keepScreenshot(the.page, "key");
      await the.page.getByLabel("API key", { exact: true }).fill("sk-wrong");
      await the.page.getByRole("button", { name: "Use this key" }).click();
      await the.page
        .locator("#key-reason")
        .getByText("The API key is not known here; check it for typing errors.")
        .waitFor();
      await the.page.getByLabel("API key", { exact: true }).fill("sk-right");
      await the.page.keyboard.press("Enter");
      await the.page.locator("#key-form").waitFor({ state: "hidden" });
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.answer().getByText("done after").waitFor();
      await the.matches().first().getByRole("img").waitFor();
      expect(the.gateway.asked.map(({ authorization }) => authorization)).toEqual([
        "Bearer sk-right",
        "Bearer sk-right",
      ]);
      const lines = await the.page.locator("#requests pre").allTextContents();
      expect(lines.join()).toContain('--header "authorization: Bearer $ENGINE_ROOM_API_KEY"');
      expect(await the.page.content()).not.toContain("sk-right");
      expect(await the.page.evaluate("[localStorage.length, document.cookie, location.search]")).toEqual([
        0,
        "",
        "",
      ]);
      await the.page.getByRole("button", { name: "Forget key" }).click();
      await the.page.locator("#key-form").waitFor();
      expect(await the.page.evaluate("sessionStorage.length")).toBe(0);
    });

    it("that is asked for in the middle lets the question go on", async () => {
      await the.open();
      await the.question().fill("cat");
      the.gateway.scenario.key = "sk-new";
      await the.question().press("Enter");
      await the.page.locator("#key-form").waitFor();
      await the.page.getByLabel("API key", { exact: true }).fill("sk-new");
      await the.page.keyboard.press("Enter");
      await the.answer().getByText("done after").waitFor();
      expect(await the.matches().count()).toBe(3);
    });
  });

  describe("what goes wrong", () => {
    it("is said in the API's own sentences", async () => {
      the.gateway.scenario.match = () => {
        throw new Refusal(
          503,
          "The vector database (vector) can't be reached; it may be starting. Try again in 5 s.",
        );
      };
      the.gateway.scenario.answer = () => [
        ["sources", SOURCES],
        ["delta", { text: "A half " }],
        ["error", { error: { message: "The Triton server of smollm2 broke off its answer; try again." } }],
      ];
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.page
        .locator("#matches")
        .getByText("The vector database (vector) can't be reached; it may be starting.")
        .waitFor();
      await the.answer().getByText("The Triton server of smollm2 broke off its answer; try again.").waitFor();
      await the.answer().getByText("A half").waitFor();
      await the.answer().getByText("Not complete.").waitFor();
      await keepScreenshot(the.page, "errors");
    });

    it("an answer that ends before its end is one", async () => {
      the.gateway.scenario.answer = () => [
        ["sources", SOURCES],
        ["delta", { text: "A half" }],
      ];
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the
        .answer()
        .getByText("The answer broke off: the connection to the gateway was lost. Try again.")
        .waitFor();
    });

    it("a picture that is gone leaves its match", async () => {
      the.gateway.scenario.match = () => ({
        matches: [
          {
            id: "lost",
            score: 1,
            scores: {},
            text: "It was here.",
            metadata: {},
            image: "/v1/documents/lost/image",
          },
        ],
        fusion: null,
        via: "vectors",
      });
      await the.open();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.matches().first().getByText("No picture: There is no document lost.").waitFor();
      await the.matches().first().getByText("It was here.").waitFor();
    });

    it("a gateway that is gone is told, and found again", async () => {
      await the.open();
      await the.question().waitFor();
      await the.page.route("**/*", (route) => route.abort());
      await the.page.locator("#overall").getByText("gateway is away").waitFor();
      await the.question().fill("cat");
      await the.question().press("Enter");
      await the.answer().getByText("The gateway does not answer; it may have been stopped.").waitFor();
      await the.page.unroute("**/*");
      await the.page.locator("#overall").getByText("All 6 services ready").waitFor();
    });
  });
});
