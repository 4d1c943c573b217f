/** Built model folders in the download cache: each built once for a specification and a builder, verified at each use. */
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { jsonDigest } from "../../../infra/plan/canonical-json.ts";
import type { JsonObject, RepositoryArtifact } from "../types.ts";
import { lastLines, runCommand } from "./commands.ts";
import type { HandlerContext } from "./contract.ts";
import { exclusively } from "./exclusive.ts";
import {
  cacheDirectory,
  diskFullError,
  explainDiskFull,
  fileSha256,
  fromRoot,
  hasCode,
  listFiles,
  orWhenMissing,
  temporaryFolder,
} from "./files.ts";

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
export async function builtArtifact(
  artifact: RepositoryArtifact,
  python: string,
  context: HandlerContext,
): Promise<BuiltArtifact> {
  const key = jsonDigest({ spec: artifact.spec, builderSha256: artifact.builderSha256 });
  const folder = join(cacheDirectory(), "artifacts", key);
  return exclusively(folder, async () => {
    const cached = await verified(folder);
    if (cached !== undefined) return cached;
    await rm(folder, { recursive: true, force: true });
    await build(artifact, python, folder, context);
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
  artifact: RepositoryArtifact,
  python: string,
  folder: string,
  context: HandlerContext,
): Promise<void> {
  const downloads = join(cacheDirectory(), "downloads");
  await mkdir(downloads, { recursive: true });
  const temporary = await temporaryFolder(folder);
  try {
    const spec = join(temporary, "spec.json");
    const content = join(temporary, "content");
    await writeFile(spec, JSON.stringify(artifact.spec, null, 2));
    await runBuilder(python, spec, content, downloads, context);
    const hashes: Record<string, string> = {};
    for (const path of await listFiles(content)) {
      const sha256 = await fileSha256(join(content, path));
      if (sha256 !== undefined) hashes[path] = sha256;
    }
    if (Object.keys(hashes).length === 0)
      throw new Error(`The builder wrote no file for ${JSON.stringify(artifact.spec)}.`);
    await writeFile(join(temporary, "hashes.json"), JSON.stringify(hashes, null, 2));
    await rename(temporary, folder);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Another process built the same in the meantime.
    if (!hasCode(error, "ENOTEMPTY", "EEXIST")) throw explainDiskFull(error, folder);
  }
}

async function runBuilder(
  python: string,
  spec: string,
  output: string,
  downloads: string,
  context: HandlerContext,
): Promise<void> {
  const folder = fromRoot(BUILDER_FOLDER);
  const argv = ["-m", "engine_room_models.build", spec, "--output", output, "--cache", downloads];
  const result = await runCommand([fromRoot(python), ...argv], {
    cwd: folder,
    environment: { ...process.env, PYTHONPATH: folder, PYTHONUNBUFFERED: "1", PYTHONDONTWRITEBYTECODE: "1" },
    timeoutSeconds: BUILD_TIMEOUT_SECONDS,
    onLine: (line) => {
      // Its last line, the facts as JSON, is for this program.
      if (!line.startsWith("{")) context.report(line);
    },
    signal: context.signal,
  });
  if (result.exitCode === 0) return;
  const printed = `${result.stdout}\n${result.stderr}`;
  if (/no space left on device|disk quota exceeded/i.test(printed)) throw diskFullError(output);
  if (result.timedOut)
    throw new Error(`The builder of ${output} did not end within ${BUILD_TIMEOUT_SECONDS} s; run it again.`);
  throw new Error(`The builder of ${output} failed: ${lastLines(result.stderr || result.stdout, 8)}`);
}
