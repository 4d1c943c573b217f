// Bundles of the project's TypeScript in node_modules/.cache/engine-room/<hash>/. The hash is that of all that a bundle is
// made of, so a bundle is never out of date: it is found by the content of its inputs, or another one is made.
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Packages that become part of a bundle: of many files, and of which no package outside it shares a module with us. */
const BUNDLED_PACKAGES = /^(zod|mingo|@engine-room\/[^/]+)(\/|$)/;

/** Names of the inputs, within a bundle. */
const INPUTS_FILE = "inputs.json";

/** A process loads parts of its bundle when it needs them, so the bundle of an older process stays for a while. */
const KEPT_BUNDLES = 3;
const KEPT_UNUSED_MS = 3_600_000;

/** Error codes of a folder that can't be written. */
const NO_PLACE = ["EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT"];

/**
 * The bundle of the current sources; builds it if it is missing.
 *
 * @param {string} root - Absolute path of the project.
 * @param {readonly string[]} entryPoints - TypeScript files relative to it; each is a `.mjs` of that name in the bundle.
 * @returns {Promise<string | null>} Absolute path of its folder; null when no bundle can be stored, as in a read-only checkout.
 * @throws {SyntaxError} A source can't be compiled; the message is a sentence with its place.
 */
export async function currentBundle(root, entryPoints) {
  const project = { root, entryPoints, cache: join(root, "node_modules", ".cache", "engine-room") };
  try {
    mkdirSync(project.cache, { recursive: true });
    return findBundle(project) ?? (await makeBundle(project));
  } catch (error) {
    if (NO_PLACE.includes(error.code)) return null;
    throw error;
  }
}

function findBundle(project) {
  for (const { path, name } of newestFirst(project.cache)) {
    try {
      const inputs = JSON.parse(readFileSync(join(path, INPUTS_FILE), "utf8"));
      const contents = inputs.map((input) => [input, readFileSync(join(project.root, input))]);
      if (contentHash(project, contents) !== name) continue;
    } catch (error) {
      // An input or the bundle was removed, or the machine went off while it was written.
      if (error.code === "ENOENT" || error instanceof SyntaxError) continue;
      throw error;
    }
    markUsed(path);
    return path;
  }
  return null;
}

async function makeBundle(project) {
  removeOld(project.cache);
  const folder = mkdtempSync(join(project.cache, ".new-"));
  try {
    const { outputs, inputs } = await build(project, folder);
    for (const { path, contents } of outputs) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, contents);
    }
    writeFileSync(join(folder, INPUTS_FILE), JSON.stringify(inputs.map(([input]) => input)));
    const bundle = join(project.cache, contentHash(project, inputs));
    putInPlace(folder, bundle);
    return bundle;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function putInPlace(folder, bundle) {
  try {
    renameSync(folder, bundle);
  } catch (error) {
    // Another process was quicker with the same.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
  }
}

/** Output files below `folder`, and all that was read for them, by path relative to the project, with its content. */
async function build({ root, entryPoints }, folder) {
  const esbuild = await import("esbuild");
  const inputs = new Map();
  const read = (path) => {
    const content = readFileSync(path);
    inputs.set(relative(root, path), content);
    return content;
  };
  // Another version of it may make something else of the same sources.
  read(join(root, "node_modules", "esbuild", "package.json"));
  try {
    const { outputFiles } = await esbuild.build({
      absWorkingDir: root,
      entryPoints: [...entryPoints],
      outdir: folder,
      outbase: root,
      outExtension: { ".js": ".mjs" },
      chunkNames: "chunks/[name]-[hash]",
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20.19",
      // Beside the bundle, where nothing reads them until a stack trace is mapped.
      sourcemap: "linked",
      sourcesContent: false,
      // tsconfig.json is for the type checker; this is what matters for the result.
      tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
      define: { "import.meta": "import_meta" },
      plugins: [packages(root, read), sources(read)],
      write: false,
      logLevel: "silent",
    });
    return { outputs: outputFiles, inputs: [...inputs].sort(([a], [b]) => (a < b ? -1 : 1)) };
  } catch (error) {
    if (!Array.isArray(error.errors)) throw error;
    throw new SyntaxError(sentence(error.errors));
  } finally {
    await esbuild.stop();
  }
}

