import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PropertyMap } from "../../../components/local/provider/contract.ts";
import { modelRepository } from "../../../components/local/provider/model-repository.ts";
import { repositoryDigest } from "../../../components/local/repository-digest.ts";
import type { RepositoryArtifact, RepositoryFile } from "../../../components/local/types.ts";
import {
  context,
  makeEnvironment,
  makeProject,
  projectFile,
  removeProject,
  reported,
  sha256,
  writeProjectFile,
} from "./fixtures.ts";

const DIRECTORY = ".stacks/s/repositories/encoders";

/** A builder that writes what its specification says and counts how often it ran. */
const BUILDER = `
import json, os, pathlib, sys
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
assert sys.argv[2] == "--output" and sys.argv[4] == "--cache", sys.argv
output, cache = pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[5])
with open(cache / "builds", "a") as builds:
    builds.write(spec["name"] + "\\n")
print("building", spec["name"], flush=True)
output.mkdir()
(output / "half").write_text("half")
if spec.get("fails"):
    sys.exit("ValueError: the weights have the wrong shape")
(output / "model.onnx").write_text(spec["name"] * 1000)
(output / "facts.json").write_text(json.dumps({"dimension": 384}))
`;

let root: string;
let cache: string;
const originalCache = process.env.ENGINE_ROOM_CACHE_DIR;

beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
  writeProjectFile("containers/cpu-models/engine_room_models/build.py", BUILDER);
  writeProjectFile("models/model.py", "print('model')\n");
});
beforeEach(() => {
  cache = join(root, `cache-${Math.random().toString(36).slice(2)}`);
  process.env.ENGINE_ROOM_CACHE_DIR = cache;
});
afterAll(async () => {
  if (originalCache === undefined) delete process.env.ENGINE_ROOM_CACHE_DIR;
  else process.env.ENGINE_ROOM_CACHE_DIR = originalCache;
  await removeProject(root);
});

function inputs(
  files: Record<string, RepositoryFile>,
  artifacts: Record<string, RepositoryArtifact> = {},
): PropertyMap {
  const python = ".stacks/s/python/bin/python";
  return { directory: DIRECTORY, python, files, artifacts, digest: repositoryDigest({ files, artifacts }) };
}

const artifact = (spec: RepositoryArtifact["spec"]): RepositoryArtifact => ({
  spec,
  builderSha256: sha256(BUILDER),
});
const modelSource: RepositoryFile = { source: "models/model.py", sha256: sha256("print('model')\n") };
const standard = inputs(
  { "text/config.pbtxt": { text: 'name: "text"\n' }, "text/1/model.py": modelSource },
  { "text/1/weights": artifact({ name: "minilm" }) },
);

function content(): Record<string, string> {
  const folder = projectFile(DIRECTORY);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  return Object.fromEntries(
    paths
      .filter((path) => !path.startsWith(".engine-room"))
      .toSorted()
      .map((path) => [path, readFileSync(join(folder, path), "utf8")]),
  );
}

const standardContent = {
  "text/1/model.py": "print('model')\n",
  "text/1/weights/facts.json": '{"dimension": 384}',
  "text/1/weights/half": "half",
  "text/1/weights/model.onnx": "minilm".repeat(1000),
  "text/config.pbtxt": 'name: "text"\n',
};
const builds = () =>
  readFileSync(join(cache, "downloads", "builds"), "utf8")
    .trim()
    .split("\n");

