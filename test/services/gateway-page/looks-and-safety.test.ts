/** How the page looks and reads, what it does with text that wants to be markup, and how its files are served. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { needs } from "../../harness/needs.ts";
import { AT_NIGHT } from "../../harness/thorough.ts";
import { keepScreenshot, launchBrowser, NO_BROWSER, openPage, type WatchedPage } from "./browser.ts";
import {
  documentMatch,
  END,
  type FakeGateway,
  READY,
  Refusal,
  SOURCES,
  startFakeGateway,
} from "./fake-gateway.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

/** As long as an id and a word may be, without a place to break. */
const UNBROKEN = "x".repeat(256);

let browser: Browser | undefined;
let gateway: FakeGateway;
let watched: WatchedPage;
let page: Page;

beforeAll(async () => {
  if (NO_BROWSER === undefined) browser = await launchBrowser();
  gateway = await startFakeGateway();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.close();
});
beforeEach(() => gateway.reset());

async function open(options: Parameters<Browser["newContext"]>[0] = {}): Promise<void> {
  if (browser === undefined) throw new Error("this test needs the browser");
  watched = await openPage(browser, gateway.url, options);
  page = watched.page;
}

describe("looks", needs(NO_BROWSER ?? AT_NIGHT), () => {
  afterEach(async () => {
    await watched.context.close();
    expect(watched.faults).toEqual([]);
  });

  async function openAnswered(options: Parameters<Browser["newContext"]>[0] = {}): Promise<void> {
    await open(options);
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

  const looks = [
    ["light", "phone"],
    ["dark", "wide"],
    ["dark", "phone"],
    ["light", "wide"],
  ] as const;

  test.each(looks)(
    "the page has no axe violation and no sideways scroll, %s on a %s screen",
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

  test("the page is dark for a reader who prefers dark", async () => {
    const backgrounds: string[] = [];
    for (const colorScheme of ["light", "dark"] as const) {
      await open({ colorScheme });
      backgrounds.push(await watched.page.evaluate("getComputedStyle(document.body).backgroundColor"));
      if (colorScheme === "light") await watched.context.close();
    }
    expect(backgrounds).toEqual(["rgb(245, 246, 246)", "rgb(18, 22, 23)"]);
  });

  test("a phone's page holds the longest ids, words and lists", async () => {
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
    await open(PHONE);
    await page.locator("#question").fill(`${UNBROKEN} '${UNBROKEN}'`);
    await page.getByRole("button", { name: "Ask" }).click();
    await page.locator("#answer-problem .notice").waitFor();
    await page.locator("#matches .match").last().waitFor();
    for (const details of await page.locator("#matches details").all())
      await details.locator("summary").click();
    await page.getByText("Options").click();
    await expectNoSidewaysScroll();
  });

  test("buttons on a phone are large enough for fingers", async () => {
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

  test("a phone's page scrolls to the answer as it begins", async () => {
    await openAnswered(PHONE);
    await expect
      .poll(() =>
        page.evaluate<number>('innerHeight - document.getElementById("answer").getBoundingClientRect().top'),
      )
      .toBeGreaterThanOrEqual(240);
  });

  test("the page does not move for a reader who wants no motion", async () => {
    const durations: string[] = [];
    for (const reducedMotion of ["no-preference", "reduce"] as const) {
      await open({ reducedMotion });
      durations.push(
        await watched.page.evaluate('getComputedStyle(document.getElementById("submit")).transitionDuration'),
      );
      if (reducedMotion === "no-preference") await watched.context.close();
    }
    expect(durations).toEqual(["0.14s", "0s"]);
  });

  test("screen readers get every event, and the answer once, whole", async () => {
    await open();
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

describe("safety", () => {
  const MARKUP = [
    "<img src=x onerror=\"globalThis.owned = 'image'\">",
    "<script>globalThis.owned = 'script'</script>",
    "<svg/onload=globalThis.owned='svg'>",
    '"><iframe srcdoc="<script>top.owned=\'frame\'</script>">',
    "<a href=\"javascript:globalThis.owned='link'\">a</a>",
    "</textarea><style>*{display:none}</style>{{7*7}}",
  ].join(" ");

  describe("markup", needs(NO_BROWSER), () => {
    afterEach(async () => {
      expect(await page.evaluate("globalThis.owned")).toBeUndefined();
      expect(watched.faults).toEqual([]);
      await watched.context.close();
    });
    async function ask(): Promise<void> {
      await open();
      await page.locator("#question").fill(MARKUP);
      await page.locator("#question").press("Enter");
    }

    test("markup from any source is shown as text", async () => {
      gateway.scenario.services = [
        ...READY,
        { name: MARKUP, kind: MARKUP, state: "away", latencyMilliseconds: null, detail: MARKUP },
      ];
      gateway.scenario.match = () => ({
        matches: [
          documentMatch(MARKUP, MARKUP, { metadata: { [MARKUP]: MARKUP } }),
          documentMatch("cat", "cat"),
        ],
        fusion: null,
        via: "describe",
        description: MARKUP,
      });
      const sources = [{ id: MARKUP, text: MARKUP, score: 1, image: null }];
      gateway.scenario.answer = () => [
        ["sources", { ...SOURCES, sources, model: MARKUP, note: MARKUP }],
        ["delta", { text: MARKUP }],
        ["done", END],
      ];
      await ask();
      await page.locator("#answer-facts").getByText("done after").waitFor();
      const shown = (selector: string) => page.locator(selector).first().textContent();
      expect(await shown("#answer-text")).toBe(MARKUP);
      expect(await shown("#answer-sources .notice")).toBe(MARKUP);
      expect(await shown("#answer-sources a b")).toBe(MARKUP);
      expect(await shown(".match-id")).toBe(MARKUP);
      expect(await shown("#matches q")).toBe(MARKUP);
      expect(JSON.parse((await shown(".match pre")) ?? "")).toEqual({ [MARKUP]: MARKUP });
      expect(await shown("#service-list li:last-child .service-name")).toBe(MARKUP);
      expect(await page.locator("main iframe, main script, main style, main svg, .match a").count()).toBe(0);
      await page.locator("#matches img").nth(1).waitFor();
    });

    test("markup in errors is shown as text", async () => {
      gateway.scenario.match = () => {
        throw new Refusal(400, MARKUP);
      };
      gateway.scenario.answer = () => [["error", { error: { message: MARKUP } }]];
      await ask();
      expect(await page.locator("#matches .notice").textContent()).toBe(MARKUP);
      expect(await page.locator("#answer-problem .notice").textContent()).toBe(MARKUP);
    });

    test("a picture on another host is not loaded", async () => {
      gateway.scenario.match = () => ({
        matches: [documentMatch("cat", "cat", { image: "https://example.org/cat.jpg" })],
        fusion: null,
        via: "vectors",
      });
      await ask();
      await page.getByText("No picture: it is on another host, from which this page takes none.").waitFor();
    });

    test("the content security policy stops markup, too", async () => {
      await ask();
      const blocked = await page.evaluate<string>(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'parsed'; } catch (error) { return error.name; } })()",
      );
      expect(blocked).toBe("TypeError");
      await expect.poll(() => watched.faults.join()).toContain("policy: require-trusted-types-for");
      watched.faults.length = 0;
    });
  });

  describe("the page's files", () => {
    const files = ["/", "/page/main.js", "/page/base.css", "/page/icon.svg"];

    test.each([
      ["/", "text/html; charset=utf-8"],
      ["/page/main.js", "text/javascript; charset=utf-8"],
      ["/page/base.css", "text/css; charset=utf-8"],
      ["/page/icon.svg", "image/svg+xml"],
    ])("the page's file %s has its type and the page's own policy", async (path, mediaType) => {
      const response = await fetch(gateway.url + path);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe(mediaType);
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      const policy = response.headers.get("content-security-policy")?.split("; ") ?? [];
      expect(policy).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ]);
    });

    test("the page's files are not sent again while they are unchanged", async () => {
      for (const path of files) {
        const first = await fetch(gateway.url + path);
        const etag = first.headers.get("etag") ?? "";
        expect(first.headers.get("cache-control")).toBe("no-cache");
        for (const header of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
          const again = await fetch(gateway.url + path, { headers: { "if-none-match": header } });
          expect([again.status, await again.text(), again.headers.get("etag")]).toEqual([304, "", etag]);
        }
        const changed = await fetch(gateway.url + path, { headers: { "if-none-match": '"other"' } });
        expect(await changed.text()).toBe(await first.text());
      }
    });

    test("the server has no other files than the page's", async () => {
      for (const path of [
        "/index.html",
        "/tsconfig.json",
        "/page/",
        "/page/../index.html",
        "/page/%2e%2e%2ftsconfig.json",
        "/page/main",
      ]) {
        expect((await fetch(gateway.url + path)).status, path).toBe(404);
      }
    });

    test("the page names no file of another host", async () => {
      const page = await (await fetch(gateway.url)).text();
      const names = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name]) => name ?? "");
      expect(names.filter((name) => /^[a-z]+:|^\/\//i.test(name))).toEqual([]);
      for (const name of new Set(names.filter((name) => name.startsWith("page/")))) {
        expect((await fetch(`${gateway.url}/${name}`)).status, name).toBe(200);
      }
    });
  });
});
