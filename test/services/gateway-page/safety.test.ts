/** What the page does with text that wants to be markup, and how its files are served. */
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { launchBrowser, NO_BROWSER, openPage, type WatchedPage, withBrowser } from "./browser.ts";
import {
  documentMatch,
  END,
  type FakeGateway,
  READY,
  Refusal,
  SOURCES,
  startFakeGateway,
} from "./fake-gateway.ts";

const MARKUP = [
  "<img src=x onerror=\"globalThis.owned = 'image'\">",
  "<script>globalThis.owned = 'script'</script>",
  "<svg/onload=globalThis.owned='svg'>",
  '"><iframe srcdoc="<script>top.owned=\'frame\'</script>">',
  "<a href=\"javascript:globalThis.owned='link'\">a</a>",
  "</textarea><style>*{display:none}</style>{{7*7}}",
].join(" ");

let gateway: FakeGateway;
beforeAll(async () => {
  gateway = await startFakeGateway();
});
afterAll(() => gateway?.close());
beforeEach(() => gateway.reset());

describe.skipIf(NO_BROWSER !== undefined)(withBrowser("text that wants to be markup"), () => {
  let browser: Browser;
  let watched: WatchedPage;
  let page: Page;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());
  afterEach(async () => {
    expect(await page.evaluate("globalThis.owned")).toBeUndefined();
    expect(watched.faults).toEqual([]);
    await watched.context.close();
  });
  async function ask(): Promise<void> {
    watched = await openPage(browser, gateway.url);
    page = watched.page;
    await page.locator("#question").fill(MARKUP);
    await page.locator("#question").press("Enter");
  }

  it("is shown as text, wherever it comes from", async () => {
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

  it("is shown as text in errors", async () => {
    gateway.scenario.match = () => {
      throw new Refusal(400, MARKUP);
    };
    gateway.scenario.answer = () => [["error", { error: { message: MARKUP } }]];
    await ask();
    expect(await page.locator("#matches .notice").textContent()).toBe(MARKUP);
    expect(await page.locator("#answer-problem .notice").textContent()).toBe(MARKUP);
  });

  it("finds no picture on another host", async () => {
    gateway.scenario.match = () => ({
      matches: [documentMatch("cat", "cat", { image: "https://example.org/cat.jpg" })],
      fusion: null,
      via: "vectors",
    });
    await ask();
    await page.getByText("No picture: it is on another host, from which this page takes none.").waitFor();
  });

  it("would be stopped by the policy, too", async () => {
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

  it.each([
    ["/", "text/html; charset=utf-8"],
    ["/page/main.js", "text/javascript; charset=utf-8"],
    ["/page/base.css", "text/css; charset=utf-8"],
    ["/page/icon.svg", "image/svg+xml"],
  ])("%s has its type and the page's own policy", async (path, mediaType) => {
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

  it("are not sent again while they are the same", async () => {
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

  it("are all that there is", async () => {
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

  it("name nothing from elsewhere", async () => {
    const page = await (await fetch(gateway.url)).text();
    const names = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name]) => name ?? "");
    expect(names.filter((name) => /^[a-z]+:|^\/\//i.test(name))).toEqual([]);
    for (const name of new Set(names.filter((name) => name.startsWith("page/")))) {
      expect((await fetch(`${gateway.url}/${name}`)).status, name).toBe(200);
    }
  });
});
