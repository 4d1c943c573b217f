/** Look and accessibility of the page, text with markup in it, and responses with its files. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { needs } from "../../harness/requirements.ts";
import { AT_NIGHT } from "../../harness/thorough.ts";
import { axeViolations, keepScreenshot, NO_BROWSER, sidewaysScroll } from "./browser.ts";
import {
  documentMatch,
  END,
  type FakeGateway,
  READY,
  Refusal,
  SOURCES,
  startFakeGateway,
} from "./fake-gateway.ts";
import { pageFixture } from "./page-fixture.ts";

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

/** Maximum length of an id and a word, without a place to break. */
const UNBROKEN = "x".repeat(256);

describe("looks", needs(NO_BROWSER ?? AT_NIGHT), () => {
  const the = pageFixture();

  async function openAnswered(options: Parameters<typeof the.open>[0]): Promise<void> {
    await the.open(options);
    await the.question().fill("Which animal sits on the windowsill?");
    await the.page.getByRole("button", { name: "Ask" }).click();
    await the.answer().getByText("done after").waitFor();
    await the.page.locator("#matches .match img").last().waitFor();
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
      the.gateway.scenario.services = READY.map((one) =>
        one.name === "mongo" ? { ...one, state: "starting" } : one,
      );
      await openAnswered({ colorScheme, ...(size === "phone" ? PHONE : {}) });
      const violations = await axeViolations(the.page);
      expect(await sidewaysScroll(the.page)).toBe(0);
      await keepScreenshot(the.page, `${size}-${colorScheme}`);
      expect(violations).toEqual([]);
    },
  );

  test("the page is dark for a reader who prefers dark", async () => {
    const backgrounds: string[] = [];
    for (const colorScheme of ["light", "dark"] as const) {
      await the.open({ colorScheme });
      backgrounds.push(await the.page.evaluate("getComputedStyle(document.body).backgroundColor"));
      if (colorScheme === "light") await the.watched.context.close();
    }
    expect(backgrounds).toEqual(["rgb(245, 246, 246)", "rgb(18, 22, 23)"]);
  });

  test("a phone's page fits the longest ids, words and lists", async () => {
    the.gateway.scenario.services = [
      ...READY,
      ...Array.from({ length: 12 }, (_, index) => ({
        name: `${UNBROKEN.slice(0, 120)}${index}`,
        kind: "language-model",
        state: "unavailable" as const,
        latencyMilliseconds: null,
        detail: `can't be reached (${UNBROKEN})`,
      })),
    ];
    the.gateway.scenario.match = () => ({
      matches: Array.from({ length: 20 }, (_, index) =>
        documentMatch(`${UNBROKEN.slice(0, 250)}${index}`, `${UNBROKEN} ${"word ".repeat(2000)}`, {
          metadata: { [UNBROKEN.slice(0, 128)]: UNBROKEN },
          image: null,
        }),
      ),
      fusion: null,
      via: "vectors",
    });
    the.gateway.scenario.answer = () => [
      ["sources", { ...SOURCES, model: UNBROKEN, note: UNBROKEN }],
      ["delta", { text: UNBROKEN.repeat(8) }],
      ["error", { error: { message: UNBROKEN } }],
    ];
    await the.open(PHONE);
    await the.page.locator("#question").fill(`${UNBROKEN} '${UNBROKEN}'`);
    await the.page.getByRole("button", { name: "Ask" }).click();
    await the.page.locator("#answer-problem .notice").waitFor();
    await the.page.locator("#matches .match").last().waitFor();
    for (const details of await the.page.locator("#matches details").all())
      await details.locator("summary").click();
    await the.page.getByText("Options").click();
    expect(await sidewaysScroll(the.page)).toBe(0);
  });

  test("buttons on a phone are large enough for fingers", async () => {
    await openAnswered(PHONE);
    const small = await the.page.evaluate<
      string[]
    >(`[...document.querySelectorAll("main button, main select, main textarea, main label.drop")]
      .map((target) => ({ name: target.id || target.textContent, box: target.getBoundingClientRect() }))
      .filter(({ box }) => box.height > 0 && (box.height < 32 || box.width < 44))
      .map(({ name }) => name)`);
    expect(small).toEqual([]);
    const copyHeights = await the.page.evaluate<number[]>(
      '[...document.querySelectorAll(".copy")].map((button) => button.offsetHeight)',
    );
    expect(copyHeights).toEqual([36, 36]);
  });

  test("a phone's page scrolls to the answer as it begins", async () => {
    await openAnswered(PHONE);
    await expect
      .poll(() =>
        the.page.evaluate<number>(
          'innerHeight - document.getElementById("answer").getBoundingClientRect().top',
        ),
      )
      .toBeGreaterThanOrEqual(240);
  });

  test("the page does not move for a reader who prefers reduced motion", async () => {
    const durations: string[] = [];
    for (const reducedMotion of ["no-preference", "reduce"] as const) {
      await the.open({ reducedMotion });
      durations.push(
        await the.page.evaluate('getComputedStyle(document.getElementById("submit")).transitionDuration'),
      );
      if (reducedMotion === "no-preference") await the.watched.context.close();
    }
    expect(durations).toEqual(["0.14s", "0s"]);
  });

  test("screen readers get every event, and the complete answer once", async () => {
    await the.open();
    await the.page.evaluate(`{
      globalThis.told = [];
      const announcer = document.getElementById("announcer");
      new MutationObserver(() => told.push(announcer.textContent)).observe(announcer, { childList: true });
    }`);
    await the.page.locator("#question").fill("cat");
    await the.page.keyboard.press("Enter");
    await the.page.locator("#answer").getByText("done after").waitFor();
    const told = await the.page.evaluate<string[]>("told");
    expect(told).toContain("3 matches.");
    expect(told.filter((sentence) => sentence.startsWith("Answer"))).toEqual([
      "Answer: The animal is a tabby cat, which sits on a windowsill.",
    ]);
    expect(await the.page.locator("#announcer").getAttribute("aria-live")).toBe("polite");
    expect(await the.page.locator("#answer [aria-live]").count()).toBe(0);
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
    const the = pageFixture();
    afterEach(async () => expect(await the.page.evaluate("globalThis.owned")).toBeUndefined());

    test("markup from any source is shown as text", async () => {
      the.gateway.scenario.services = [
        ...READY,
        { name: MARKUP, kind: MARKUP, state: "unavailable", latencyMilliseconds: null, detail: MARKUP },
      ];
      the.gateway.scenario.match = () => ({
        matches: [
          documentMatch(MARKUP, MARKUP, { metadata: { [MARKUP]: MARKUP } }),
          documentMatch("cat", "cat"),
        ],
        fusion: null,
        via: "describe",
        description: MARKUP,
      });
      const sources = [{ id: MARKUP, text: MARKUP, score: 1, image: null }];
      the.gateway.scenario.answer = () => [
        ["sources", { ...SOURCES, sources, model: MARKUP, note: MARKUP }],
        ["delta", { text: MARKUP }],
        ["done", END],
      ];
      await the.open();
      await the.ask(MARKUP);
      await the.page.locator("#answer-facts").getByText("done after").waitFor();
      const shown = (selector: string) => the.page.locator(selector).first().textContent();
      expect(await shown("#answer-text")).toBe(MARKUP);
      expect(await shown("#answer-sources .notice")).toBe(MARKUP);
      expect(await shown("#answer-sources a b")).toBe(MARKUP);
      expect(await shown(".match-id")).toBe(MARKUP);
      expect(await shown("#matches q")).toBe(MARKUP);
      expect(JSON.parse((await shown(".match pre")) ?? "")).toEqual({ [MARKUP]: MARKUP });
      expect(await shown("#service-list li:last-child .service-name")).toBe(MARKUP);
      expect(await the.page.locator("main iframe, main script, main style, main svg, .match a").count()).toBe(
        0,
      );
      await the.page.locator("#matches img").nth(1).waitFor();
    });

    test("markup in errors is shown as text", async () => {
      the.gateway.scenario.match = () => {
        throw new Refusal(400, MARKUP, "text");
      };
      the.gateway.scenario.answer = () => [["error", { error: { message: `Answer: ${MARKUP}` } }]];
      await the.open();
      await the.ask(MARKUP);
      expect(await the.page.locator("#answer-problem .notice").textContent()).toBe(`Answer: ${MARKUP}`);
      await the.page.locator("#message").filter({ visible: true }).waitFor();
      expect(await the.page.locator("#message").textContent()).toBe(MARKUP);
    });

    test("a picture on another host is not loaded", async () => {
      the.gateway.scenario.match = () => ({
        matches: [documentMatch("cat", "cat", { image: "https://example.org/cat.jpg" })],
        fusion: null,
        via: "vectors",
      });
      await the.open();
      await the.ask(MARKUP);
      await the.page.getByText("No picture: it is on another host than this page.").waitFor();
    });

    test("the content security policy stops markup, too", async () => {
      await the.open();
      await the.ask(MARKUP);
      const blocked = await the.page.evaluate<string>(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'parsed'; } catch (error) { return error.name; } })()",
      );
      expect(blocked).toBe("TypeError");
      await expect.poll(() => the.watched.faults.join()).toContain("policy: require-trusted-types-for");
      the.watched.faults.length = 0;
    });
  });

  describe("the page's files", () => {
    let gateway: FakeGateway;
    beforeAll(async () => {
      gateway = await startFakeGateway();
    });
    afterAll(() => gateway?.close());

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

    test("the server has only the page's files", async () => {
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
