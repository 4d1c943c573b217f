import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lastLines, runCommand } from "../../../components/local/provider/commands.ts";
import { GO_MODULES, sourceFolder } from "./go-modules.ts";

const ANSWER_TIMEOUT_SECONDS = 120;

/**
 * Environment of builds. It overrides the user's settings of Go that would change a build, and keeps where modules come
 * from.
 *
 * @param cache - Folder of compiled packages.
 */
export function goEnvironment(cache?: string): NodeJS.ProcessEnv {
  const { GOOS: _os, GOARCH: _arch, ...environment } = process.env;
  return {
    ...environment,
    // The path of Go's own installation instructions.
    PATH: `${process.env.PATH}:/usr/local/go/bin`,
    CGO_ENABLED: "0",
    GOFLAGS: "-mod=readonly -trimpath -buildvcs=false",
    GOWORK: "off",
    ...(cache === undefined ? {} : { GOCACHE: cache }),
  };
}

export interface GoToolchain {
  /** As printed by `go env GOVERSION`: `go1.26.8`. */
  readonly version: string;
  /** Absolute path of its command. */
  readonly program: string;
}

/**
 * The Go that builds all modules: at least the newest `go` line of theirs, or the version that Go switches to where
 * GOTOOLCHAIN allows.
 *
 * @param environment - @default {@link goEnvironment}
 */
export async function findGo(
  environment: NodeJS.ProcessEnv = goEnvironment(),
): Promise<GoToolchain | { readonly reason: string }> {
  const needed = neededGo();
  const ask = (argv: readonly string[], cwd: string) =>
    runCommand(["go", ...argv], { cwd, environment, timeoutSeconds: ANSWER_TIMEOUT_SECONDS });
  const inModule = await ask(["env", "GOVERSION", "GOROOT"], sourceFolder(needed.module));
  if (inModule.exitCode === 0) {
    const [version = "", root = ""] = inModule.stdout.split("\n");
    return { version, program: join(root, "bin", "go") };
  }
  const anywhere = await ask(["version"], tmpdir());
  if (anywhere.exitCode !== 0)
    return { reason: `no Go on PATH; the tests' programs are built with Go ${needed.version} or newer` };
  const here = /go version (\S+)/.exec(anywhere.stdout)?.[1] ?? lastLines(anywhere.stdout, 1);
  return {
    reason: `here is ${here}, and the tests' programs are built with Go ${needed.version} or newer`,
  };
}

/** The newest Go that a module requires. */
function neededGo() {
  const lines = GO_MODULES.map((module) => {
    const goMod = readFileSync(join(sourceFolder(module), "go.mod"), "utf8");
    return { module, version: /^go (\S+)$/m.exec(goMod)?.[1] ?? "" };
  });
  const newestFirst = lines.toSorted((a, b) => b.version.localeCompare(a.version, "en", { numeric: true }));
  return newestFirst[0] as (typeof lines)[number];
}
