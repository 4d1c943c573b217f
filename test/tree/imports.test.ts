import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { projectRoot } from "../../scripts/program/stack-file.ts";

/** Parts of the tree, and the parts that each may import. Longest prefix wins. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  "infra/plan/catalogue": [],
  // The shapes of the configuration, not its parser: see `typesOnly`.
  "infra/plan": ["infra/plan/catalogue"],
  // Names that the catalogue has are values of the schema.
  "infra/config": ["infra/plan/catalogue", "infra"],
  bootstrap: ["infra/config", "infra/plan", "infra/platforms"],
  infra: ["infra/config", "infra/plan", "infra/plan/catalogue", "infra/platforms"],
  "infra/platforms": ["infra", "infra/plan", "infra/plan/catalogue", "components"],
  components: ["infra/plan", "infra/plan/catalogue"],
  scripts: [
    "infra",
    "infra/config",
    "infra/plan",
    "infra/plan/catalogue",
    "infra/platforms",
    "components",
    "policy",
  ],
  // Rules over resources: of the program they know the stack file, the catalogue, and which images it runs.
  policy: ["infra", "infra/config", "infra/plan", "infra/plan/catalogue"],
  containers: [],
};

/** Files without imports, which every part of the program may import. */
const leaves = ["infra/problems.ts"];

/** Imports that exist only for the type checker may also point here. */
const typesOnly: Readonly<Record<string, readonly string[]>> = {
  "infra/plan": ["infra", "infra/config"],
};

/** Parts that must load without the Pulumi SDK, and files of `infra` that must. */
const withoutPulumi = ["infra/config", "infra/plan", "infra/plan/catalogue", "containers"];
const pureFiles = [
  "infra/checked-plan.ts",
  "infra/load-plan.ts",
  "infra/problems.ts",
  "policy/stack-policy.ts",
  "policy/stack-policy.ts",
];

/** Packages below containers/services that others may import; they import no other. The plan builds requests as well. */
const shared: Readonly<Record<string, readonly string[]>> = {
  "@engine-room/triton-requests": ["containers", "infra/plan", "scripts"],
  "@engine-room/service-process": ["containers"],
};

interface Import {
  readonly file: string;
  readonly target: string;
  readonly typeOnly: boolean;
  /** True when it is loaded only when the line runs. */
  readonly onDemand: boolean;
}

const parts = Object.keys(allowed).toSorted((a, b) => b.length - a.length);

function partOf(path: string): string | undefined {
  return parts.find((part) => path.startsWith(`${part}/`));
}

function sources(directory: string): string[] {
  return readdirSync(join(projectRoot, directory), { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : sources(path);
    return /\.m?ts$/.test(entry.name) ? [path] : [];
  });
}

