/** A service as JavaScript: without a loader that translates each module, a process of it starts in half the time. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { projectFile, temporaryFolder } from "./service-process.ts";

export interface CompiledService {
  /** Files. */
  readonly main: string;
  readonly server: string;
  remove(): void;
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** What the names of the repository's own packages begin with; the rest is their folder below containers/services. */
const OWN_PACKAGES = "@engine-room/";

/** @param service - Folder below containers/services. */
export function compileService(service: string): CompiledService {
  const folder = temporaryFolder(`compiled-${service}`);
  const target = join(folder.path, "service");
  symlinkSync(projectFile("node_modules"), join(folder.path, "node_modules"));
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
  compileSources(service, target);
  // Nearer than the link above: the packages there are TypeScript.
  const { dependencies = {} } = JSON.parse(
    readFileSync(projectFile(`containers/services/${service}/package.json`), "utf8"),
  ) as Manifest;
  for (const name of Object.keys(dependencies).filter((one) => one.startsWith(OWN_PACKAGES))) {
    const compiled = join(target, "node_modules", name);
    compileSources(name.slice(OWN_PACKAGES.length), compiled);
    writeFileSync(join(compiled, "package.json"), '{ "type": "module", "exports": "./index.js" }');
  }
  return {
    main: join(target, "main.js"),
    server: join(target, "server.js"),
    remove: folder.remove,
  };
}

function compileSources(service: string, target: string): void {
  const source = projectFile(`containers/services/${service}/src`);
  for (const file of readdirSync(source, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts") || file.endsWith(".d.ts")) continue;
    const { outputText } = ts.transpileModule(readFileSync(join(source, file), "utf8"), {
      compilerOptions: {
        module: ts.ModuleKind.ESNext,
        target: ts.ScriptTarget.ES2022,
        verbatimModuleSyntax: true,
        rewriteRelativeImportExtensions: true,
      },
    });
    const compiled = join(target, file.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(compiled), { recursive: true });
    writeFileSync(compiled, outputText);
  }
}
