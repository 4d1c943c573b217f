/** Debian packages that npm and PyPI can't bring: Python for the stack, a browser for the tests of the page. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { findPython, PythonMissingError } from "../../components/local/provider/python-discovery.ts";
import { UserError } from "../errors.ts";

/**
 * Makes sure of a Python that can serve.
 *
 * @param install - Whether missing packages may be installed; it also takes root.
 * @throws UserError with the one command to type where they are missing and may not be installed.
 */
export async function ensureSystemPackages({ install }: { readonly install: boolean }): Promise<void> {
  try {
    await findPython(undefined);
  } catch (error) {
    if (!(error instanceof PythonMissingError)) throw error;
    const isRoot = process.getuid?.() === 0;
    if (!install || !isRoot)
      throw new UserError(
        `${error.message}${install ? " (as root)" : ", or run this again as root with --yes"}`,
      );
    installDebianPackages(error.debianPackages);
    await findPython(undefined);
  }
}

/** Where Debian's package puts the browser; CHROMIUM names another one. */
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/**
 * Installs the browser that the page is tested in, where it is missing and may be installed. Without one those tests are
 * skipped and counted, so a failure here is a line and no more.
 */
export function ensureBrowser({ install }: { readonly install: boolean }): void {
  if (existsSync(CHROMIUM) || !install || process.getuid?.() !== 0) return;
  try {
    installDebianPackages(["chromium"]);
  } catch (error) {
    process.stderr.write(`No browser to test the page in: ${(error as Error).message}\n`);
  }
}

function installDebianPackages(packages: readonly string[]): void {
  process.stderr.write(`Installing Debian packages: ${packages.join(" ")} …\n`);
  const environment = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  for (const args of [
    ["update", "--quiet"],
    ["install", "--yes", "--quiet", "--no-install-recommends", ...packages],
  ]) {
    const run = spawnSync("apt-get", args, { stdio: ["ignore", 2, 2], env: environment });
    if (run.error !== undefined)
      throw new UserError(
        `apt-get can't be started (${run.error.message}); install ${packages.join(" ")} by hand.`,
      );
    if (run.status !== 0)
      throw new UserError(
        `\`apt-get ${args.join(" ")}\` ended with exit code ${run.status}; its last lines above say why.`,
      );
  }
}
