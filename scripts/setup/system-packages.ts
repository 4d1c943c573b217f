/**
 * Debian packages that npm and PyPI can't bring: Python for the stack, a browser for the tests of the page, a container
 * engine for the tests of the images, and what checks units and scripts.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findPython, PythonMissingError } from "../../components/local/provider/python.ts";
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

/** Where Debian's packages put the browser, the one without windows first: it takes a third of the time. */
const BROWSERS = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"] as const;

/** The browser of the page's tests; CHROMIUM names another one. */
export const CHROMIUM = process.env.CHROMIUM ?? BROWSERS.find((path) => existsSync(path)) ?? BROWSERS[0];

/**
 * Installs the browser that the page is tested in, where it is missing and may be installed. Without one those tests are
 * skipped and counted, so a failure here is a line and no more.
 */
export function ensureBrowser({ install }: { readonly install: boolean }): void {
  if (existsSync(CHROMIUM)) return;
  installIfAllowed(["chromium-headless-shell"], install, "No browser to test the page in");
}

/** What the tests of the images run, each with the Debian package that has it. */
const ENGINE_PROGRAMS = {
  dockerd: "docker.io",
  docker: "docker.io",
  iptables: "iptables",
  debootstrap: "debootstrap",
} as const;

/** Programs of a container engine, and for bases of images, that this machine lacks. */
export function missingEnginePrograms(): (keyof typeof ENGINE_PROGRAMS)[] {
  const folders = ["/usr/local/sbin", "/usr/sbin", "/usr/bin"];
  const programs = Object.keys(ENGINE_PROGRAMS) as (keyof typeof ENGINE_PROGRAMS)[];
  return programs.filter((program) => !folders.some((folder) => existsSync(join(folder, program))));
}

/**
 * Installs what the images are built and run with, where it is missing and may be installed. Without it those tests are
 * skipped and counted, too.
 */
export function ensureContainerEngine({ install }: { readonly install: boolean }): void {
  const packages = new Set(missingEnginePrograms().map((program) => ENGINE_PROGRAMS[program]));
  if (packages.size > 0) installIfAllowed([...packages], install, "No engine to test the images with");
}

/** What the units, scripts and disks of a machine are checked with; SHELLCHECK names another one. */
export const CHECKERS = {
  systemd: { path: "/lib/systemd/systemd", debianPackage: "systemd" },
  systemdAnalyze: { path: "/usr/bin/systemd-analyze", debianPackage: "systemd" },
  shellcheck: { path: process.env.SHELLCHECK ?? "/usr/bin/shellcheck", debianPackage: "shellcheck" },
  mkfsXfs: { path: "/usr/sbin/mkfs.xfs", debianPackage: "xfsprogs" },
} as const;

/** Installs them where they are missing and may be installed. Without them those tests are skipped and counted, too. */
export function ensureCheckers({ install }: { readonly install: boolean }): void {
  const missing = Object.values(CHECKERS).filter(({ path }) => !existsSync(path));
  const packages = new Set(missing.map(({ debianPackage }) => debianPackage));
  if (packages.size > 0) installIfAllowed([...packages], install, "Units, scripts and disks are not checked");
}

/** Debian's Open MPI starts the ranks of the entry point's tests; NVIDIA's images have a build of their own. */
const MPIRUN = "/usr/bin/mpirun";

/** Installs it where it is missing and may be installed. Without it those tests are skipped and counted, too. */
export function ensureOpenMpi({ install }: { readonly install: boolean }): void {
  if (!existsSync(MPIRUN)) installIfAllowed(["openmpi-bin"], install, "No Open MPI to start ranks with");
}

function installIfAllowed(packages: readonly string[], install: boolean, otherwise: string): void {
  if (!install || process.getuid?.() !== 0) return;
  try {
    installDebianPackages(packages);
  } catch (error) {
    process.stderr.write(`${otherwise}: ${(error as Error).message}\n`);
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
