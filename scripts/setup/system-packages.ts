/** Debian packages that the stack needs and npm and PyPI can't bring: Python itself. */
import { spawnSync } from "node:child_process";
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
