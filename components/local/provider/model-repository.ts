/**
 * `local:index:ModelRepository`: written files, copied files and built artifacts in one folder, as Triton loads it.
 * Artifacts are kept in the download cache: each is built once for a specification and a builder, and verified at each use.
 */
import { constants } from "node:fs";
import { copyFile, link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { jsonDigest } from "../../../infra/plan/plain-data.ts";
import { runOrThrow } from "./commands.ts";
import { type HandlerContext, resourceHandler } from "./contract.ts";
import {
  cacheDirectory,
  exclusively,
  fileSha256,
  fromRoot,
  hasCode,
  listFiles,
  makeFolder,
  orWhenMissing,
  refuseChanged,
  removeEmptyUpwards,
} from "./files.ts";
import {
  type JsonObject,
  type ModelRepositoryInputs,
  type ModelRepositoryOutputs,
  modelRepositoryInputs,
  type RepositoryArtifact,
  type RepositoryFile,
} from "./inputs.ts";

/** Beside the models, where Triton sees no model in it. */
const MANIFEST = ".engine-room-repository.json";

interface Manifest {
  readonly digest: string;
  /** SHA-256 by path in the repository. */
  readonly files: Readonly<Record<string, string>>;
  readonly facts: Readonly<Record<string, JsonObject>>;
}

export const modelRepository = resourceHandler<ModelRepositoryInputs, ModelRepositoryOutputs>({
  schema: modelRepositoryInputs,
  replaceOn: ["directory"],
  // `digest` describes the content; another path to the interpreter does not change it.
  ignored: ["python"],
  idOf: ({ directory }) => directory,

  /** Fills a new folder, which then replaces the old folder; a failure changes nothing. */
  async bring(wanted, _olds, context) {
    const root = fromRoot(wanted.directory);
    const facts: Record<string, JsonObject> = {};
    await makeFolder(root, async (temporary) => {
      for (const [path, file] of Object.entries(wanted.files))
        await writeRepositoryFile(join(temporary, path), file);
      for (const [folder, artifact] of Object.entries(wanted.artifacts)) {
        const built = await builtArtifact(artifact, wanted.python, context);
        for (const path of await listFiles(built))
          await linkOrCopy(join(built, path), join(temporary, folder, path));
        const text = await readFile(join(built, "facts.json"), "utf8").catch(orWhenMissing("{}"));
        facts[folder] = JSON.parse(text) as JsonObject;
      }
      const manifest: Manifest = { digest: wanted.digest, files: await hashFolder(temporary), facts };
      await writeFile(join(temporary, MANIFEST), JSON.stringify(manifest));
      await removeFolder(root);
    });
    return { ...wanted, facts };
  },

  async find(state) {
    const root = fromRoot(state.directory);
    const text = await readFile(join(root, MANIFEST), "utf8").catch(orWhenMissing(undefined));
    if (text === undefined) return undefined;
    const { digest, files, facts } = JSON.parse(text) as Manifest;
    const found = await hashFolder(root);
    return { ...state, digest: isDeepStrictEqual(found, files) ? digest : jsonDigest(found), facts };
  },

  async remove({ directory }) {
    await removeFolder(fromRoot(directory));
    await removeEmptyUpwards(dirname(fromRoot(directory)));
  },
});

/** The manifest first: without it a repository whose removal was interrupted counts as gone. */
async function removeFolder(root: string): Promise<void> {
  await rm(join(root, MANIFEST), { force: true });
  await rm(root, { recursive: true, force: true });
}

/** SHA-256 of each file by its path, without the manifest and Python's byte code. */
async function hashFolder(folder: string): Promise<Readonly<Record<string, string>>> {
  const hashes: Record<string, string> = {};
  for (const path of await listFiles(folder)) {
    if (path === MANIFEST || path.split("/").includes("__pycache__")) continue;
    hashes[path] = (await fileSha256(join(folder, path))) ?? "";
  }
  return hashes;
}

async function writeRepositoryFile(to: string, file: RepositoryFile): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  if ("text" in file) return writeFile(to, file.text);
  await refuseChanged(file.source, file.sha256);
  await copyFile(fromRoot(file.source), to);
}

/** A hard link if cache and stack share a file system (weights of some hundred MiB cost nothing), else a copy. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await link(from, to).catch(async (error: unknown) => {
    if (hasCode(error, "EEXIST"))
      throw new Error(`${to} is made by the builder and is listed in files too; rename one of them.`);
    if (!hasCode(error, "EXDEV", "EPERM", "EMLINK")) throw error;
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  });
}

/** Folder of the builder's package: its working folder and its PYTHONPATH. */
const BUILDER_FOLDER = "containers/python";

// Weights may come over the network first.
const BUILD_TIMEOUT_SECONDS = 1800;

/**
 * The artifact in the cache, built first if it is missing or if its files are not those that were built.
 *
 * @returns Absolute path of its folder.
 */
async function builtArtifact(
  { spec, builderSha256 }: RepositoryArtifact,
  python: string,
  context: HandlerContext,
): Promise<string> {
  const folder = join(cacheDirectory(), "artifacts", jsonDigest({ spec, builderSha256 }));
  const content = join(folder, "content");
  return exclusively(folder, async () => {
    const text = await readFile(join(folder, "hashes.json"), "utf8").catch(orWhenMissing("{}"));
    const files = await hashFolder(content);
    if (Object.keys(files).length > 0 && isDeepStrictEqual(files, JSON.parse(text))) return content;
    await rm(folder, { recursive: true, force: true });
    await makeFolder(folder, (temporary) => build(spec, python, temporary, context));
    return content;
  });
}

/** `content` with the files, and `hashes.json`, which is written after them. */
async function build(
  spec: JsonObject,
  python: string,
  folder: string,
  { report, signal }: HandlerContext,
): Promise<void> {
  const downloads = join(cacheDirectory(), "downloads");
  await mkdir(downloads, { recursive: true });
  const specFile = join(folder, "spec.json");
  const content = join(folder, "content");
  await writeFile(specFile, JSON.stringify(spec, null, 2));
  const builder = fromRoot(BUILDER_FOLDER);
  const argv = ["-m", "engine_room.cpu_models.build", specFile, "--output", content, "--cache", downloads];
  await runOrThrow([fromRoot(python), ...argv], {
    purpose: `The builder of ${content}`,
    paths: [content, downloads],
    cwd: builder,
    environment: { ...process.env, PYTHONPATH: builder, PYTHONUNBUFFERED: "1", PYTHONDONTWRITEBYTECODE: "1" },
    timeoutSeconds: BUILD_TIMEOUT_SECONDS,
    // Its last line, the facts as JSON, is for programs.
    onLine: (line) => (line.startsWith("{") ? undefined : report(line)),
    signal,
  });
  const hashes = await hashFolder(content);
  if (Object.keys(hashes).length === 0)
    throw new Error(`The builder wrote no file for ${JSON.stringify(spec)}.`);
  await writeFile(join(folder, "hashes.json"), JSON.stringify(hashes, null, 2));
}
