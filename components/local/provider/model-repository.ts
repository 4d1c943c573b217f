/** `local:index:ModelRepository`: written files, copied files and built artifacts in one folder, as Triton loads it. */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { jsonDigest } from "../../../infra/plan/canonical-json.ts";
import { builtArtifact } from "./artifact-cache.ts";
import { type CheckFailure, type HandlerContext, propertyPath, resourceHandler } from "./contract.ts";
import {
  exclusively,
  explainDiskFull,
  fileSha256,
  fromRoot,
  hasCode,
  listFiles,
  orWhenMissing,
  removeEmptyBelow,
  removeEmptyUpwards,
  replaceWhole,
  sourceProblem,
  writeWhole,
} from "./files.ts";
import {
  type JsonObject,
  type ModelRepositoryInputs,
  type ModelRepositoryOutputs,
  modelRepositoryInputs,
} from "./inputs.ts";
import { hasUnknown } from "./wire.ts";

/** Beside the models, where Triton sees no model in it; written last, so without it the content is unfinished. */
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
    return { failures: await contentFailures(inputs as unknown as ModelRepositoryInputs) };
  },

  /** Makes the folder hold exactly the inputs' content. Files that are right already are not touched. */
  async bring(wanted, _olds, context) {
    const root = fromRoot(wanted.directory);
    return exclusively(root, async () => {
      await mkdir(root, { recursive: true }).catch((error: unknown) => {
        throw explainDiskFull(error, root);
      });
      await rm(join(root, MANIFEST), { force: true });
      const { files, facts } = await planFiles(wanted, context);
      // What goes, goes first: a file may stand where a folder is wanted, and the other way round.
      for (const path of await listFiles(root)) if (!files.has(path)) await rm(join(root, path));
      await removeEmptyBelow(root);
      for (const [path, file] of files) {
        if ((await fileSha256(join(root, path))) === file.sha256) continue;
        await mkdir(dirname(join(root, path)), { recursive: true });
        await replaceWhole(join(root, path), file.make);
      }
      const hashes = Object.fromEntries([...files].map(([path, file]) => [path, file.sha256]));
      const manifest: Manifest = { digest: wanted.digest, files: hashes, facts };
      await writeWhole(join(root, MANIFEST), JSON.stringify(manifest), 0o644);
      return { ...wanted, facts };
    });
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
    const path = fromRoot(directory);
    await exclusively(path, async () => {
      // First: a repository whose removal was interrupted is never adopted.
      await rm(join(path, MANIFEST), { force: true });
      await rm(path, { recursive: true, force: true });
      await removeEmptyUpwards(dirname(path));
    });
  },
});

async function contentFailures(inputs: ModelRepositoryInputs): Promise<CheckFailure[]> {
  const failures: CheckFailure[] = [];
  const expected = jsonDigest({ files: inputs.files, artifacts: inputs.artifacts });
  if (inputs.digest !== expected)
    failures.push({
      property: "digest",
      reason: `${inputs.digest} is not the digest of files and artifacts, which is ${expected}; use jsonDigest.`,
    });
  for (const kind of ["files", "artifacts"] as const) {
    const paths = Object.keys(inputs[kind]);
    for (const path of paths) {
      const property = propertyPath([kind, path]);
      // Files may lie in the folder of an artifact, beside what is built there.
      const outer = [...paths, ...Object.keys(inputs.files)].find((other) => path.startsWith(`${other}/`));
      if (outer !== undefined)
        failures.push({ property, reason: `It lies inside ${outer}, which is another entry.` });
      if (kind === "artifacts" && path in inputs.files)
        failures.push({ property, reason: "It is both a file and an artifact." });
      if (path === MANIFEST) failures.push({ property, reason: `${MANIFEST} is the provider's own file.` });
    }
  }
  for (const [path, file] of Object.entries(inputs.files)) {
    const reason = "source" in file ? await sourceProblem(file.source, file.sha256) : undefined;
    if (reason !== undefined) failures.push({ property: propertyPath(["files", path, "source"]), reason });
  }
  return failures;
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
