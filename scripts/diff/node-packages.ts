/** npm packages of a checkout, by its own lock file, without an install where the same were installed before. */
import { createHash } from "node:crypto";
import {
  cp,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import {
  cacheDirectory,
  exists,
  hasCode,
  orWhenMissing,
  temporaryFolder,
} from "../../components/local/provider/files.ts";
import { UserError } from "../errors.ts";
import { runProcess } from "./child-process.ts";
import { npmFailure } from "./npm-failure.ts";

/** `scripts/cli.mjs` writes it beside the packages once they are those of the lock file. */
const STAMP = ".engine-room-lock";

const INSTALL_TIMEOUT_SECONDS = 600;

/** Packages that no checkout has needed for so long are removed. */
const KEPT_DAYS = 14;

/** Runs `npm ci` in a folder. */
export type Installer = (folder: string) => Promise<void>;

/**
 * Gives a checkout its `node_modules`: a folder of links to packages that lie elsewhere, with the workspace's own packages
 * linked to the checkout's own folders. They come from `current` where that has the packages of the same lock file, else
 * from the cache, which is filled by `npm ci` without any package's scripts.
 *
 * @param current - A checkout whose packages may be used.
 * @throws UserError where there is no lock file, or it can't be installed.
 */
export async function linkNodePackages(
  checkout: string,
  current: string,
  install: Installer = npmCi,
): Promise<void> {
  const lock = await readFile(join(checkout, "package-lock.json")).catch(orWhenMissing(undefined));
  if (lock === undefined) throw new UserError("It has no package-lock.json.");
  const lockSha256 = createHash("sha256").update(lock).digest("hex");
  const stamp = await readFile(join(current, "node_modules", STAMP), "utf8").catch(orWhenMissing(""));
  const source = stamp === lockSha256 ? current : await cachedPackages(checkout, lockSha256, install);
  for (const folder of ["", ...(await workspaceFolders(source, checkout))])
    await linkPackages({ source, checkout, folder });
  await writeFile(join(checkout, "node_modules", STAMP), lockSha256);
}

/** The folder of the cache, filled. Two that fill it at once both succeed; one of them has worked in vain. */
async function cachedPackages(checkout: string, lockSha256: string, install: Installer): Promise<string> {
  const all = join(cacheDirectory(), "node-packages");
  const [major = ""] = process.versions.node.split(".");
  const name = `${lockSha256.slice(0, 16)}-node${major}-${process.platform}-${process.arch}`;
  const folder = join(all, name);
  await removeUnused(all, name);
  if (await exists(folder)) {
    const now = new Date();
    await utimes(folder, now, now);
    return folder;
  }
  const temporary = await temporaryFolder(folder);
  try {
    for (const file of await packageFiles(checkout)) {
      await mkdir(dirname(join(temporary, file)), { recursive: true });
      await cp(join(checkout, file), join(temporary, file));
    }
    await install(temporary);
    await rename(temporary, folder).catch((error: unknown) => {
      if (!hasCode(error, "ENOTEMPTY", "EEXIST")) throw error;
    });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  return folder;
}

async function removeUnused(all: string, wanted: string): Promise<void> {
  const oldest = Date.now() - KEPT_DAYS * 86_400_000;
  for (const name of await readdir(all).catch(orWhenMissing([]))) {
    if (name === wanted) continue;
    const found = await stat(join(all, name)).catch(orWhenMissing(undefined));
    if (found !== undefined && found.mtimeMs < oldest)
      await rm(join(all, name), { recursive: true, force: true });
  }
}

/** What `npm ci` reads. */
async function packageFiles(checkout: string): Promise<readonly string[]> {
  const lock = JSON.parse(await readFile(join(checkout, "package-lock.json"), "utf8")) as {
    readonly packages?: Readonly<Record<string, unknown>>;
  };
  const members = Object.keys(lock.packages ?? {}).filter(
    (path) => path !== "" && !path.split("/").includes("node_modules"),
  );
  const files = [
    "package-lock.json",
    ".npmrc",
    ...["", ...members].map((path) => join(path, "package.json")),
  ];
  const there = await Promise.all(files.map((file) => exists(join(checkout, file))));
  return files.filter((_, index) => there[index]);
}

/** Members of the workspace with packages of their own beside them. */
async function workspaceFolders(source: string, checkout: string): Promise<readonly string[]> {
  const members = (await packageFiles(checkout))
    .filter((file) => file !== "package.json" && file.endsWith("/package.json"))
    .map(dirname);
  const there = await Promise.all(members.map((member) => exists(join(source, member, "node_modules"))));
  return members.filter((_, index) => there[index]);
}

interface LinkedFolder {
  readonly source: string;
  readonly checkout: string;
  /** Below both; empty for the root. */
  readonly folder: string;
}

async function linkPackages({ source, checkout, folder }: LinkedFolder): Promise<void> {
  const link = async (names: readonly string[]) => {
    const from = join(source, folder, "node_modules", ...names);
    const to = join(checkout, folder, "node_modules", ...names);
    const target = await readlink(from).catch(() => undefined);
    const inside = target === undefined ? "" : relative(source, resolve(dirname(from), target));
    // A member of the workspace: its own folder in this checkout, whatever the other one has.
    const isMember =
      target !== undefined && !inside.startsWith("..") && !inside.split("/").includes("node_modules");
    const path = isMember ? join(checkout, inside) : from;
    await symlink(path, to);
  };
  const base = join(folder, "node_modules");
  await mkdir(join(checkout, base), { recursive: true });
  for (const name of await readdir(join(source, base))) {
    // Caches of tools, and what npm and we note about the folder.
    if (name.startsWith(".") && name !== ".bin") continue;
    if (!name.startsWith("@")) {
      await link([name]);
      continue;
    }
    await mkdir(join(checkout, base, name), { recursive: true });
    for (const scoped of await readdir(join(source, base, name))) await link([name, scoped]);
  }
}

async function npmCi(folder: string): Promise<void> {
  process.stderr.write("Installing npm packages of the base's lock file …\n");
  const { exitCode, stderr } = await runProcess(
    "npm",
    [
      "ci",
      "--ignore-scripts",
      "--include=dev",
      "--no-audit",
      "--no-fund",
      "--loglevel=error",
      "--color=false",
      "--prefix",
      folder,
    ],
    { cwd: folder, environment: process.env, timeoutSeconds: INSTALL_TIMEOUT_SECONDS },
  );
  if (exitCode === 0) return;
  process.stderr.write(stderr);
  throw new UserError(
    `\`npm ci\` of its lock file ended with exit code ${exitCode}: ${npmFailure(stderr, folder)}`,
  );
}
