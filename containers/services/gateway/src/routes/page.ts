/** GET /: the web UI. GET /docs: the API's page. Their files are under /page/. All are read once and served from memory. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import type { GatewayApp } from "../context.ts";

const FOLDER = new URL("../../public/", import.meta.url);

/** Media types by suffix; other files are not served. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * The page's policy, in place of the gateway's, which allows nothing. The page has no inline script or style, and never
 * turns text into markup, which trusted types enforce. `blob:` is for pictures that are fetched with an API key.
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

/** One route a file, so that no path of a client is ever looked up on disk. */
export function pageRoutes(app: GatewayApp): void {
  addFile(app, "/", "index.html");
  addFile(app, "/docs", "docs.html");
  for (const name of readdirSync(new URL("page/", FOLDER))) addFile(app, `/page/${name}`, `page/${name}`);
}

function addFile(app: GatewayApp, path: string, name: string): void {
  const mediaType = MEDIA_TYPES[extname(name)];
  if (mediaType === undefined) return;
  const content = readFileSync(new URL(name, FOLDER));
  const etag = `"${createHash("sha256").update(content).digest("base64url")}"`;
  app.get(path, { schema: { hide: true } }, (request, reply) => {
    reply
      .header("content-security-policy", CONTENT_SECURITY_POLICY)
      .header("etag", etag)
      // The browser asks each time, and is told 304 until a new version of the gateway runs.
      .header("cache-control", "no-cache");
    // If-None-Match may name several, each of them with W/ before its quotation marks (RFC 9110, 13.1.2).
    const known = request.headers["if-none-match"] ?? "";
    if (known.trim() === "*" || known.includes(etag)) return reply.code(304).send();
    return reply.type(mediaType).send(content);
  });
}