describe("a model repository", () => {
  it("holds exactly its inputs, from create over update to delete", async () => {
    expect((await modelRepository.check(standard)).failures).toEqual([]);
    const { id, outs } = await modelRepository.create("r", standard, context);
    expect(content()).toEqual(standardContent);
    expect(outs).toEqual({ ...standard, facts: { "text/1/weights": { dimension: 384 } } });
    expect(await modelRepository.read(id, outs, context)).toEqual({ id, inputs: standard, outs });
    expect(reported).toContain("building minilm");

    // A file where a folder was, and a folder where a file was.
    const news = inputs({ "text/1": { text: "now a file" }, "text/config.pbtxt/deep": { text: "x" } });
    const updated = await modelRepository.update(id, outs, news, context);
    expect(content()).toEqual({ "text/1": "now a file", "text/config.pbtxt/deep": "x" });
    await modelRepository.update(id, updated.outs, standard, context);
    expect(content()).toEqual(standardContent);

    await modelRepository.delete(id, outs, context);
    await modelRepository.delete(id, outs, context);
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
    expect(await modelRepository.read(id, outs, context)).toBeUndefined();
  });

  it("builds an artifact once, and again when its cached file is damaged", async () => {
    await modelRepository.create("r", standard, context);
    const { outs } = await modelRepository.create("r", standard, context);
    expect(builds()).toEqual(["minilm"]);
    const [key] = readdirSync(join(cache, "artifacts"));
    writeFileSync(join(cache, "artifacts", String(key), "content", "model.onnx"), "damaged");
    await modelRepository.update(DIRECTORY, outs, standard, context);
    expect(builds()).toEqual(["minilm", "minilm"]);
    expect(content()).toEqual(standardContent);
    await modelRepository.delete(DIRECTORY, outs, context);
  });

  it("builds the same artifact once for two repositories at once", async () => {
    const other = { ...standard, directory: ".stacks/s/repositories/other" };
    const made = await Promise.all(
      [standard, other].map((wanted) => modelRepository.create("r", wanted, context)),
    );
    expect(builds()).toEqual(["minilm"]);
    for (const { id, outs } of made) await modelRepository.delete(id, outs, context);
  });

  it("is repaired after an interruption at any of its steps", async () => {
    const { id, outs } = await modelRepository.create("r", standard, context);
    const folder = projectFile(DIRECTORY);
    const interruptions = [
      () => rmSync(join(folder, ".engine-room-repository.json")),
      () => rmSync(join(folder, "text"), { recursive: true }),
      () => writeFileSync(join(folder, "text/config.pbtxt.1-1.tmp"), "half"),
      () => writeFileSync(join(folder, "text/config.pbtxt"), "half"),
    ];
    for (const interrupt of interruptions) {
      interrupt();
      await modelRepository.create("r", standard, context);
      expect(content()).toEqual(standardContent);
    }
    // In the cache, too: what is not complete does not count, and goes once its maker is gone.
    const [key] = readdirSync(join(cache, "artifacts"));
    const noProcess = 2 ** 22 + 1;
    mkdirSync(join(cache, "artifacts", `${key}.${noProcess}-abc`));
    unlinkSync(join(cache, "artifacts", String(key), "hashes.json"));
    await modelRepository.update(id, outs, standard, context);
    expect(content()).toEqual(standardContent);
    expect(readdirSync(join(cache, "artifacts"))).toEqual([key]);
    await modelRepository.delete(id, outs, context);
  });

  it("shows changed, missing and additional files as drift of its digest", async () => {
    const { id, outs } = await modelRepository.create("r", standard, context);
    const drifts = [
      () => writeFileSync(projectFile(`${DIRECTORY}/text/config.pbtxt`), "edited"),
      () => unlinkSync(projectFile(`${DIRECTORY}/text/1/model.py`)),
      () => writeFileSync(projectFile(`${DIRECTORY}/text/additional`), "x"),
    ];
    for (const drift of drifts) {
      drift();
      const found = await modelRepository.read(id, outs, context);
      expect(found?.outs.digest).not.toBe(standard.digest);
      const diff = await modelRepository.diff(id, found?.outs ?? {}, standard);
      expect(diff).toMatchObject({ changes: true, changedProperties: ["digest"], replaces: [] });
      await modelRepository.update(id, found?.outs ?? {}, standard, context);
      expect((await modelRepository.read(id, outs, context))?.outs.digest).toBe(standard.digest);
    }
    await modelRepository.delete(id, outs, context);
  });

  it("does not touch files that are right already", async () => {
    const { id, outs } = await modelRepository.create("r", standard, context);
    const inode = () => statSync(projectFile(`${DIRECTORY}/text/1/model.py`)).ino;
    const before = inode();
    const files = { ...(standard.files as Record<string, RepositoryFile>), "new/config.pbtxt": { text: "" } };
    await modelRepository.update(id, outs, inputs(files, standard.artifacts as never), context);
    expect(inode()).toBe(before);
    await modelRepository.delete(id, outs, context);
  });

  it("tells what the builder said when it fails, and keeps nothing of it", async () => {
    const broken = inputs({}, { "text/1/weights": artifact({ name: "broken", fails: true }) });
    await expect(modelRepository.create("r", broken, context)).rejects.toThrow(
      /^The builder of .* failed: ValueError: the weights have the wrong shape$/,
    );
    expect(readdirSync(join(cache, "artifacts"))).toEqual([]);
    await modelRepository.delete(DIRECTORY, broken, context);
    expect(existsSync(projectFile(DIRECTORY))).toBe(false);
  });
});