/** Leaves packages to Node, except those that are bundled. */
function packages(root, read) {
  return {
    name: "packages",
    setup(build) {
      build.onResolve({ filter: /^[^./]/ }, ({ path, kind, resolveDir }) => {
        if (kind === "entry-point") return undefined;
        const [, name] = BUNDLED_PACKAGES.exec(path) ?? [];
        if (name === undefined) return { path: ownVersion(root, resolveDir, path) ?? path, external: true };
        // It says which file an import of the package is.
        read(join(root, "node_modules", name, "package.json"));
        return undefined;
      });
    },
  };
}

/**
 * File of a package whose version in a workspace differs from the root's; a bundle is outside the workspace, and would find
 * the root's. @returns undefined when the workspace has no version of its own.
 */
function ownVersion(root, importer, specifier) {
  const [name] = /^(@[^/]+\/)?[^/]+/.exec(specifier) ?? [];
  for (let folder = importer; folder !== root && folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, "node_modules", name)))
      return createRequire(join(folder, "package.json")).resolve(specifier);
  }
  return undefined;
}

/**
 * Imports the object `z` with all of zod and messages in fifty languages: three times as much code. From a namespace import the
 * bundle takes only used parts.
 */
const ZOD_IMPORT = /^import \{ z \} from "zod";$/m;

const LOADERS = { ".ts": "ts", ".json": "json" };

/** Files as they are when they are compiled, with an `import.meta` that still has the source's path. */
function sources(read) {
  return {
    name: "sources",
    setup(build) {
      build.onLoad({ filter: /./ }, ({ path }) => {
        const text = read(path).toString().replace(ZOD_IMPORT, 'import * as z from "zod";');
        const meta = { url: pathToFileURL(path).href, filename: path, dirname: dirname(path) };
        // On the first line, so that all lines keep their numbers.
        const prefix = text.includes("import.meta") ? `const import_meta = ${JSON.stringify(meta)}; ` : "";
        return { contents: prefix + text, loader: LOADERS[extname(path)] ?? "js" };
      });
    },
  };
}

/** @param errors - esbuild's. */
function sentence(errors) {
  const [{ text, location }] = errors;
  const place = location === null ? "" : `${location.file}:${location.line}:${location.column + 1}: `;
  const more = errors.length > 1 ? ` There are ${errors.length - 1} more mistakes.` : "";
  return `${place}${text.replace(/[.!]?$/, ".")}${more} Correct it; \`npx tsc --noEmit\` shows all.`;
}

/** SHA-256 of inputs, their names, and how they are bundled. */
function contentHash({ root, entryPoints }, inputs) {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([root, entryPoints]));
  hash.update(readFileSync(fileURLToPath(import.meta.url)));
  for (const [path, content] of inputs) hash.update(`\0${path}\0${content.length}\0`).update(content);
  return hash.digest("hex").slice(0, 32);
}

/** Folders of the cache with when they were last used. */
function newestFirst(cache, accept = /^[0-9a-f]+$/) {
  return readdirSync(cache, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && accept.test(entry.name))
    .map(({ name }) => ({ name, path: join(cache, name) }))
    .map((folder) => ({ ...folder, usedMs: statSync(folder.path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.usedMs - a.usedMs);
}

function markUsed(bundle) {
  try {
    const now = new Date();
    utimesSync(bundle, now, now);
  } catch (error) {
    // A cache that only others may write to, whose bundles are theirs to remove.
    if (!NO_PLACE.includes(error.code)) throw error;
  }
}

/** Removes bundles unused for an hour, except the newest few, and leftovers of killed builds. */
function removeOld(cache) {
  const unused = ({ usedMs }) => Date.now() - usedMs > KEPT_UNUSED_MS;
  const leftovers = newestFirst(cache, /^\.new-/);
  for (const { path } of [...newestFirst(cache).slice(KEPT_BUNDLES), ...leftovers].filter(unused))
    rmSync(path, { recursive: true, force: true });
}
