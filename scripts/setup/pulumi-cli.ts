/** Finds the Pulumi CLI, which is a download of its own: on PATH, or where the npm package `pulumi` caches it. */
import { accessSync, constants, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** Absolute path of the `pulumi` executable; undefined where there is none. */
export function findPulumi(environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const onPath = (environment.PATH ?? "")
    .split(delimiter)
    // `npm run` puts node_modules/.bin first; the npm package there is a downloader, not the CLI.
    .filter((directory) => directory !== "" && !directory.endsWith(join("node_modules", ".bin")))
    .map((directory) => join(directory, "pulumi"));
  return [...onPath, ...cachedByNpmPackage(environment)].find(isExecutable);
}

function cachedByNpmPackage(environment: NodeJS.ProcessEnv): string[] {
  const home = environment.PULUMI_HOME ?? join(homedir(), ".pulumi");
  const versions = join(home, "versions");
  try {
    return readdirSync(versions)
      .toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }))
      .map((version) => join(versions, version, "bin", "pulumi"));
  } catch {
    return [];
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
