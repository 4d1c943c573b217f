import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { PropertyMap } from "../../../components/local/provider/contract.ts";
import { cacheDirectory } from "../../../components/local/provider/files.ts";
import { findPython, PythonMissingError } from "../../../components/local/provider/python-discovery.ts";
import { pythonEnvironment } from "../../../components/local/provider/python-environment.ts";
import {
  context,
  makeProject,
  projectFile,
  removeProject,
  SUPERVISOR_LOCK,
  sha256,
  writeProjectFile,
} from "./fixtures.ts";

const originalPath = process.env.PATH;
let root: string;
beforeAll(() => {
  root = makeProject();
});
afterEach(() => {
  process.env.PATH = originalPath;
});
afterAll(() => removeProject(root));

function inputs(stack: string, lock: string, changes: Record<string, unknown> = {}): PropertyMap {
  const requirements = `${stack}.lock`;
  writeProjectFile(requirements, lock);
  return { directory: `.stacks/${stack}/python`, requirements, requirementsSha256: sha256(lock), ...changes };
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

describe("a Python environment", () => {
  it("holds what its lock lists, from create over update to delete", async () => {
    const wanted = inputs("a", SUPERVISOR_LOCK);
    expect((await pythonEnvironment.check(wanted)).failures).toEqual([]);
    const { id, outs } = await pythonEnvironment.create("python", wanted, context);
    expect(outs).toMatchObject({ python: ".stacks/a/python/bin/python" });
    expect(outs.sitePackages).toBe(
      `.stacks/a/python/lib/python${String(outs.version).replace(/\.\d+$/, "")}/site-packages`,
    );
    expect(readdirSync(projectFile(String(outs.sitePackages)))).toContain("supervisor");
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

  it("is made anew after an interruption, and found gone until then", async () => {
    const wanted = inputs("b", SUPERVISOR_LOCK);
    const { id, outs } = await pythonEnvironment.create("python", wanted, context);
    rmSync(projectFile(".stacks/b/python/.engine-room-environment.json"));
    rmSync(join(projectFile(String(outs.sitePackages)), "supervisor", "rpcinterface.py"));
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

  it("takes another Python version in place, and another folder as a replacement", async () => {
    const olds = inputs("c", SUPERVISOR_LOCK);
    expect(await pythonEnvironment.diff("id", olds, { ...olds, pythonVersion: "3.11" })).toMatchObject({
      changedProperties: ["pythonVersion"],
      replaces: [],
    });
    expect(await pythonEnvironment.diff("id", olds, { ...olds, directory: ".stacks/c/other" })).toMatchObject(
      {
        replaces: ["directory"],
        deleteBeforeReplace: false,
      },
    );
  });

  it("refuses a lock with a wrong hash, and leaves nothing half-made", async () => {
    const lock = `supervisor==4.3.0 --hash=sha256:${"0".repeat(64)}\n`;
    await expect(pythonEnvironment.create("python", inputs("d", lock), context)).rejects.toThrow(
      /d\.lock failed: .*hash/is,
    );
    expect(existsSync(projectFile(".stacks/d"))).toBe(false);
  });

  it("refuses a lock without hashes and one that does not parse", async () => {
    for (const lock of ["supervisor==4.3.0\n", "supervisor=!4\n"]) {
      await expect(pythonEnvironment.create("python", inputs("e", lock), context)).rejects.toThrow(
        "e.lock failed",
      );
      expect(existsSync(projectFile(".stacks/e"))).toBe(false);
    }
  });

  it("refuses a lock that changed since the program read it", async () => {
    const wanted = inputs("f", SUPERVISOR_LOCK);
    writeProjectFile("f.lock", "# edited\n");
    const { failures } = await pythonEnvironment.check(wanted);
    expect(failures.map(({ property }) => property)).toEqual(["requirements"]);
    await expect(pythonEnvironment.create("python", wanted, context)).rejects.toThrow(
      "it changed while the program ran",
    );
  });

  it("checks every property", async () => {
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
});

describe("a full disk", () => {
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

  it("is told in one sentence, and nothing half-made stays", async ({ skip }) => {
    const project = process.env.ENGINE_ROOM_ROOT;
    if (mount === undefined) return skip(reason);
    process.env.ENGINE_ROOM_ROOT = mount;
    try {
      const wanted = inputs("full", SUPERVISOR_LOCK);
      await expect(pythonEnvironment.create("python", wanted, context)).rejects.toThrow(
        /^.*\.stacks\/full\/python.*: the disk is full; free some space there \(df -h shows how much\) and run it again\.$/,
      );
      expect(existsSync(join(mount, ".stacks"))).toBe(false);
    } finally {
      process.env.ENGINE_ROOM_ROOT = project;
    }
  });
});

describe("the search for Python", () => {
  it("finds an installed one", async () => {
    const python = await findPython(undefined);
    expect(python.version).toMatch(/^3\.1[0-2]\.\d+$/);
  });

  it("names the Debian packages where the version is not installed", async () => {
    const failure = await findPython("3.9").catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(PythonMissingError);
    expect((failure as PythonMissingError).message).toMatch(
      /: apt-get install python3\.9 python3\.9-venv libpython3\.9 libgomp1$/,
    );
  });

  it("passes over what does not answer as an interpreter", async () => {
    const folder = projectFile("bin");
    mkdirSync(folder);
    for (const name of ["python3", "python3.12", "python3.11"]) {
      writeFileSync(join(folder, name), "#!/bin/sh\necho no interpreter\n");
      chmodSync(join(folder, name), 0o755);
    }
    process.env.PATH = `${folder}:${originalPath}`;
    expect((await findPython(undefined)).executable.startsWith(folder)).toBe(false);
  });

  it("keeps its downloads where it is told", () => {
    const before = { ...process.env };
    delete process.env.ENGINE_ROOM_CACHE_DIR;
    process.env.XDG_CACHE_HOME = "/xdg";
    expect(cacheDirectory()).toBe("/xdg/engine-room");
    process.env.ENGINE_ROOM_CACHE_DIR = "/given";
    expect(cacheDirectory()).toBe("/given");
    process.env = before;
  });
});
