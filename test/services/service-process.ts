/** Services as processes of their own, as JavaScript: without a loader that translates each module they start in a third of the time. */
import { type ChildProcess, spawn } from "node:child_process";
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
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync, version } from "esbuild";
import { cacheDirectory } from "../../components/local/provider/files.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SERVICES = "containers/services";
/** Those that have a process, and what they share. */
const PACKAGES = ["gateway", "mock-mongo", "mock-vector", "service-process", "triton-requests"];

let compiled: string | undefined;

/** The services' folder as it is in the repository, with JavaScript; made when a source has changed, and kept for later runs. */
function compiledServices(): string {
  compiled ??= compileOnce();
  return compiled;
}

function compileOnce(): string {
  const sources = PACKAGES.flatMap((name) =>
    readdirSync(join(ROOT, SERVICES, name), { recursive: true, encoding: "utf8" })
      .filter((path) => path === "package.json" || (path.startsWith("src/") && path.endsWith(".ts")))
      .map((path) => join(SERVICES, name, path)),
  ).toSorted();
  const hash = createHash("sha256").update(`${ROOT} ${version}`);
  for (const path of [relative(ROOT, import.meta.filename), ...sources]) {
    hash.update(`\n${path}\n`).update(readFileSync(join(ROOT, path)));
  }
  const folder = join(cacheDirectory(), `${FOLDER}${hash.digest("hex").slice(0, 16)}`);
  if (!existsSync(folder)) {
    removeOld();
    const unfinished = `${folder}.${process.pid}`;
    compile(sources, unfinished);
    try {
      renameSync(unfinished, folder);
    } catch {
      // Another worker was faster.
      rmSync(unfinished, { recursive: true });
    }
  }
  return folder;
}

const FOLDER = "test-services-";
const DAY_MILLISECONDS = 86_400_000;

/** What nobody uses any more: of sources that have changed since. */
function removeOld(): void {
  mkdirSync(cacheDirectory(), { recursive: true });
  for (const name of readdirSync(cacheDirectory()).filter((one) => one.startsWith(FOLDER))) {
    const path = join(cacheDirectory(), name);
    if (Date.now() - statSync(path).mtimeMs > DAY_MILLISECONDS)
      rmSync(path, { recursive: true, force: true });
  }
}

function compile(sources: readonly string[], root: string): void {
  const { outputFiles } = buildSync({
    absWorkingDir: ROOT,
    entryPoints: sources.filter((path) => path.endsWith(".ts")),
    outbase: ".",
    outdir: root,
    format: "esm",
    target: "node20",
    // Coverage of the processes is that of their sources.
    sourcemap: "inline",
    sourcesContent: false,
    write: false,
    logLevel: "error",
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    // As long as before, so that the source map holds.
    writeFileSync(path, text.replaceAll(/^(import|export|\} from)(.*)\.ts";$/gm, '$1$2.js";'));
  }
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  symlinkSync(join(ROOT, SERVICES, "gateway/public"), join(root, SERVICES, "gateway/public"));
  // Nearer than the link above, in which the project's own packages are TypeScript.
  const own = join(root, SERVICES, "node_modules/@engine-room");
  mkdirSync(own, { recursive: true });
  for (const name of PACKAGES) {
    const manifest = JSON.parse(readFileSync(join(ROOT, SERVICES, name, "package.json"), "utf8"));
    const compiledManifest = { ...manifest, exports: "./src/index.js" };
    writeFileSync(join(root, SERVICES, name, "package.json"), JSON.stringify(compiledManifest));
    symlinkSync(join("../..", name), join(own, name));
  }
}

export interface ServiceProcess {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** The exit code; null where a signal ended it. */
  readonly exit: Promise<number | null>;
  /** Resolves with the line that says that it listens. @throws Error when it ends before. */
  listening(): Promise<Readonly<Record<string, unknown>>>;
  kill(signal: NodeJS.Signals): Promise<number | null>;
}

/** @param service - Folder below containers/services. */
export function startService(service: string, args: readonly string[]): ServiceProcess {
  const main = join(compiledServices(), SERVICES, service, "src/main.js");
  const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  // A test that fails halfway leaves no process behind.
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  child.once("close", () => process.off("exit", end));
  let isListening = false;
  const listening = new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output.stdout += text;
      if (isListening) return;
      const line = output.stdout.split("\n").find((one) => one.includes("listens on"));
      if (!line?.endsWith("}")) return;
      isListening = true;
      resolve(JSON.parse(line));
    });
    exit.then(() => reject(new Error(`it did not start: ${output.stderr}${output.stdout}`)));
  });
  // Whoever asks gets the error; a test of a start that fails does not ask.
  listening.catch(() => undefined);
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  return {
    child,
    output,
    exit,
    listening: () => listening,
    kill: (signal) => {
      child.kill(signal);
      return exit;
    },
  };
}

/** A folder of its own for a test, and how to remove it. */
export function temporaryFolder(name: string): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), `engine-room-${name}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** The lines of a log that are there. */
export function logLines(text: string): Readonly<Record<string, unknown>>[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));
}

/** Waits until something holds. */
export async function until(condition: () => boolean | Promise<boolean>, milliseconds = 5): Promise<void> {
  const end = Date.now() + 30_000;
  while (Date.now() < end) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }
  throw new Error("what was waited for did not come within 30 s");
}

/** The address in the line that says where a service listens. */
export function urlIn(line: Readonly<Record<string, unknown>>): string {
  const url = /http:\/\/[\d.:]+/.exec(String(line.msg))?.[0];
  if (url === undefined) throw new Error(`no address in ${JSON.stringify(line)}`);
  return url;
}

/** Memory of a process, in bytes. */
export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) * 1024;
}

/** Files that a process may open. */
export function openFilesLimit(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? 0);
}
