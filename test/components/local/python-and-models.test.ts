/** Python environments and model repositories from create to delete. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { PropertyMap } from "../../../components/local/provider/contract.ts";
import { cacheDirectory } from "../../../components/local/provider/files.ts";
import type { RepositoryArtifact, RepositoryFile } from "../../../components/local/provider/inputs.ts";
import { modelRepository } from "../../../components/local/provider/model-repository.ts";
import {
  findPython,
  PythonMissingError,
  pythonEnvironment,
} from "../../../components/local/provider/python.ts";
import { jsonDigest } from "../../../infra/plan/plain-data.ts";
import {
  context,
  makeEnvironment,
  makeProject,
  projectFile,
  removeProject,
  reported,
  SUPERVISOR_LOCK,
  sha256,
  writeProjectFile,
} from "./fixtures.ts";

describe("python environment", () => {
  let root: string;

  beforeAll(() => {
    root = makeProject();
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  afterAll(() => removeProject(root));

  function inputs(stack: string, lock: string, changes: Record<string, unknown> = {}): PropertyMap {
    const requirements = `${stack}.lock`;
    writeProjectFile(requirements, lock);
    return {
      directory: `.stacks/${stack}/python`,
      requirements,
      requirementsSha256: sha256(lock),
      ...changes,
    };
  }

  function has(python: unknown, module: string): boolean {
    const code = `import importlib.util as u; raise SystemExit(u.find_spec("${module}") is None)`;
    try {
      execFileSync(projectFile(String(python)), ["-I", "-c", code]);
      return true;
    } catch {
      return false;
    }
  }

  test("a Python environment has the packages of its lock, from create over update to delete", async () => {
    const wanted = inputs("a", SUPERVISOR_LOCK);
    expect((await pythonEnvironment.check(wanted)).failures).toEqual([]);
    const { id, outs } = await pythonEnvironment.create("python", wanted, context);
    expect(outs).toMatchObject({ python: ".stacks/a/python/bin/python" });
    expect(has(outs.python, "supervisor")).toBe(true);
    expect(await pythonEnvironment.read(id, outs, context)).toEqual({ id, inputs: wanted, outs });

    const empty = inputs("a", "# nothing\n");
    expect(await pythonEnvironment.diff(id, outs, empty)).toMatchObject({
      changedProperties: ["requirementsSha256"],
      replaces: [],
    });
    const updated = await pythonEnvironment.update(id, outs, empty, context);
    expect(has(outs.python, "supervisor")).toBe(false);
    expect(has(outs.python, "json")).toBe(true);

    await pythonEnvironment.delete(id, updated.outs, context);
    await pythonEnvironment.delete(id, updated.outs, context);
    expect(existsSync(projectFile(".stacks/a"))).toBe(false);
    expect(await pythonEnvironment.read(id, outs, context)).toBeUndefined();
  });

  test("a Python environment is reported missing after an interruption, and created again", async () => {
    const wanted = inputs("b", SUPERVISOR_LOCK);
    const { id, outs } = await pythonEnvironment.create("python", wanted, context);
    rmSync(projectFile(".stacks/b/python/.engine-room-environment.json"));
    const [version] = readdirSync(projectFile(".stacks/b/python/lib"));
    rmSync(projectFile(`.stacks/b/python/lib/${version}/site-packages/supervisor/rpcinterface.py`));
    expect(await pythonEnvironment.read(id, outs, context)).toBeUndefined();
    await pythonEnvironment.create("python", wanted, context);
    expect(has(outs.python, "supervisor.rpcinterface")).toBe(true);

    // The interpreter that it links to was uninstalled.
    rmSync(projectFile(String(outs.python)));
    expect(await pythonEnvironment.read(id, outs, context)).toBeUndefined();
    await pythonEnvironment.create("python", wanted, context);
    expect(has(outs.python, "supervisor")).toBe(true);
    await pythonEnvironment.delete(id, outs, context);
  });

  test("another Python version updates a Python environment in place, and another folder replaces it", async () => {
    const olds = inputs("c", SUPERVISOR_LOCK);
    expect(await pythonEnvironment.diff("id", olds, { ...olds, pythonVersion: "3.11" })).toMatchObject({
      changedProperties: ["pythonVersion"],
      replaces: [],
    });
    expect(await pythonEnvironment.diff("id", olds, { ...olds, directory: ".stacks/c/other" })).toMatchObject(
      { replaces: ["directory"] },
    );
  });

  test("a lock with a wrong hash is refused, and leaves nothing incomplete", async () => {
    const lock = `supervisor==4.3.0 --hash=sha256:${"0".repeat(64)}\n`;
    await expect(pythonEnvironment.create("python", inputs("d", lock), context)).rejects.toThrow(
      /d\.lock failed: .*hash/is,
    );
    expect(existsSync(projectFile(".stacks/d"))).toBe(false);
  });

  test("a lock without hashes and a lock that does not parse are refused", async () => {
    for (const lock of ["supervisor==4.3.0\n", "supervisor=!4\n"]) {
      await expect(pythonEnvironment.create("python", inputs("e", lock), context)).rejects.toThrow(
        "e.lock failed",
      );
      expect(existsSync(projectFile(".stacks/e"))).toBe(false);
    }
  });

  test("an index that does not answer is an error of one short sentence with the setting of another index", async () => {
    vi.stubEnv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple");
    vi.stubEnv("UV_HTTP_RETRIES", "0");
    const lock = `engine-room-absent==1.0.0 --hash=sha256:${"0".repeat(64)}\n`;
    await expect(pythonEnvironment.create("python", inputs("g", lock), context)).rejects.toThrow(
      /^installing g\.lock failed: the registry 127\.0\.0\.1:9 can't be used: the connection was refused\. It downloads from .* UV_DEFAULT_INDEX or uv\.toml names; check the network, and run the command again\.$/,
    );
  });

  test("a lock that changed since the program read it is refused", async () => {
    const wanted = inputs("f", SUPERVISOR_LOCK);
    writeProjectFile("f.lock", "# edited\n");
    await expect(pythonEnvironment.create("python", wanted, context)).rejects.toThrow(
      "it changed while the program ran",
    );
  });

  test("a check of a Python environment covers every property", async () => {
    const { failures } = await pythonEnvironment.check({
      directory: "components",
      requirements: "../lock",
      requirementsSha256: "x",
      pythonVersion: "2.7",
    });
    expect(failures.map(({ property }) => property)).toEqual([
      "directory",
      "requirements",
      "requirementsSha256",
      "pythonVersion",
    ]);
  });

  describe("full disk", () => {
    let mount: string | undefined;
    let reason = "";
    beforeAll(() => {
      const folder = mkdtempSync(join(tmpdir(), "engine-room-full-"));
      try {
        execFileSync("mount", ["-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], { stdio: "pipe" });
        mount = folder;
      } catch (error) {
        reason = `A small file system cannot be mounted here: ${String(error).split("\n")[0]}`;
        rmSync(folder, { recursive: true });
      }
    });
    afterAll(() => {
      if (mount === undefined) return;
      execFileSync("umount", ["--lazy", mount]);
      rmSync(mount, { recursive: true });
    });

    test("an environment on a full disk fails in one sentence, and leaves nothing incomplete", async ({
      skip,
    }) => {
      if (mount === undefined) return skip(reason);
      vi.stubEnv("ENGINE_ROOM_ROOT", mount);
      const wanted = inputs("full", SUPERVISOR_LOCK);
      await expect(pythonEnvironment.create("python", wanted, context)).rejects.toThrow(
        /^The disk of .*\.stacks\/full\/python was full; it has \d+ MB and \d+ inodes free now\. Free more there, and run the command again\.$/,
      );
      expect(existsSync(join(mount, ".stacks"))).toBe(false);
    });
  });

  test("the search for Python finds an installed version", async () => {
    const python = await findPython(undefined);
    expect(python.version).toMatch(/^3\.1[0-2]\.\d+$/);
  });

  test("the search for Python names the Debian packages of a version that is not installed", async () => {
    const failure = await findPython("3.9").catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(PythonMissingError);
    expect((failure as PythonMissingError).message).toMatch(
      /: apt-get install python3\.9 python3\.9-venv libpython3\.9 libgomp1$/,
    );
  });

  test("the search for Python skips a program that does not answer as an interpreter", async () => {
    const folder = projectFile("bin");
    mkdirSync(folder);
    for (const name of ["python3", "python3.12", "python3.11"]) {
      writeFileSync(join(folder, name), "#!/bin/sh\necho no interpreter\n");
      chmodSync(join(folder, name), 0o755);
    }
    vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
    expect((await findPython(undefined)).executable.startsWith(folder)).toBe(false);
  });

  test("downloads are kept in the configured cache", () => {
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", undefined);
    vi.stubEnv("XDG_CACHE_HOME", "/xdg");
    expect(cacheDirectory()).toBe("/xdg/engine-room");
    vi.stubEnv("XDG_CACHE_HOME", "");
    expect(cacheDirectory()).toBe(join(homedir(), ".cache/engine-room"));
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", "/given");
    expect(cacheDirectory()).toBe("/given");
  });
});

describe("model repository", () => {
  const DIRECTORY = ".stacks/s/repositories/encoders";

  /** A builder that writes its specification's files and counts its runs. */
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

  beforeAll(async () => {
    root = makeProject();
    await makeEnvironment("s");
    writeProjectFile("containers/python/engine_room/cpu_models/build.py", BUILDER);
    writeProjectFile("models/model.py", "print('model')\n");
  });

  beforeEach(() => {
    cache = join(root, `cache-${Math.random().toString(36).slice(2)}`);
    vi.stubEnv("ENGINE_ROOM_CACHE_DIR", cache);
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  afterAll(() => removeProject(root));

  function inputs(
    files: Record<string, RepositoryFile>,
    artifacts: Record<string, RepositoryArtifact> = {},
  ): PropertyMap {
    const python = ".stacks/s/python/bin/python";
    return { directory: DIRECTORY, python, files, artifacts, digest: jsonDigest({ files, artifacts }) };
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

  test("a model repository holds exactly its inputs, from create over update to delete", async () => {
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

  test("an artifact is built once, and again when its cached file is damaged", async () => {
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

  test("an artifact is built once for two repositories at the same time", async () => {
    const other = { ...standard, directory: ".stacks/s/repositories/other" };
    const made = await Promise.all(
      [standard, other].map((wanted) => modelRepository.create("r", wanted, context)),
    );
    expect(builds()).toEqual(["minilm"]);
    for (const { id, outs } of made) await modelRepository.delete(id, outs, context);
  });

  test("a model repository is repaired after an interruption at any of its steps", async () => {
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
    // Incomplete builds in the cache do not count either, and are removed once their process is gone.
    const [key] = readdirSync(join(cache, "artifacts"));
    const noProcess = 2 ** 22 + 1;
    mkdirSync(join(cache, "artifacts", `${key}.${noProcess}-abc`));
    unlinkSync(join(cache, "artifacts", String(key), "hashes.json"));
    await modelRepository.update(id, outs, standard, context);
    expect(content()).toEqual(standardContent);
    expect(readdirSync(join(cache, "artifacts"))).toEqual([key]);
    await modelRepository.delete(id, outs, context);
  });

  test("changed, missing and additional files are drift of a repository's digest", async () => {
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

  test("a repository stays as it was when its update fails", async () => {
    const { id, outs } = await modelRepository.create("r", standard, context);
    const broken = inputs({ "a/config.pbtxt": { text: "" } }, { w: artifact({ name: "x", fails: true }) });
    await expect(modelRepository.update(id, outs, broken, context)).rejects.toThrow("failed");
    expect(content()).toEqual(standardContent);
    expect(await modelRepository.read(id, outs, context)).toEqual({ id, inputs: standard, outs });
    await modelRepository.delete(id, outs, context);
  });

  test("a failed builder is reported in its own words, and nothing is kept", async () => {
    const broken = inputs({}, { "text/1/weights": artifact({ name: "broken", fails: true }) });
    await expect(modelRepository.create("r", broken, context)).rejects.toThrow(
      /^The builder of .* failed: ValueError: the weights have the wrong shape$/,
    );
    expect(readdirSync(join(cache, "artifacts"))).toEqual([]);
    await modelRepository.delete(DIRECTORY, broken, context);
    expect(existsSync(projectFile(DIRECTORY))).toBe(false);
  });

  test("a file may be in the folder of a built file, and can't replace it", async () => {
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

  test("paths that lead out of the repository, the stack or the project are refused", async () => {
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
      expect(reason).toMatch(/must (be a path below|be in a stack's folder)/);
  });

  test("a source with other content and a missing source are refused", async () => {
    const wrong = inputs({ "a.py": { source: "models/model.py", sha256: sha256("another") } });
    await expect(modelRepository.create("r", wrong, context)).rejects.toThrow(
      `models/model.py has SHA-256 ${sha256("print('model')\n")} instead of`,
    );
    const missing = inputs({ "a.py": { source: "models/none.py", sha256: sha256("") } });
    await expect(modelRepository.create("r", missing, context)).rejects.toThrow(
      "models/none.py does not exist; restore it from the repository.",
    );
    await modelRepository.delete(DIRECTORY, wrong, context);
  });

  test("a full cache is reported in one sentence, and nothing is kept", async () => {
    mkdirSync(cache);
    const full = `${BUILDER}\nraise OSError(28, "No space left on device")\n`;
    writeProjectFile("containers/python/engine_room/cpu_models/build.py", full);
    await expect(modelRepository.create("r", standard, context)).rejects.toThrow(
      /^The disk of .* was full; .* or set ENGINE_ROOM_CACHE_DIR to a folder on a larger disk, and run the command again\.$/,
    );
    expect(readdirSync(join(cache, "artifacts"))).toEqual([]);
    writeProjectFile("containers/python/engine_room/cpu_models/build.py", BUILDER);
    await modelRepository.delete(DIRECTORY, standard, context);
  });
});