function importsOf(file: string, text: string): Import[] {
  const pattern =
    /(?:^|\n)\s*(import|export)\s+(type\s)?[^;'"]*?from\s*["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)|(?:^|\n)\s*import\s+["']([^"']+)["']/g;
  return [...text.matchAll(pattern)].map((match) => {
    const specifier = match[3] ?? match[4] ?? match[5] ?? "";
    const target = specifier.startsWith(".")
      ? relative(projectRoot, resolve(projectRoot, dirname(file), specifier))
      : specifier;
    return { file, target, typeOnly: match[2] !== undefined, onDemand: match[4] !== undefined };
  });
}

/** Folder of a service that a file belongs to. */
function serviceOf(file: string): string | undefined {
  return /^containers\/services\/[^/]+/.exec(file)?.[0];
}

/** package.json of a file's service. */
function packageOf(
  file: string,
): { readonly name: string; readonly dependencies?: Readonly<Record<string, string>> } | undefined {
  const service = serviceOf(file);
  return service === undefined
    ? undefined
    : JSON.parse(readFileSync(join(projectRoot, service, "package.json"), "utf8"));
}

const imports = ["bootstrap", "infra", "components", "containers/services", "policy", "scripts"]
  .flatMap(sources)
  .flatMap((file) => importsOf(file, readFileSync(join(projectRoot, file), "utf8")));

describe("imports point one way: catalogue ◀ plan ◀ components ◀ platforms ◀ index, containers by themselves", () => {
  test("the search finds every form of import", () => {
    const text =
      'import a from "./a.ts";\nimport type { B } from "../b.ts";\nexport * from "c";\nawait import("./d.ts");\nimport "./e.ts";\nimport {\n  f,\n} from "./f.ts";';
    expect(importsOf("infra/x.ts", text).map(({ target, typeOnly }) => [target, typeOnly])).toEqual([
      ["infra/a.ts", false],
      ["b.ts", true],
      ["c", false],
      ["infra/d.ts", false],
      ["infra/e.ts", false],
      ["infra/f.ts", false],
    ]);
    expect(imports.length).toBeGreaterThan(100);
  });

  test("each part of the tree imports only the parts that it may", () => {
    const wrong = imports.filter(({ file, target, typeOnly }) => {
      const from = partOf(file);
      const to = partOf(target);
      if (from === undefined || to === undefined || from === to || leaves.includes(target)) return false;
      return !(allowed[from]?.includes(to) || (typeOnly && typesOnly[from]?.includes(to)));
    });
    expect(wrong).toEqual([]);
  });

  test("no files import each other in a circle, not even types", () => {
    const targets = new Map<string, string[]>();
    for (const { file, target } of imports) targets.set(file, [...(targets.get(file) ?? []), target]);
    const done = new Set<string>();
    const circles: string[][] = [];
    const visit = (file: string, path: readonly string[]) => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file]);
      if (done.has(file) || path.includes(file)) return;
      for (const target of targets.get(file) ?? []) visit(target, [...path, file]);
      done.add(file);
    };
    for (const file of targets.keys()) visit(file, []);
    expect(circles).toEqual([]);
  });

  test("files that every part may import have no imports", () => {
    expect(imports.filter(({ file }) => leaves.includes(file))).toEqual([]);
  });

  test("pure parts do not import Pulumi, except for the types of arguments", () => {
    const wrong = imports.filter(
      ({ file, target, typeOnly }) =>
        target.startsWith("@pulumi/") &&
        !(typeOnly && partOf(file) === "infra/plan") &&
        (withoutPulumi.includes(partOf(file) ?? "") || pureFiles.includes(file)),
    );
    expect(wrong).toEqual([]);
  });

  test("services import from each other only shared packages that their package.json names", () => {
    const wrong = imports.filter(({ file, target }) => {
      if (target.startsWith("@engine-room/")) {
        const own = packageOf(file);
        return !(
          shared[target]?.includes(partOf(file) ?? "") &&
          (own === undefined || (!(own.name in shared) && own.dependencies?.[target] !== undefined))
        );
      }
      const service = serviceOf(file);
      return service !== undefined && serviceOf(target) !== undefined && serviceOf(target) !== service;
    });
    expect(wrong).toEqual([]);
    const used = new Set(imports.map(({ target }) => target));
    expect(Object.keys(shared).filter((name) => !used.has(name))).toEqual([]);
  });

  /** Files that are loaded with some files, except those that are loaded on demand. */
  function loadedWith(...files: string[]): ReadonlySet<string> {
    const loaded = new Set(files);
    for (const file of loaded)
      for (const { target, typeOnly, onDemand } of imports.filter((one) => one.file === file))
        if (!typeOnly && !onDemand) loaded.add(target);
    return loaded;
  }

  test("a stack loads the SDK of its own platform, class by class", () => {
    const ofKubernetes = (files: ReadonlySet<string>) =>
      [...files].filter((file) => file.startsWith("@pulumi/kubernetes"));
    expect(
      ofKubernetes(loadedWith("infra/index.ts", "infra/platforms/local.ts", "infra/platforms/docker.ts")),
    ).toEqual([]);
    const own = ofKubernetes(loadedWith("infra/platforms/kubernetes.ts"));
    expect(own).toContain("@pulumi/kubernetes/apps/v1/deployment.js");
    // An index reads all classes of its folder.
    expect(own.filter((file) => !/\/[a-z]\w+\.js$/.test(file) || file.endsWith("/index.js"))).toEqual([]);
  });

  test("a local stack loads nothing that plans GPUs", () => {
    const loaded = loadedWith("infra/index.ts", "scripts/tryout/backend.ts");
    expect(loaded).toContain("infra/plan/cpu-stack.ts");
    const ofGpus =
      /^infra\/plan\/(gpu-stack|resolve-stack|checks\/find-problems|resolve|engine|fit|cost|pool-space)\b/;
    expect([...loaded].filter((file) => ofGpus.test(file))).toEqual([]);
  });
});
