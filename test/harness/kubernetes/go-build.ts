/** Builds the modules of `go/` once, into the folder that keeps what is downloaded. */
import { createHash } from "node:crypto";
import { chmod, copyFile, readFile, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cacheDirectory, exists, temporaryFolder } from "../../../components/local/provider/files.ts";
import { lockStack, StackLockedError } from "../../../scripts/stack/lock.ts";
import { run } from "../docker/run.ts";
import {
  type CLUSTER_MODULES,
  type GoModuleName,
  goModules,
  requiredModule,
  sourceFolder,
} from "./go-modules.ts";
import { findGo, type GoToolchain, goEnvironment } from "./go-toolchain.ts";

const DOWNLOAD_TIMEOUT_SECONDS = 900;
const BUILD_TIMEOUT_SECONDS = 5400;
const LOCK_POLL_MILLISECONDS = 1000;
const LINKER_FLAGS = "-s -w";

/** Absolute folders of the cluster's modules. */
export type BuiltModules = Readonly<Record<(typeof CLUSTER_MODULES)[number], string>>;

/**
 * Builds modules. A folder's name is a hash of all that its build depends on, so an existing folder is complete and
 * current.
 *
 * @param report - Receives a line for every step that takes long.
 * @returns Absolute folders by module; the reason if Go is missing or too old.
 * @throws Error with the compiler's last lines when a build fails.
 */
export async function buildGoModules<Name extends GoModuleName>(
  names: readonly Name[],
  report: (line: string) => void,
): Promise<Readonly<Record<Name, string>> | { readonly reason: string }> {
  const go = await findGo();
  if ("reason" in go) return go;
  const root = join(cacheDirectory(), "kubernetes-programs");
  const targets = await Promise.all(
    names.map(async (name) => [name, join(root, `${name}-${await buildKey(name, go.version)}`)] as const),
  );
  const lock = await lockWhenFree(root, report);
  try {
    await buildMissing(root, targets, go, report);
  } finally {
    lock.release();
  }
  return Object.fromEntries(targets) as Record<Name, string>;
}

/** Hash of everything that a build depends on. */
async function buildKey(name: GoModuleName, version: string): Promise<string> {
  const { variables, ...table } = goModules[name];
  const hash = createHash("sha256").update(JSON.stringify([version, process.arch, goEnvironment().GOFLAGS]));
  hash.update(JSON.stringify([LINKER_FLAGS, table.programs, table.files, variables("v0.0.0")]));
  for (const file of ["go.mod", "go.sum"]) hash.update(await readFile(join(sourceFolder(name), file)));
  return hash.digest("hex").slice(0, 16);
}

/** Waits for another builder of this machine; the lock goes with the process that has it. */
async function lockWhenFree(root: string, report: (line: string) => void) {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await lockStack("kubernetes-programs", root, "build");
    } catch (error) {
      if (!(error instanceof StackLockedError)) throw error;
      if (isFirst) report(`The tests' programs are being built by ${error.holder}; waiting for it …`);
      await sleep(LOCK_POLL_MILLISECONDS);
    }
  }
}

async function buildMissing(
  root: string,
  targets: readonly (readonly [GoModuleName, string])[],
  go: GoToolchain,
  report: (line: string) => void,
): Promise<void> {
  const missing: (readonly [GoModuleName, string])[] = [];
  for (const target of targets) if (!(await exists(target[1]))) missing.push(target);
  if (missing.length === 0) return;
  // Compiled packages take 3.5 GB and are not needed again; a cache that the user names is theirs.
  const given = process.env.GOCACHE;
  const cache = given ?? (await temporaryFolder(join(root, "compiled")));
  try {
    for (const [name, target] of missing) await buildModule(name, target, { go, cache, report });
  } finally {
    if (given === undefined) await rm(cache, { recursive: true, force: true });
  }
}

interface BuildContext {
  readonly go: GoToolchain;
  /** Folder of compiled packages. */
  readonly cache: string;
  readonly report: (line: string) => void;
}

async function buildModule(
  name: GoModuleName,
  target: string,
  { go, cache, report }: BuildContext,
): Promise<void> {
  const { programs, files, variables, buildMinutes, hasC } = goModules[name];
  const goMod = await readFile(join(sourceFolder(name), "go.mod"), "utf8");
  const environment = { ...goEnvironment(cache), ...(hasC ? { CGO_ENABLED: "1" } : {}) };
  const options = { cwd: sourceFolder(name), environment };
  const folder = await temporaryFolder(target);
  const started = performance.now();
  report(`Building ${name} for the tests, once: about ${buildMinutes} min on two cores …`);
  try {
    for (const [program, path] of Object.entries(programs)) {
      const settings = Object.entries(variables(requiredModule(goMod, path).version));
      const flags = [LINKER_FLAGS, ...settings.map(([variable, value]) => `-X ${variable}=${value}`)].join(
        " ",
      );
      const build = [go.program, "build", "-ldflags", flags, "-o", join(folder, program), path];
      await run(build, BUILD_TIMEOUT_SECONDS, options);
      report(`  ${program} after ${((performance.now() - started) / 1000).toFixed(0)} s`);
    }
    for (const [file, path] of Object.entries(files)) {
      const { module, version, rest } = requiredModule(goMod, path);
      // Named with its version, a download is checked against go.sum without the modules that it needs itself.
      const argv = [go.program, "mod", "download", "-json", `${module}@${version}`];
      const answer = await run(argv, DOWNLOAD_TIMEOUT_SECONDS, options);
      const { Dir } = JSON.parse(answer) as { readonly Dir: string };
      await copyFile(join(Dir, rest), join(folder, file));
      // Go keeps its own read-only.
      await chmod(join(folder, file), 0o644);
    }
    await rename(folder, target);
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw new Error(`${name} of the tests can't be built: ${(error as Error).message}`);
  }
  report(`Built ${basename(target)} in ${((performance.now() - started) / 1000).toFixed(0)} s`);
}
