/** Built model folders in the download cache: each built once for a specification and a builder, verified at each use. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { jsonDigest } from "../../../infra/plan/canonical-json.ts";
import { lastLines, runCommand } from "./commands.ts";
import type { HandlerContext } from "./contract.ts";
import {
  cacheDirectory,
  diskFullError,
  exclusively,
  fileSha256,
  fromRoot,
  listFiles,
  makeFolder,
  orWhenMissing,
} from "./files.ts";
import type { JsonObject, RepositoryArtifact } from "./inputs.ts";

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
