/**
 * The picture of docs/pull-request-comment.md: its comment in a browser at a phone's width, with the hash of its text inside.
 * `UPDATE_RECORDED=1` renews it with the comment; fonts of another machine give other pixels.
 */
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import MarkdownIt from "markdown-it";
import { launchBrowser } from "../../services/gateway-page/browser.ts";

/** Width of a phone in CSS pixels. The picture has one pixel for each, since Git keeps every renewal. */
const WIDTH = 390;

/** Style of GitHub's comments, without the parts for larger screens. */
const STYLE = `
  body { margin: 16px; font: 14px/1.5 sans-serif; color: #1f2328; overflow-wrap: anywhere }
  h3 { font-size: 17px } h4 { font-size: 14px } h3, h4 { margin: 20px 0 8px }
  ul { padding-left: 20px } code { font-size: 12px; background: #eff1f3; border-radius: 6px; padding: 2px 4px }
  details { margin: 8px 0 }`;

/** Text of a page before anything is unfolded. */
export function visibleText(markdown: string): string {
  return html(markdown)
    .replaceAll(/<details>\s*<summary>(.*?)<\/summary>.*?<\/details>/gs, "$1")
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/\s+/g, " ")
    .trim();
}

function html(markdown: string): string {
  return new MarkdownIt({ html: true }).render(markdown);
}

export function textHash(comment: string): string {
  return createHash("sha256").update(visibleText(comment)).digest("hex");
}

/** PNG with {@link textHash} in it. */
export async function commentPicture(comment: string): Promise<Buffer> {
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage({ viewport: { width: WIDTH, height: 800 } });
    await page.setContent(`<!doctype html><style>${STYLE}</style>${html(comment)}`);
    return withText(await page.screenshot({ fullPage: true }), textHash(comment));
  } finally {
    await browser.close();
  }
}

const KEYWORD = "Comment";
/** Signature and the first chunk: https://www.w3.org/TR/png-3/#11tEXt */
const HEAD_BYTES = 8 + 25;

function withText(png: Buffer, text: string): Buffer {
  const body = Buffer.from(`tEXt${KEYWORD}\0${text}`, "latin1");
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length - 4);
  checksum.writeUInt32BE(crc32(body));
  return Buffer.concat([png.subarray(0, HEAD_BYTES), length, body, checksum, png.subarray(HEAD_BYTES)]);
}

/** The hash in a picture; undefined when another program made it. */
export function pictureHash(png: Buffer): string | undefined {
  return new RegExp(`^....tEXt${KEYWORD}\0([0-9a-f]{64})`, "s").exec(
    png.subarray(HEAD_BYTES).toString("latin1"),
  )?.[1];
}
