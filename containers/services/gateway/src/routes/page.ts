/** GET /: the page for people, and its files under /page/. They are read once and served from memory. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { GatewayApp } from "../context.ts";

const FOLDER = new URL("../../public/", import.meta.url);

/** Media types by the endings of names; a file with another one is not served. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * What the page may do, in place of the gateway's own policy, which allows nothing. It has no inline script or style and
 * never turns text into markup, which trusted types enforce. `blob:` is for pictures that are fetched with an API key.
 */
const CONTENT_SECURITY_POLICY = [
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
].join("; ");

interface PageFile {
  /** `/`, or `/page/NAME`. */
  readonly path: string;
  readonly mediaType: string;
  readonly etag: string;
  readonly content: Buffer;
}

/** One route a file, so that no path of a client is ever looked up on disk. */
export function pageRoutes(app: GatewayApp): void {
  for (const file of readFiles()) {
    app.get(file.path, { schema: { hide: true } }, (request, reply) => send(file, request, reply));
  }
}

function readFiles(): PageFile[] {
  const index = readFile("index.html", "/");
  const others = readdirSync(new URL("page/", FOLDER))
    .filter((name) => extname(name) in MEDIA_TYPES)
    .map((name) => readFile(`page/${name}`, `/page/${name}`));
  return [index, ...others];
}

function readFile(name: string, path: string): PageFile {
  const content = readFileSync(new URL(name, FOLDER));
  const hash = createHash("sha256").update(content).digest("base64url");
  return { path, mediaType: MEDIA_TYPES[extname(name)] ?? "", etag: `"${hash}"`, content };
}

function send(file: PageFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply
    .header("content-security-policy", CONTENT_SECURITY_POLICY)
    .header("etag", file.etag)
    // The browser asks each time, and is told 304 until a new version of the gateway runs.
    .header("cache-control", "no-cache");
  if (matches(request.headers["if-none-match"], file.etag)) return reply.code(304).send();
  return reply.type(file.mediaType).send(file.content);
}

/** If-None-Match compares weakly, and may name several (RFC 9110, 13.1.2). */
function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.trim() === "*" || header.split(",").some((one) => one.trim().replace(/^W\//, "") === etag);
}
