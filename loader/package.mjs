// `npm pack` and `npm publish` run this: the component and the provider as plain JavaScript in dist/, with declarations, because
// Node refuses to strip types below node_modules. See docs/decisions/0014-programs-load-from-a-bundle.md.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, extname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import ts from "typescript";

const root = fileURLToPath(new URL("../", import.meta.url));
const dist = join(root, "dist");

/** `import.meta` of a source, from where a file of dist/ lies. */
const BANNER = `import { dirname as package_dirname } from "node:path";
import { fileURLToPath as package_path } from "node:url";
const package_url = import.meta.url;
const package_meta = (source) => {
  const url = new URL(source, package_url).href;
  return { url, filename: package_path(url), dirname: package_dirname(package_path(url)) };
};`;

const bundle = (entryPoints, define = {}) =>
  build({
    absWorkingDir: root,
    entryPoints,
    outdir: dist,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    banner: { js: BANNER },
    define: { "import.meta": "import_meta", ...define },
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
    plugins: [
      {
        name: "sources",
        setup({ onLoad, onResolve }) {
          // Packages are dependencies; those of the workspace are in no registry.
          onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
            kind === "entry-point" || path.startsWith("@engine-room/") ? undefined : { path, external: true },
          );
          onLoad({ filter: /\.ts$/ }, ({ path }) => {
            const text = readFileSync(path, "utf8");
            const meta = `const import_meta = package_meta(${JSON.stringify(relative(dist, path))}); `;
            return {
              contents: (text.includes("import.meta") ? meta : "") + text,
              loader: extname(path).slice(1),
            };
          });
        },
      },
    ],
  });

rmSync(dist, { recursive: true, force: true });
await bundle({ "image-inputs": "infra/image-inputs.ts" });
const { imageFiles } = await import(pathToFileURL(join(dist, "image-inputs.js")).href);
rmSync(dist, { recursive: true });
await bundle(
  {
    "inference-stack": "infra/inference-stack.ts",
    "local-provider": "components/local/provider/index.ts",
  },
  { PACKED_IMAGE_FILES: JSON.stringify(imageFiles()) },
);

/** Sources of the declarations; those of the arguments come from the schema of stack files, which has each key's sentence and default. */
for (const source of ["infra/inference-stack.ts", "infra/plan/endpoints.ts"]) {
  const { outputText, diagnostics } = ts.transpileDeclaration(readFileSync(join(root, source), "utf8"), {
    fileName: source,
    reportDiagnostics: true,
    compilerOptions: { module: ts.ModuleKind.NodeNext, allowImportingTsExtensions: true },
  });
  for (const { messageText } of diagnostics ?? [])
    throw new Error(`${source}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`);
  write(source, outputText.replaceAll(/(from "[^"]+)\.ts"/g, '$1.js"'));
}
const schema = JSON.parse(readFileSync(join(root, "docs/stack-file.schema.json"), "utf8"));
write("infra/config/config.ts", stackFileTypes(schema.definitions));

function write(source, text) {
  const file = join(dist, "types", source.replace(/\.ts$/, ".d.ts"));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

/** `StackFile` of JSON Schema: a type for each definition. */
function stackFileTypes(definitions) {
  const names = Object.keys(definitions);
  const types = names.map((name) => `export type ${typeName(name)} = ${typeOf(definitions[name])};\n`);
  const stacks = names.filter((name) => name.startsWith("stack-")).map(typeName);
  return `${types.join("\n")}\nexport type StackFile = ${stacks.join(" | ")};\n`;
}

function typeName(definition) {
  return definition.replaceAll(/(^|-)(\w)/g, (_match, _dash, letter) => letter.toUpperCase());
}

function typeOf(schema) {
  if (schema.$ref !== undefined) return typeName(schema.$ref.split("/").at(-1));
  const forms = schema.oneOf ?? schema.anyOf;
  if (forms !== undefined) return `(${forms.map(typeOf).join(" | ")})`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return `(${schema.enum.map((value) => JSON.stringify(value)).join(" | ")})`;
  const keys = Object.keys(schema.properties ?? {});
  // In a stack file a text may be encrypted, and the CLI may make a text of any value.
  if (keys.join() === "secure") return "string";
  const kinds = [schema.type].flat();
  const kind = keys.length > 0 ? "object" : (kinds.find((one) => one !== "string") ?? "string");
  if (kind === "array")
    return `readonly ${schema.items === undefined ? "unknown" : `(${typeOf(schema.items)})`}[]`;
  if (kind === "integer") return "number";
  if (kind !== "object") return kind ?? "unknown";
  if (keys.length === 0) {
    const values =
      typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties) : "unknown";
    return `{ readonly [name: string]: ${values} }`;
  }
  const isRequired = (key, value) =>
    schema.required?.includes(key) || (value.const !== undefined && value.default === undefined);
  const members = Object.entries(schema.properties).map(
    ([key, value]) =>
      `${comment(value)}readonly ${memberName(key)}${isRequired(key, value) ? "" : "?"}: ${typeOf(value)};`,
  );
  return `{\n${members.join("\n")}\n}`;
}

/** The sentence and the default of a key. */
function comment(schema) {
  const { description, default: value } = { ...definition(schema), ...schema };
  const lines = [description, value === undefined ? undefined : `@default ${JSON.stringify(value)}`];
  const text = lines.filter((line) => line !== undefined).join("\n * ");
  return text === "" ? "" : `/** ${text.replaceAll("*/", "*\\/")} */\n`;
}

function definition({ $ref }) {
  return $ref === undefined ? {} : schema.definitions[$ref.split("/").at(-1)];
}

function memberName(key) {
  const name = key.replace("engine-room:", "");
  return /^[A-Za-z]\w*$/.test(name) ? name : JSON.stringify(name);
}
