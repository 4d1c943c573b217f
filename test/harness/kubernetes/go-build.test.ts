/** Builds by a stand-in for Go that does at once what it is asked for. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { buildGoModules } from "./go-build.ts";
import { GO_MODULES, type GoModuleName, goModules, requiredModule } from "./go-modules.ts";
import { findGo, goEnvironment } from "./go-toolchain.ts";

const FAKE_GO = `#!/bin/sh
here="$(dirname "$0")/.."
case "$1" in
  version) echo "go version $(cat "$here/version") linux/amd64" ;;
  env)
    if [ -e "$here/too-old" ]; then echo "go: go.mod requires go >= 1.26.0" >&2; exit 1; fi
    cat "$here/version"; (cd "$here" && pwd) ;;
  build)
    for path in "$@"; do :; done
    if [ "$path" = "$(cat "$here/broken" 2>/dev/null)" ]; then echo "$path: it does not compile" >&2; exit 1; fi
    while [ "$1" != -o ]; do shift; done
    echo "$path $GOCACHE" >> "$here/builds"; touch "$GOCACHE/compiled"; echo "$path" > "$2" ;;
  mod)
    mkdir -p "$here/modules"
    echo "{ \\"Dir\\": \\"$here/modules/$4\\" }" ;;
esac
`;

let folder: string;
const lines: string[] = [];
const report = (line: string) => void lines.push(line);
const path = (...names: string[]) => join(folder, ...names);
const builds = () => readFileSync(path("go/builds"), "utf8").trim().split("\n");
const cached = () => readdirSync(path("cache/kubernetes-programs")).toSorted();
const PROGRAMS = GO_MODULES.flatMap((name) => Object.values(goModules[name].programs));

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "engine-room-go-"));
  lines.length = 0;
  mkdirSync(path("go/bin"), { recursive: true });
  writeFileSync(path("go/version"), "go1.26.8\n");
  writeFileSync(path("go/bin/go"), FAKE_GO);
  chmodSync(path("go/bin/go"), 0o755);
  for (const [module, file] of GO_MODULES.flatMap(filesOf)) {
    mkdirSync(join(path("go/modules", module), file, ".."), { recursive: true });
    writeFileSync(join(path("go/modules", module), file), file, { mode: 0o444 });
  }
  vi.stubEnv("PATH", `${path("go/bin")}:${process.env.PATH}`);
  vi.stubEnv("ENGINE_ROOM_CACHE_DIR", path("cache"));
  vi.stubEnv("GOCACHE", undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** `module@version` and path within it of what a module keeps. */
function filesOf(name: (typeof GO_MODULES)[number]): (readonly [string, string])[] {
  const goMod = readFileSync(join(import.meta.dirname, "go", name, "go.mod"), "utf8");
  return Object.values(goModules[name].files).map((file) => {
    const { module, version, rest } = requiredModule(goMod, file);
    return [`${module}@${version}`, rest] as const;
  });
}

describe("programs of Go modules", () => {
  test("are built once, with their files, and nothing but them is left", async () => {
    const built = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    expect(builds().map((line) => line.split(" ")[0])).toEqual(PROGRAMS);
    for (const name of GO_MODULES) {
      const { programs, files } = goModules[name];
      expect(readdirSync(built[name]).toSorted()).toEqual(
        [...Object.keys(programs), ...Object.keys(files)].toSorted(),
      );
    }
    expect(cached()).toEqual(GO_MODULES.map((name) => basename(built[name])).toSorted());
    expect(lines[0]).toBe("Building kubeconform for the tests, once: about 1 min on two cores …");

    lines.length = 0;
    expect(await buildGoModules(GO_MODULES, report)).toEqual(built);
    expect([builds().length, lines]).toEqual([PROGRAMS.length, []]);
  });

  test("are built by one of two that come at the same time", async () => {
    const [first, second] = await Promise.all([
      buildGoModules(GO_MODULES, report),
      buildGoModules(GO_MODULES, report),
    ]);
    expect(first).toEqual(second);
    expect(builds().length).toBe(PROGRAMS.length);
    expect(lines).toContain(`Process ${process.pid} builds the tests' programs; waiting for it …`);
  });

  test("are built anew by another Go, beside the others", async () => {
    const before = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    writeFileSync(path("go/version"), "go1.27.0\n");
    const after = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    expect(cached().length).toBe(2 * GO_MODULES.length);
    expect(GO_MODULES.filter((name) => before[name] === after[name])).toEqual([]);
  });

  test("that do not compile are an error with the compiler's words, and leave nothing half made", async () => {
    writeFileSync(path("go/broken"), "k8s.io/kubernetes/cmd/kube-scheduler");
    await expect(buildGoModules(GO_MODULES, report)).rejects.toThrow(
      /^kube of the tests can't be built: .* k8s\.io\/kubernetes\/cmd\/kube-scheduler: it does not compile$/,
    );
    expect(cached().map((name) => name.split("-")[0])).toEqual(["crds", "etcd", "kubeconform", "kwok"]);
    rmSync(path("go/broken"));
    const built = (await buildGoModules(GO_MODULES, report)) as Record<GoModuleName, string>;
    expect(existsSync(join(built.kube, "kube-scheduler"))).toBe(true);
  });

  test("use and keep a cache of compiled packages that the user names", async () => {
    mkdirSync(path("mine"));
    vi.stubEnv("GOCACHE", path("mine"));
    await buildGoModules(GO_MODULES, report);
    expect(new Set(builds().map((line) => line.split(" ")[1]))).toEqual(new Set([path("mine")]));
    expect(readdirSync(path("mine"))).toEqual(["compiled"]);
  });
});

describe("Go", () => {
  test("that is too old is told, with what is needed", async () => {
    writeFileSync(path("go/version"), "go1.19.8\n");
    writeFileSync(path("go/too-old"), "");
    const reason = "here is go1.19.8, and the tests' programs are built with Go 1.26.0 or newer";
    expect(await findGo()).toEqual({ reason });
    expect(await buildGoModules(GO_MODULES, report)).toEqual({ reason });
    expect(existsSync(path("cache"))).toBe(false);
  });

  test("that is missing is told", async () => {
    symlinkSync("/usr/bin/setpriv", path("setpriv"));
    const environment = { ...goEnvironment(), PATH: folder };
    expect(await findGo(environment)).toEqual({
      reason: "no Go on PATH; the tests' programs are built with Go 1.26.0 or newer",
    });
  });
});

test("every program and file is of a module that its go.mod requires, and go.sum has that module", () => {
  for (const name of GO_MODULES) {
    const source = join(import.meta.dirname, "go", name);
    const goMod = readFileSync(join(source, "go.mod"), "utf8");
    const goSum = readFileSync(join(source, "go.sum"), "utf8");
    const { programs, files } = goModules[name];
    for (const path of [...Object.values(programs), ...Object.values(files)]) {
      const { module, version } = requiredModule(goMod, path);
      expect(goSum).toContain(`${module} ${version} h1:`);
    }
  }
  expect(() => requiredModule("require a.org/b v1.0.0\n", "a.org/bc/d")).toThrow(
    "No module of go.mod has a.org/bc/d.",
  );
});
