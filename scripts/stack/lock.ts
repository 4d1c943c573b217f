/**
 * One operation of these commands on a stack at a time. The lock is a socket whose name the kernel frees with the process that
 * holds it, however that ends: an abstract one on Linux, a named pipe on Windows. macOS has neither; there it is a file, which is
 * taken over where nobody answers. Who connects is told who holds it. A plain `pulumi` has the lock of its backend.
 */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UserError } from "../errors.ts";

interface LockHolder {
  readonly pid: number;
  readonly operation: string;
  /** ISO 8601. */
  readonly since: string;
}

/** Another operation is under way on the same stack, here or elsewhere. */
export class StackLockedError extends UserError {
  override readonly name = "StackLockedError";
  readonly holder: string;

  /** @param holder - `process 12 (…)`. */
  constructor(stack: string, holder: string) {
    super(`The stack ${stack} is locked by ${holder}. Wait until it ends, or stop it, and try again.`);
    this.holder = holder;
  }
}

/**
 * Takes the lock of a stack.
 *
 * @param directory - Absolute path of the stack's folder, which names the lock.
 * @param name - Address of its socket.
 * @throws StackLockedError at once when it is taken.
 */
export async function lockStack(
  stack: string,
  directory: string,
  operation: string,
  name = lockName(directory, process.platform),
): Promise<{ release(): void }> {
  const holder: LockHolder = { pid: process.pid, operation, since: new Date().toISOString() };
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(JSON.stringify(holder));
  });
  await take(server, name, stack);
  server.unref();
  return { release: () => void server.close() };
}

/** @param platform - As `process.platform` has it. */
export function lockName(directory: string, platform: NodeJS.Platform): string {
  const name = `engine-room-${createHash("sha256").update(directory).digest("hex").slice(0, 32)}`;
  if (platform === "linux") return `\0${name}`;
  return platform === "win32" ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name}.sock`);
}

async function take(server: Server, name: string, stack: string): Promise<void> {
  try {
    return await listen(server, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
  }
  const holder = await askHolder(name);
  if (holder !== "gone")
    throw new StackLockedError(
      stack,
      holder === undefined
        ? "another process"
        : `process ${holder.pid} (\`${holder.operation}\`, since ${holder.since})`,
    );
  rmSync(name, { force: true });
  await listen(server, name);
}

function listen(server: Server, name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(name, resolve);
  });
}

/** A holder that is busy planning answers late. */
const ANSWER_TIMEOUT_MILLISECONDS = 5000;

/** `gone`: a file that nobody listens at any more. undefined: who holds it does not say. */
function askHolder(name: string): Promise<LockHolder | "gone" | undefined> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(name);
    socket.setTimeout(ANSWER_TIMEOUT_MILLISECONDS, () => socket.destroy());
    socket.setEncoding("utf8").on("data", (data) => {
      text += data;
    });
    socket.on("error", (error: NodeJS.ErrnoException) =>
      resolve(error.code === "ECONNREFUSED" && !name.startsWith("\0") ? "gone" : undefined),
    );
    socket.on("close", () => {
      try {
        resolve(JSON.parse(text) as LockHolder);
      } catch {
        resolve(undefined);
      }
    });
  });
}
