// How everything that runs by itself gets at the project's TypeScript: the commands, the program that the Pulumi CLI
// starts, the provider, the policy pack, the services on this machine. See docs/decisions/0014-programs-load-from-a-bundle.md.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { currentBundle } from "./bundle.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Sources that may be asked for; all are in one bundle, so that a process has each module once. */
const ENTRY_POINTS = [
  "bootstrap/index.ts",
  "components/local/provider/index.ts",
  "containers/services/gateway/src/main.ts",
  "containers/services/mock-mongo/src/main.ts",
  "containers/services/mock-vector/src/main.ts",
  "infra/index.ts",
  "policy/pack.ts",
  "test/bench/empty-program.ts",
  "test/bench/preview-child.ts",
  "test/bench/render-child.ts",
  "scripts/commands/main.ts",
  "scripts/diff/render-child.ts",
];

/**
 * Packages that @pulumi/pulumi needs only for functions that a program hands to the engine, which ours never do; loading them is a
 * third of a program's start.
 */
const LOADED_WHEN_USED = ["typescript", "@npmcli/arborist"];

/**
 * Imports a TypeScript module from the bundle, or by tsx when no bundle can be stored.
 *
 * @param {string} source - One of the entry points, relative to the project.
 * @returns {Promise<any>} The module.
 * @throws {SyntaxError} A source can't be compiled; the message is a sentence with its place.
 */
export async function importSource(source) {
  if (!ENTRY_POINTS.includes(source))
    throw new Error(
      `${source} is not in the bundle; add it to the entry points in loader/import-source.mjs.`,
    );
  for (const name of LOADED_WHEN_USED) loadWhenUsed(name);
  const bundle = await currentBundle(root, ENTRY_POINTS);
  if (bundle === null) {
    const { register } = await import("tsx/esm/api");
    register();
    return import(pathToFileURL(join(root, source)).href);
  }
  // Source maps slow down every stack trace, and the SDK creates thousands; `DEBUG` asks for traces.
  if (process.env.DEBUG !== undefined) process.setSourceMapsEnabled(true);
  return import(pathToFileURL(join(bundle, source.replace(/\.ts$/, ".mjs"))).href);
}

/** Delays the load of a CommonJS module until a property of `require(name)` is read. */
function loadWhenUsed(name) {
  const require = createRequire(join(root, "package.json"));
  const file = require.resolve(name);
  if (require.cache[file] !== undefined) return;
  const load = () => {
    if (require.cache[file] === placeholder) delete require.cache[file];
    return require(file);
  };
  // Compiled ES modules copy all names of a module without `__esModule`, which would load it.
  const get = (_target, key) => (key === "__esModule" ? true : load()[key]);
  const placeholder = { id: file, filename: file, loaded: true, exports: new Proxy({}, { get }) };
  require.cache[file] = placeholder;
}
