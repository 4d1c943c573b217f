/** How the page looks and reads: widths, themes, motion, accessibility. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  keepScreenshot,
  launchBrowser,
  NO_BROWSER,
  openPage,
  type WatchedPage,
  withBrowser,
} from "./browser.ts";
import { documentMatch, type FakeGateway, READY, SOURCES, startFakeGateway } from "./fake-gateway.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
/** As long as an id and a word may be, without a place to break. */
const UNBROKEN = "x".repeat(256);

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("the look of the page"), () => {
  let browser: Browser;
  let gateway: FakeGateway;
  let watched: WatchedPage;
  let page: Page;

  beforeAll(async () => {
    [browser, gateway] = await Promise.all([launchBrowser(), startFakeGateway()]);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.close();
  });
  beforeEach(() => gateway.reset());
  afterEach(async () => {
    await watched.context.close();
    expect(watched.faults).toEqual([]);
  });

  async function openAnswered(options: Parameters<Browser["newContext"]>[0] = {}): Promise<void> {
    watched = await openPage(browser, gateway.url, options);
    page = watched.page;
    await page.locator("#question").fill("Which animal sits on the windowsill?");
    await page.getByRole("button", { name: "Ask" }).click();
    await page.locator("#answer").getByText("done after").waitFor();
    await page.locator("#matches .match img").last().waitFor();
  }

  async function expectNoSidewaysScroll(): Promise<void> {
    const [scrollWidth, clientWidth] = await page.evaluate<[number, number]>(
      "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
    );
    expect(scrollWidth).toBe(clientWidth);
  }

  it.each([
    ["light", "phone"],
    ["dark", "phone"],
    ["light", "wide"],
    ["dark", "wide"],
  ] as const)(
    "has no fault that axe knows and no sideways scroll, %s on a %s screen",
    async (colorScheme, size) => {
      gateway.scenario.services = READY.map((one) =>
        one.name === "mongo" ? { ...one, state: "starting" } : one,
      );
      await openAnswered({ colorScheme, ...(size === "phone" ? PHONE : {}) });
      for (const details of await page.locator("main details").all())
        await details.locator("summary").click();
      await expectNoSidewaysScroll();
      await keepScreenshot(page, `${size}-${colorScheme}`);
      await page.evaluate(AXE);
      const violations = await page.evaluate<
        { id: string; nodes: { target: string[]; failureSummary: string }[] }[]
      >(
        'axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then((found) => found.violations)',
      );
      expect(
        violations.map(({ id, nodes }) => [
          id,
          nodes.map(({ target, failureSummary }) => [target, failureSummary]),
        ]),
      ).toEqual([]);
    },
  );

  it("is dark where the reader wants it dark", async () => {
    const backgrounds: string[] = [];
    for (const colorScheme of ["light", "dark"] as const) {
      watched = await openPage(browser, gateway.url, { colorScheme });
      backgrounds.push(await watched.page.evaluate("getComputedStyle(document.body).backgroundColor"));
      if (colorScheme === "light") await watched.context.close();
    }
    expect(backgrounds).toEqual(["rgb(245, 246, 246)", "rgb(18, 22, 23)"]);
  });

  it("holds the longest ids, words and lists on a phone", async () => {
    gateway.scenario.services = [
      ...READY,
      ...Array.from({ length: 12 }, (_, index) => ({
        name: `${UNBROKEN.slice(0, 120)}${index}`,
        kind: "language-model",
        state: "away" as const,
        latencyMilliseconds: null,
        detail: `can't be reached (${UNBROKEN})`,
      })),
    ];
    gateway.scenario.match = () => ({
      matches: Array.from({ length: 20 }, (_, index) =>
        documentMatch(`${UNBROKEN.slice(0, 250)}${index}`, `${UNBROKEN} ${"word ".repeat(2000)}`, {
          metadata: { [UNBROKEN.slice(0, 128)]: UNBROKEN },
          image: null,
        }),
      ),
      fusion: null,
      via: "vectors",
    });
    gateway.scenario.answer = () => [
      ["sources", { ...SOURCES, model: UNBROKEN, note: UNBROKEN }],
      ["delta", { text: UNBROKEN.repeat(8) }],
      ["error", { error: { message: UNBROKEN } }],
    ];
    watched = await openPage(browser, gateway.url, PHONE);
    page = watched.page;
    await page.locator("#question").fill(`${UNBROKEN} '${UNBROKEN}'`);
    await page.getByRole("button", { name: "Ask" }).click();
    await page.locator("#answer-problem .notice").waitFor();
    await page.locator("#matches .match").last().waitFor();
    for (const details of await page.locator("#matches details").all())
      await details.locator("summary").click();
    await page.getByText("Options").click();
    await expectNoSidewaysScroll();
  });

  it("gives fingers enough room", async () => {
    await openAnswered(PHONE);
    const small = await page.evaluate<
      string[]
    >(`[...document.querySelectorAll("main button, main select, main textarea, main label.drop")]
      .map((target) => ({ name: target.id || target.textContent, box: target.getBoundingClientRect() }))
      .filter(({ box }) => box.height > 0 && (box.height < 32 || box.width < 44))
      .map(({ name }) => name)`);
    expect(small).toEqual([]);
    const copyHeights = await page.evaluate<number[]>(
      '[...document.querySelectorAll(".copy")].map((button) => button.offsetHeight)',
    );
    expect(copyHeights).toEqual([36, 36]);
  });

  it("shows a phone's reader that the answer begins", async () => {
    await openAnswered(PHONE);
    await expect
      .poll(() =>
        page.evaluate<number>('innerHeight - document.getElementById("answer").getBoundingClientRect().top'),
      )
      .toBeGreaterThanOrEqual(240);
  });

  it("keeps still for readers who want no motion", async () => {
    const durations: string[] = [];
    for (const reducedMotion of ["no-preference", "reduce"] as const) {
      watched = await openPage(browser, gateway.url, { reducedMotion });
      durations.push(
        await watched.page.evaluate('getComputedStyle(document.getElementById("submit")).transitionDuration'),
      );
      if (reducedMotion === "no-preference") await watched.context.close();
    }
    expect(durations).toEqual(["0.14s", "0s"]);
  });

  it("tells screen readers what happens, and the answer once, whole", async () => {
    watched = await openPage(browser, gateway.url);
    page = watched.page;
    await page.evaluate(`{
      globalThis.told = [];
      const announcer = document.getElementById("announcer");
      new MutationObserver(() => told.push(announcer.textContent)).observe(announcer, { childList: true });
    }`);
    await page.locator("#question").fill("cat");
    await page.keyboard.press("Enter");
    await page.locator("#answer").getByText("done after").waitFor();
    const told = await page.evaluate<string[]>("told");
    expect(told).toContain("3 matches.");
    expect(told.filter((sentence) => sentence.startsWith("Answer"))).toEqual([
      "Answer: The animal is a tabby cat, which sits on a windowsill.",
    ]);
    expect(await page.locator("#announcer").getAttribute("aria-live")).toBe("polite");
    expect(await page.locator("#answer [aria-live]").count()).toBe(0);
  });
});
