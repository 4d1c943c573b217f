/** Files of a Go module, from the module proxy's zip archives: https://go.dev/ref/mod#goproxy-protocol. */
import { inflateRawSync } from "node:zlib";
import { UserError } from "../errors.ts";

const DEFAULT_PROXY = "https://proxy.golang.org";
const REQUEST_TIMEOUT_MILLISECONDS = 120_000;

/** The first proxy of a `GOPROXY` list that is a web address; `direct` and `off` are no proxies. */
export function proxyOf(goproxy: string | undefined): string {
  const named = (goproxy ?? "").split(/[,|]/).find((entry) => /^https?:\/\//.test(entry));
  return (named ?? DEFAULT_PROXY).replace(/\/$/, "");
}

/**
 * The version that a proxy has for `latest`, a branch, a tag or a commit. As the go command does, `latest` takes the highest
 * release of the list, and asks for `@latest` only where the list has none.
 */
export async function resolveVersion(proxy: string, module: string, query: string): Promise<string> {
  if (query === "latest") {
    const listed = highestRelease((await download(`${proxy}/${module}/@v/list`)).toString("utf8"));
    if (listed !== undefined) return listed;
  }
  const url = query === "latest" ? `${proxy}/${module}/@latest` : `${proxy}/${module}/@v/${query}.info`;
  const info: unknown = JSON.parse((await download(url)).toString("utf8"));
  if (typeof info !== "object" || info === null || !("Version" in info) || typeof info.Version !== "string")
    throw new UserError(`${url} names no version.`);
  return info.Version;
}

/** The highest of the versions, one a line, that are releases: `v1.2.3` without a suffix. */
export function highestRelease(list: string): string | undefined {
  return list
    .split(/\s+/)
    .filter((version) => /^v\d+\.\d+\.\d+$/.test(version))
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
    .at(-1);
}

/** The module's archive; names in it begin with `MODULE@VERSION/`. */
export async function downloadModule(proxy: string, module: string, version: string): Promise<Buffer> {
  return await download(`${proxy}/${module}/@v/${version}.zip`);
}

async function download(url: string): Promise<Buffer> {
  let response: Response;
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MILLISECONDS) });
  } catch (error) {
    throw new UserError(`${url} can't be read (${error instanceof Error ? error.message : String(error)}).`);
  }
  if (!response.ok) throw new UserError(`${url} answers ${response.status} ${response.statusText}.`);
  return Buffer.from(await response.arrayBuffer());
}

const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const CENTRAL_SIGNATURE = 0x02014b50;
const CENTRAL_BYTES = 46;
const LOCAL_BYTES = 30;
const STORED = 0;
const DEFLATED = 8;

/**
 * One file of a zip archive. Sizes and places are those of the central directory; archives over 4 GiB are not read.
 *
 * @throws UserError where the archive is damaged or has no such file.
 */
export function readZipEntry(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]));
  if (end < 0 || end + END_BYTES > zip.length || zip.readUInt32LE(end) !== END_SIGNATURE)
    throw new UserError("The archive is no zip file, or its end is missing.");
  const entries = zip.readUInt16LE(end + 10);
  let offset = zip.readUInt32LE(end + 16);
  for (let index = 0; index < entries; index += 1) {
    if (offset + CENTRAL_BYTES > zip.length || zip.readUInt32LE(offset) !== CENTRAL_SIGNATURE)
      throw new UserError("The archive's directory is damaged.");
    const nameBytes = zip.readUInt16LE(offset + 28);
    const nameStart = offset + CENTRAL_BYTES;
    if (zip.toString("utf8", nameStart, nameStart + nameBytes) === name) return contentOf(zip, offset, name);
    offset = nameStart + nameBytes + zip.readUInt16LE(offset + 30) + zip.readUInt16LE(offset + 32);
  }
  throw new UserError(`The archive has no ${name}.`);
}

function contentOf(zip: Buffer, central: number, name: string): Buffer {
  const method = zip.readUInt16LE(central + 10);
  const local = zip.readUInt32LE(central + 42);
  const start = local + LOCAL_BYTES + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
  const data = zip.subarray(start, start + zip.readUInt32LE(central + 20));
  if (method === STORED) return data;
  if (method === DEFLATED) return inflateRawSync(data);
  throw new UserError(
    `The archive packs ${name} with method ${method}, which is neither stored nor deflated.`,
  );
}
