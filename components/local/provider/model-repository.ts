/**
 * `local:index:ModelRepository`: written files, copied files and built artifacts in one folder, as Triton loads it.
 * Artifacts are kept in the download cache: each is built once for a specification and a builder, and verified at each use.
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { jsonDigest } from "../../../infra/plan/canonical-json.ts";
import { lastLines, runCommand } from "./commands.ts";
import {
  type CheckFailure,
  type HandlerContext,
  hasUnknown,
  propertyPath,
  resourceHandler,
} from "./contract.ts";
import {
  cacheDirectory,
  diskFullError,
  exclusively,
  fileSha256,
  fromRoot,
  hasCode,
  listFiles,
  makeFolder,
  orWhenMissing,
  removeEmptyUpwards,
  sourceProblem,
} from "./files.ts";
import {
  type JsonObject,
  type ModelRepositoryInputs,
  type ModelRepositoryOutputs,
  modelRepositoryInputs,
  type RepositoryArtifact,
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
  deleteBeforeReplace: false,
  // The interpreter builds what `digest` describes; another path to it changes nothing in the repository.
  ignored: ["python"],
  idOf: ({ directory }) => directory,

  async examine(inputs) {
    if (hasUnknown(inputs)) return { failures: [] };
    const { files, artifacts, digest } = inputs as unknown as ModelRepositoryInputs;
    const failures: CheckFailure[] = [];
    const expected = jsonDigest({ files, artifacts });
    if (digest !== expected)
      failures.push({
        property: "digest",
        reason: `${digest} is not the digest of files and artifacts, which is ${expected}; use jsonDigest.`,
      });
    for (const [path, file] of Object.entries(files)) {
      const reason = "source" in file ? await sourceProblem(file.source, file.sha256) : undefined;
      if (reason !== undefined) failures.push({ property: propertyPath(["files", path, "source"]), reason });
    }
    return { failures };
  },

  /** Makes the folder anew beside the old one, which stays as it is where that fails. */
  async bring(wanted, _olds, context) {
    const root = fromRoot(wanted.directory);
    const { files, facts } = await planFiles(wanted, context);
    await makeFolder(root, async (temporary) => {
      for (const [path, { make }] of files) {
        await mkdir(dirname(join(temporary, path)), { recursive: true });
        await make(join(temporary, path));
      }
      const hashes = Object.fromEntries([...files].map(([path, { sha256 }]) => [path, sha256]));
      const manifest: Manifest = { digest: wanted.digest, files: hashes, facts };
      await writeFile(join(temporary, MANIFEST), JSON.stringify(manifest));
      await removeFolder(root);
    });
    return { ...wanted, facts };
  },

  async find(state) {
    const root = fromRoot(state.directory);
    const text = await readFile(join(root, MANIFEST), "utf8").catch(orWhenMissing(undefined));
    if (text === undefined) return undefined;
    const manifest = JSON.parse(text) as Manifest;
    const drifted = await driftedFiles(root, manifest);
    const digest = drifted.length === 0 ? manifest.digest : jsonDigest({ digest: manifest.digest, drifted });
    return { ...state, digest, facts: manifest.facts };
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

/** A file that the repository should hold. */
interface PlannedFile {
  readonly sha256: string;
  readonly make: (temporary: string) => Promise<void>;
}

async function planFiles(
  wanted: ModelRepositoryInputs,
  context: HandlerContext,
): Promise<{ files: Map<string, PlannedFile>; facts: Record<string, JsonObject> }> {
  const files = new Map<string, PlannedFile>();
  const facts: Record<string, JsonObject> = {};
  for (const [path, file] of Object.entries(wanted.files)) {
    if ("text" in file) {
      const sha256 = createHash("sha256").update(file.text).digest("hex");
      files.set(path, { sha256, make: (to) => writeFile(to, file.text) });
      continue;
    }
    const problem = await sourceProblem(file.source, file.sha256);
    if (problem !== undefined) throw new Error(problem);
    files.set(path, { sha256: file.sha256, make: (to) => copyFile(fromRoot(file.source), to) });
  }
  for (const [folder, artifact] of Object.entries(wanted.artifacts)) {
    const built = await builtArtifact(artifact, wanted.python, context);
    facts[folder] = built.facts;
    for (const [path, sha256] of Object.entries(built.files)) {
      if (files.has(`${folder}/${path}`))
        throw new Error(
          `${folder}/${path} is made by the builder and is listed in files too; rename one of them.`,
        );
      files.set(`${folder}/${path}`, { sha256, make: (to) => linkOrCopy(join(built.folder, path), to) });
    }
  }
  return { files, facts };
}

/** A hard link where cache and stack share a file system (weights of some hundred MiB cost nothing), else a copy. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: unknown) => {
    if (!hasCode(error, "EXDEV", "EPERM", "EMLINK")) throw error;
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  });
}

/** Paths that are missing, changed or too many, sorted. */
async function driftedFiles(root: string, { files }: Manifest): Promise<string[]> {
  // Python writes its byte code beside the models that Triton loads.
  const isContent = (path: string) => path !== MANIFEST && !path.split("/").includes("__pycache__");
  const paths = new Set([...(await listFiles(root)).filter(isContent), ...Object.keys(files)]);
  const drifted: string[] = [];
  for (const path of paths)
    if (files[path] === undefined || (await fileSha256(join(root, path))) !== files[path]) drifted.push(path);
  return drifted.toSorted();
}

/** Folder of the builder's package: its working folder and its PYTHONPATH. */
const BUILDER_FOLDER = "containers/cpu-models";

// Weights may come over the network first.
const BUILD_TIMEOUT_SECONDS = 1800;

const FACTS_FILE = "facts.json";

interface BuiltArtifact {
  /** Absolute folder with the files. */
  readonly folder: string;
  /** SHA-256 by path in the folder. */
  readonly files: Readonly<Record<string, string>>;
  readonly facts: JsonObject;
}

/** The artifact from the cache, built first where it is missing or where a file of it is not what was built. */
async function builtArtifact(
  artifact: RepositoryArtifact,
  python: string,
  context: HandlerContext,
): Promise<BuiltArtifact> {
  const { spec, builderSha256 } = artifact;
  const folder = join(cacheDirectory(), "artifacts", jsonDigest({ spec, builderSha256 }));
  return exclusively(folder, async () => {
    const cached = await verified(folder);
    if (cached !== undefined) return cached;
    await rm(folder, { recursive: true, force: true });
    await makeFolder(folder, (temporary) => build(spec, python, temporary, context));
    const built = await verified(folder);
    if (built === undefined) throw new Error(`${folder} changed while it was read; run it again.`);
    return built;
  });
}

/** `<folder>/content` against `<folder>/hashes.json`, which is written after it. */
async function verified(folder: string): Promise<BuiltArtifact | undefined> {
  const text = await readFile(join(folder, "hashes.json"), "utf8").catch(orWhenMissing(undefined));
  if (text === undefined) return undefined;
  const files = JSON.parse(text) as Record<string, string>;
  const content = join(folder, "content");
  for (const [path, sha256] of Object.entries(files))
    if ((await fileSha256(join(content, path))) !== sha256) return undefined;
  const facts = files[FACTS_FILE] === undefined ? "{}" : await readFile(join(content, FACTS_FILE), "utf8");
  return { folder: content, files, facts: JSON.parse(facts) as JsonObject };
}

async function build(
  spec: JsonObject,
  python: string,
  folder: string,
  context: HandlerContext,
): Promise<void> {
  const downloads = join(cacheDirectory(), "downloads");
  await mkdir(downloads, { recursive: true });
  const specFile = join(folder, "spec.json");
  const content = join(folder, "content");
  await writeFile(specFile, JSON.stringify(spec, null, 2));
  const builder = fromRoot(BUILDER_FOLDER);
  const argv = ["-m", "engine_room_models.build", specFile, "--output", content, "--cache", downloads];
  const result = await runCommand([fromRoot(python), ...argv], {
    cwd: builder,
    environment: { ...process.env, PYTHONPATH: builder, PYTHONUNBUFFERED: "1", PYTHONDONTWRITEBYTECODE: "1" },
    timeoutSeconds: BUILD_TIMEOUT_SECONDS,
    onLine: (line) => {
      // Its last line, the facts as JSON, is for programs.
      if (!line.startsWith("{")) context.report(line);
    },
    signal: context.signal,
  });
  if (result.exitCode !== 0) {
    if (/no space left on device|disk quota exceeded/i.test(`${result.stdout}\n${result.stderr}`))
      throw diskFullError(content);
    if (result.timedOut)
      throw new Error(
        `The builder of ${content} did not end within ${BUILD_TIMEOUT_SECONDS} s; run it again.`,
      );
    throw new Error(`The builder of ${content} failed: ${lastLines(result.stderr || result.stdout, 8)}`);
  }
  const paths = await listFiles(content);
  if (paths.length === 0) throw new Error(`The builder wrote no file for ${JSON.stringify(spec)}.`);
  const hashes: Record<string, string | undefined> = {};
  for (const path of paths) hashes[path] = await fileSha256(join(content, path));
  await writeFile(join(folder, "hashes.json"), JSON.stringify(hashes, null, 2));
}
