/** Files of a Go module, from the module proxy's zip archives: https://go.dev/ref/mod#goproxy-protocol. */
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
