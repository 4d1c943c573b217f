/** A project folder for each test file, with a tiny environment that has only supervisor. */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { HandlerContext, PropertyMap } from "../../../components/local/provider/contract.ts";
import type { ProcessOutputs } from "../../../components/local/provider/inputs.ts";
import { processHandler } from "../../../components/local/provider/process.ts";
import { pythonEnvironment } from "../../../components/local/provider/python.ts";
import { sweepStack } from "../../../components/local/provider/supervisor.ts";

/** Requirements with the hashes of PyPI. */
export const SUPERVISOR_LOCK = `supervisor==4.3.0 \\
    --hash=sha256:0bcb763fddafba410f35cbde226aa7f8514b9fb82eb05a0c85f6588d1c13f8db \\
    --hash=sha256:4a2bf149adf42997e1bb44b70c43b613275ec9852c3edacca86a9166b27e945e
`;

export const reported: string[] = [];
export const context: HandlerContext = { report: (line) => void reported.push(line) };

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Makes the folder and lets the provider take it for the project. */
export function makeProject(): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "engine-room-test-")));
  process.env.ENGINE_ROOM_ROOT = root;
  writeProjectFile("requirements.lock", SUPERVISOR_LOCK);
  writeProjectFile("serve.py", SERVER);
  return root;
}

/** Root of the project outside of a test. */
const usualRoot = process.env.ENGINE_ROOM_ROOT;

/** Ends the project's processes, removes its folder, and restores the provider's usual project. */
export async function removeProject(root: string): Promise<void> {
  for (const stack of existsSync(join(root, ".stacks")) ? readdirSync(join(root, ".stacks")) : [])
    await sweepStack(stack, []);
  if (usualRoot === undefined) delete process.env.ENGINE_ROOM_ROOT;
  else process.env.ENGINE_ROOM_ROOT = usualRoot;
  rmSync(root, { recursive: true, force: true });
}

export function projectFile(path: string): string {
  return join(process.env.ENGINE_ROOM_ROOT ?? "", path);
}

export function writeProjectFile(path: string, text: string): void {
  mkdirSync(dirname(projectFile(path)), { recursive: true });
  writeFileSync(projectFile(path), text);
}

/** Path of an interpreter with supervisor, in `.stacks/<stack>/python`. */
export async function makeEnvironment(stack: string): Promise<string> {
  const { inputs } = await pythonEnvironment.check({
    directory: `.stacks/${stack}/python`,
    requirements: "requirements.lock",
    requirementsSha256: sha256(SUPERVISOR_LOCK),
  });
  const { outs } = await pythonEnvironment.create("python", inputs, context);
  return String(outs.python);
}

/** Inputs of a process with `serve.py`, as from a program of Pulumi. */
export function askedProcess(
  stack: string,
  name: string,
  changes: Record<string, unknown> = {},
): PropertyMap {
  return {
    stackDirectory: `.stacks/${stack}`,
    name,
    python: `.stacks/${stack}/python/bin/python`,
    command: ["python", "serve.py", "{port.http}"],
    requestedPorts: { http: 0 },
    ready: { url: "http://127.0.0.1:{port.http}/", timeoutSeconds: 30 },
    ...changes,
  };
}

/** The same after the check, which must find nothing. */
export async function processInputs(
  stack: string,
  name: string,
  changes: Record<string, unknown> = {},
): Promise<PropertyMap> {
  const { inputs, failures } = await processHandler.check(askedProcess(stack, name, changes));
  if (failures.length > 0) throw new Error(JSON.stringify(failures));
  return inputs;
}

export async function createProcess(
  stack: string,
  name: string,
  changes: Record<string, unknown> = {},
): Promise<{ id: string; outs: ProcessOutputs }> {
  const { id, outs } = await processHandler.create(name, await processInputs(stack, name, changes), context);
  return { id, outs: outs as unknown as ProcessOutputs };
}

export function asState(outs: ProcessOutputs): PropertyMap {
  return { ...outs };
}

/** A process's own argv, environment, pid and working folder. */
export async function askProcess(port: number | undefined): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(5000) });
  return (await response.json()) as Answer;
}

interface Answer {
  readonly argv: string[];
  readonly environment: Record<string, string>;
  readonly pid: number;
  readonly cwd: string;
}

/** Waits for something that must come true; a test's own time-out is the limit. */
export async function until<T>(get: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (;;) {
    const value = await Promise.resolve(get());
    if (value !== undefined) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Process ids of all processes whose environment carries this stack's mark. */
export function stackPids(stack: string, name?: string): number[] {
  const wanted = [`ENGINE_ROOM_STACK=${projectFile(`.stacks/${stack}`)}`];
  if (name !== undefined) wanted.push(`ENGINE_ROOM_PROCESS=${name}`);
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => {
      try {
        const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
        return wanted.every((variable) => variables.includes(variable));
      } catch {
        return false;
      }
    })
    .map(Number);
}

export async function listenOn(port: number): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: "127.0.0.1", port }, resolve);
  });
  return server;
}

export function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return address.port;
}

const SERVER = `
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({
            "argv": sys.argv, "environment": dict(os.environ), "pid": os.getpid(), "cwd": os.getcwd(),
        }).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`;
