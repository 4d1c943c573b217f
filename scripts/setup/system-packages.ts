/** Debian packages that npm and PyPI can't bring: Python for the stack, and programs of the tests. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { findPython, PythonMissingError } from "../../components/local/provider/python.ts";
import { UserError } from "../errors.ts";

/**
 * Ensures a usable Python.
 *
 * @param install - Whether missing packages may be installed; this also requires root.
 * @throws UserError with the single command to type if packages are missing and may not be installed.
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

/** Where Debian's packages and people put programs for root. */
const FOLDERS = ["/usr/bin", "/usr/sbin", "/usr/local/sbin"];

/** Programs that tests of a suite run. Tests without them are skipped, and counted. */
export const TEST_PROGRAMS = {
  // The build without windows takes a third of the time of the other.
  chromium: testProgram("services", "chromium-headless-shell", [
    process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    "/usr/bin/chromium",
  ]),
  dockerd: testProgram("docker", "docker.io", inFolders("dockerd")),
  docker: testProgram("docker", "docker.io", inFolders("docker")),
  iptables: testProgram("docker", "iptables", inFolders("iptables")),
  debootstrap: testProgram("docker", "debootstrap", inFolders("debootstrap")),
  systemd: testProgram("unit", "systemd", ["/lib/systemd/systemd"]),
  systemdAnalyze: testProgram("unit", "systemd", ["/usr/bin/systemd-analyze"]),
  shellcheck: testProgram("unit", "shellcheck", [process.env.SHELLCHECK ?? "/usr/bin/shellcheck"]),
  mkfsXfs: testProgram("unit", "xfsprogs", ["/usr/sbin/mkfs.xfs"]),
  // It starts the ranks of the entry point's tests; NVIDIA's images have a build of their own.
  mpirun: testProgram("programs", "openmpi-bin", ["/usr/bin/mpirun"]),
};

/** `path` of a missing program is that of Debian's package: the first of its paths. */
function testProgram(suite: string, debianPackage: string, paths: readonly string[]) {
  return { suite, debianPackage, path: paths.find((path) => existsSync(path)) ?? paths[0] ?? "" };
}

function inFolders(name: string): readonly string[] {
  return FOLDERS.map((folder) => `${folder}/${name}`);
}

/** Programs of a suite that this machine lacks. */
export function missingPrograms(suite: string) {
  return Object.values(TEST_PROGRAMS).filter(
    (program) => program.suite === suite && !existsSync(program.path),
  );
}

/** Installs missing packages of a suite, as root. A failure is a line. */
export function installTestPrograms(suite: string): void {
  const packages = new Set(missingPrograms(suite).map(({ debianPackage }) => debianPackage));
  if (packages.size === 0 || process.getuid?.() !== 0) return;
  try {
    installDebianPackages([...packages]);
  } catch (error) {
    process.stderr.write(`Some tests of ${suite} are skipped: ${(error as Error).message}\n`);
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
    if (run.status === 0) continue;
    throw new UserError(
      run.error === undefined
        ? `\`apt-get ${args.join(" ")}\` ended with exit code ${run.status}; the last lines above give the reason.`
        : `apt-get can't be started (${run.error.message}); install ${packages.join(" ")} by hand.`,
    );
  }
}
