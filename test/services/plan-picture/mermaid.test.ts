/** Pictures of `plan --format mermaid` in Mermaid's own parser in a browser, as on GitHub. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { lastLines, runCommand } from "../../../components/local/provider/commands.ts";
import { cacheDirectory, fileSha256 } from "../../../components/local/provider/files.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";
import { needs } from "../../harness/requirements.ts";
import { launchBrowser, NO_BROWSER } from "../gateway-page/browser.ts";

/** Extracted from its package, without that package's 79 dependencies of 177 MB. */
const MERMAID = "mermaid@11.17.2";
const SHA256 = "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8";

/** Path of Mermaid in one file, or the reason why it is not available. */
async function mermaidFile(): Promise<{ readonly path: string } | { readonly reason: string }> {
  const cache = cacheDirectory();
  const path = join(cache, "downloads", `${MERMAID}.min.js`);
  if ((await fileSha256(path)) === SHA256) return { path };
  mkdirSync(join(cache, "downloads"), { recursive: true });
  const folder = mkdtempSync(join(cache, "downloads", ".mermaid-"));
  try {
    const options = { cwd: folder, timeoutSeconds: 100 };
    const packed = await runCommand(["npm", "pack", "--loglevel=error", MERMAID], options);
    if (packed.exitCode !== 0) return { reason: `npm has no ${MERMAID}: ${lastLines(packed.stderr, 1)}` };
    await runCommand(
      ["tar", "-xzf", `${MERMAID.replace("@", "-")}.tgz`, "package/dist/mermaid.min.js"],
      options,
    );
    const file = join(folder, "package/dist/mermaid.min.js");
    if ((await fileSha256(file)) !== SHA256) return { reason: `${MERMAID} has other bytes than expected` };
    renameSync(file, path);
    return { path };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const mermaid = NO_BROWSER === undefined ? await mermaidFile() : { reason: NO_BROWSER };

const folder = join(projectRoot, "test/recorded/plans");

const pictures = readdirSync(folder).filter((name) => name.endsWith(".mmd"));

describe("Mermaid's parser", needs("reason" in mermaid ? mermaid.reason : undefined), () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    browser = await launchBrowser();
    page = await browser.newPage();
    if ("path" in mermaid) await page.addScriptTag({ path: mermaid.path });
  });

  afterAll(() => browser.close());

  const parsed = (text: string) => page.evaluate(`mermaid.parse(${JSON.stringify(text)})`);

  test.each(pictures)("the picture %s is a flowchart", async (name) => {
    expect(await parsed(readFileSync(join(folder, name), "utf8"))).toMatchObject({
      diagramType: expect.stringContaining("flowchart"),
    });
  });

  test("a label without its closing quote is refused", async () => {
    await expect(parsed('flowchart LR\n  a["label]\n')).rejects.toThrow("Parse error");
  });
});
