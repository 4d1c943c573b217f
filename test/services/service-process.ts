/** Services as processes, started as in a stack on this machine. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface ServiceProcess {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** The exit code; null if a signal ended it. */
  readonly exit: Promise<number | null>;
  /** Resolves with the log's line that it listens. @throws Error when it ends before. */
  listening(): Promise<Readonly<Record<string, unknown>>>;
  kill(signal: NodeJS.Signals): Promise<number | null>;
}

/** @param service - Folder below containers/services. */
export function startService(service: string, args: readonly string[]): ServiceProcess {
  const main = ["loader/run.mjs", `containers/services/${service}/src/main.ts`];
  const child = spawn(process.execPath, [...main, ...args], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
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
  // A test of a failing start does not await this; other callers still get the error.
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

/** Creates a folder for a test. @param parent - Folder that it is created in. */
export function temporaryFolder(name: string, parent = tmpdir()): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(parent, `engine-room-${name}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Complete lines of a log. */
export function logLines(text: string): Readonly<Record<string, unknown>>[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));
}

/** Waits until a condition is true. */
export async function until(condition: () => boolean | Promise<boolean>, milliseconds = 5): Promise<void> {
  const end = Date.now() + 30_000;
  while (Date.now() < end) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
  }
  throw new Error("the condition was not true within 30 s");
}

/** A service's address in its line that it listens. */
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

/** Number of open files, sockets and other descriptors of a process. */
export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Limit of open files of this process. */
export function openFilesLimit(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? 0);
}
