/** Sources of the official clients' tests: source packages, unpacked in the download cache. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runOrThrow } from "../../../components/local/provider/commands.ts";
import { cacheDirectory, makeFolder } from "../../../components/local/provider/files.ts";

/** A source package of PyPI; or a repository, if the package has no tests that talk to a server. */
export type Source =
  | { readonly url: string; readonly sha256: string }
  | { readonly repository: string; readonly commit: string };

/** Time limit of a download. */
const DOWNLOAD_SECONDS = 300;

/**
 * Downloads only one folder of a source: the tests import the installed client.
 *
 * @param name - Package with its version; name of the folder in the cache.
 * @returns Path of the folder that holds it. @throws Error when the download fails, or is not the pinned source.
 */
export async function unpacked(name: string, source: Source, folder: string): Promise<string> {
  const directory = join(cacheDirectory(), "client-suites", name);
  if (existsSync(directory)) return directory;
  await makeFolder(directory, async (temporary) => {
    const run = (...argv: string[]) =>
      runOrThrow(argv, {
        cwd: temporary,
        purpose: `getting the tests of ${name}`,
        paths: [directory],
        timeoutSeconds: DOWNLOAD_SECONDS,
      });
    if ("url" in source) {
      const archive = join(temporary, "source.tar.gz");
      await download(source, archive);
      await run("tar", "--extract", "--file", archive, "--strip-components=1", "--wildcards", `*/${folder}`);
      await rm(archive);
    } else {
      await run("git", "init", "--quiet");
      await run("git", "fetch", "--quiet", "--depth=1", source.repository, source.commit);
      await run("git", "checkout", "--quiet", source.commit, "--", folder);
    }
  });
  return directory;
}

async function download({ url, sha256 }: { url: string; sha256: string }, target: string): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_SECONDS * 1000) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}.`);
  const bytes = Buffer.from(await response.arrayBuffer());
  const actual = createHash("sha256").update(bytes).digest("hex");
  if (actual !== sha256) throw new Error(`${url} has SHA-256 ${actual} instead of ${sha256}.`);
  await writeFile(target, bytes);
}
