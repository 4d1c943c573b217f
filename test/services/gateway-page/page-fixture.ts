/** Fixture of the page's tests on the fake API. */
import type { Browser, Locator, Page } from "playwright-core";
import sharp from "sharp";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { launchBrowser, openPage, type WatchedPage } from "./browser.ts";
import { type FakeGateway, startFakeGateway } from "./fake-gateway.ts";

export interface PageFixture {
  readonly gateway: FakeGateway;
  readonly page: Page;
  readonly watched: WatchedPage;
  /** Opens the page; each test does so once. With options it has a new context, without options it is loaded again. */
  open(options?: Parameters<Browser["newContext"]>[0]): Promise<void>;
  /** Id of the element that has the focus. */
  focusedId(): Promise<unknown>;
  question(): Locator;
  /** Writes a question and sends it by the keyboard. */
  ask(words: string): Promise<void>;
  giveKey(key: string): Promise<void>;
  /** Chooses {@link png} in the file dialog. */
  chooseImage(name: string): Promise<void>;
  answer(): Locator;
  matches(): Locator;
}

/** One browser and one fake gateway for a group of tests; an error of the page fails its test. */
export function pageFixture(): PageFixture {
  let browser: Browser | undefined;
  let gateway: FakeGateway | undefined;
  /** Page of tests without options. */
  let usual: WatchedPage | undefined;
  let watched: WatchedPage | undefined;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([launchBrowser(), startFakeGateway()]);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.close();
  });
  beforeEach(() => gateway?.reset());
  afterEach(async () => {
    if (watched !== undefined && watched === usual) {
      await watched.page.unrouteAll();
      await watched.page.evaluate("sessionStorage.clear()");
      await watched.page.goto("about:blank");
    } else await watched?.context.close();
    expect(watched?.faults.splice(0)).toEqual([]);
  });
  const fixture: PageFixture = {
    get gateway() {
      return there(gateway);
    },
    get watched() {
      return there(watched);
    },
    get page() {
      return there(watched).page;
    },
    open: async (options) => {
      if (options === undefined && usual !== undefined) {
        watched = usual;
        await usual.page.goto(there(gateway).url);
        return;
      }
      watched = await openPage(there(browser), there(gateway).url, options);
      if (options === undefined) usual = watched;
    },
    focusedId: () => fixture.page.evaluate("document.activeElement?.id"),
    question: () => fixture.page.getByLabel("What do you want to know or find?"),
    ask: async (words) => {
      await fixture.question().fill(words);
      await fixture.question().press("Enter");
    },
    giveKey: async (key) => {
      await fixture.page.getByLabel("API key", { exact: true }).fill(key);
      await fixture.page.getByRole("button", { name: "Use this key" }).click();
    },
    chooseImage: async (name) =>
      fixture.page.locator("#image-file").setInputFiles({ name, mimeType: "image/png", buffer: await png() }),
    answer: () => fixture.page.locator("#answer"),
    matches: () => fixture.page.locator("#matches .match"),
  };
  return fixture;
}

export const png = () =>
  sharp({ create: { width: 90, height: 60, channels: 3, background: "teal" } })
    .png()
    .toBuffer();

function there<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("it is there within a test only");
  return value;
}
