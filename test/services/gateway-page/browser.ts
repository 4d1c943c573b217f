/** A real browser for the page's tests, which records every error of the page. */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { TEST_PROGRAMS } from "../../../scripts/setup/system-packages.ts";

const { path: CHROMIUM } = TEST_PROGRAMS.chromium;

/** Reason why tests are skipped; undefined when a browser exists. */
export const NO_BROWSER = existsSync(CHROMIUM)
  ? undefined
  : `no browser at ${CHROMIUM}; install Debian's chromium-headless-shell, or name one in CHROMIUM`;

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM });
}

/** A page with its recorded errors. */
export interface WatchedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * Console errors, exceptions, violations of the content security policy and requests to other hosts, so far. Without the
   * browser's own line about a response with an error status, which the page shows to its reader.
   */
  readonly faults: string[];
}

/** Opens a page in its own context. */
export async function openPage(
  browser: Browser,
  url: string,
  options: Parameters<Browser["newContext"]>[0] = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    if (/^Failed to load resource: /.test(message.text())) return;
    faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith("http") && origin !== new URL(url).origin)
      faults.push(`request: ${request.url()}`);
  });
  await page.exposeFunction("reportViolation", (words: string) => faults.push(`policy: ${words}`));
  await page.addInitScript(`addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
    reportViolation([violatedDirective, blockedURI, sample].join(" ")))`);
  await page.goto(url);
  return { page, context, faults };
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations that axe finds on the page, with all details open: rule, place and reason. */
export async function axeViolations(page: Page): Promise<unknown[]> {
  await page.evaluate('for (const details of document.querySelectorAll("details")) details.open = true');
  await page.evaluate(AXE);
  return page.evaluate(`axe
    .run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
    .then(({ violations }) => violations.map(({ id, nodes }) =>
      [id, nodes.map(({ target, failureSummary }) => [target, failureSummary])]))`);
}

/** Width of the page's content beyond the screen, in CSS pixels. */
export function sidewaysScroll(page: Page): Promise<number> {
  return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
}

/** Saves a screenshot to the folder SCREENSHOTS; does nothing without the variable. */
export async function keepScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS;
  if (folder === undefined) return;
  await page.evaluate("document.activeElement.blur(), scrollTo({ top: 0, behavior: 'instant' })");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