it("puts a file beside what is built, and refuses to put it over that", async () => {
  const artifacts = { "text/1": artifact({ name: "minilm" }) };
  const { id, outs } = await modelRepository.create(
    "r",
    inputs({ "text/1/model.py": modelSource }, artifacts),
    context,
  );
  expect(Object.keys(content())).toEqual([
    "text/1/facts.json",
    "text/1/half",
    "text/1/model.onnx",
    "text/1/model.py",
  ]);
  const over = inputs({ "text/1/model.onnx": { text: "x" } }, artifacts);
  await expect(modelRepository.update(id, outs, over, context)).rejects.toThrow(
    "text/1/model.onnx is made by the builder and is listed in files too",
  );
  await modelRepository.delete(id, outs, context);
});

describe("check", () => {
  it("refuses paths that lead out of the repository, the stack or the project", async () => {
    const files = {
      "../escape": { text: "" },
      "/absolute": { text: "" },
      "a//b": { text: "" },
      "a/./b": { text: "" },
      "a\nb": { text: "" },
      source: { source: "../../etc/passwd", sha256: sha256("") },
    };
    const { failures } = await modelRepository.check({ ...inputs(files), directory: ".stacks/s" });
    expect(failures.map(({ property }) => property).toSorted()).toEqual([
      "directory",
      "files.source.source",
      'files["../escape"]',
      'files["/absolute"]',
      'files["a/./b"]',
      'files["a//b"]',
      'files["a\\nb"]',
    ]);
    for (const { reason } of failures)
      expect(reason).toMatch(/must (be a path below|lie in a stack's folder)/);
  });

  it("refuses a source whose content is another, in create as well", async () => {
    const wrong = inputs({ "a.py": { source: "models/model.py", sha256: sha256("another") } });
    const { failures } = await modelRepository.check(wrong);
    expect(failures).toHaveLength(1);
    expect(failures[0]?.reason).toContain(
      `models/model.py has SHA-256 ${sha256("print('model')\n")} instead of`,
    );
    await expect(modelRepository.create("r", wrong, context)).rejects.toThrow("models/model.py has SHA-256");
    await modelRepository.delete(DIRECTORY, wrong, context);
    const missing = inputs({ "a.py": { source: "models/none.py", sha256: sha256("") } });
    expect((await modelRepository.check(missing)).failures[0]?.reason).toBe("models/none.py does not exist.");
  });

  it("refuses entries within entries and a digest of something else", async () => {
    const overlapping = inputs(
      { "a/b": { text: "" }, "c/d": { text: "" }, "c/d/e": { text: "" } },
      { a: artifact({ name: "x" }), "a/deep": artifact({ name: "y" }) },
    );
    const found = (await modelRepository.check(overlapping)).failures.map(({ property }) => property);
    expect(found.toSorted()).toEqual(['artifacts["a/deep"]', 'files["c/d/e"]']);
    const { failures } = await modelRepository.check({ ...standard, digest: sha256("x") });
    expect(failures.map(({ property }) => property)).toEqual(["digest"]);
  });
});

it("tells of a full cache in one sentence and keeps nothing", async () => {
  mkdirSync(cache);
  const full = `${BUILDER}\nraise OSError(28, "No space left on device")\n`;
  writeProjectFile("containers/cpu-models/engine_room_models/build.py", full);
  await expect(modelRepository.create("r", standard, context)).rejects.toThrow(
    /the disk is full; free some space/,
  );
  expect(readdirSync(join(cache, "artifacts"))).toEqual([]);
  writeProjectFile("containers/cpu-models/engine_room_models/build.py", BUILDER);
  await modelRepository.delete(DIRECTORY, standard, context);
});
