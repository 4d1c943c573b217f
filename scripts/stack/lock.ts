/**
 * One operation on a stack at a time. The lock is a Unix socket with an abstract name: the kernel frees it with the
 * process that holds it, however that ends, so there is no stale lock to clean up; and who connects is told who holds it.
 */
import { createHash } from "node:crypto";
import { connect, createServer, type Server } from "node:net";

interface LockHolder {
  readonly pid: number;
  readonly operation: string;
  /** ISO 8601. */
  readonly since: string;
}

interface StackLock {
  release(): void;
}

/** Another operation is under way on the same stack. */
export class StackLockedError extends Error {
  readonly holder: LockHolder | undefined;

  constructor(stack: string, holder: LockHolder | undefined) {
    const who =
      holder === undefined
        ? "another process"
        : `process ${holder.pid} (\`${holder.operation}\`, since ${holder.since})`;
    super(`The stack ${stack} is locked by ${who}. Wait until it ends, or stop it, and try again.`);
    this.name = "StackLockedError";
    this.holder = holder;
  }
}

/**
 * Takes the lock of a stack.
 *
 * @param directory - Absolute path of the stack's folder, which names the lock.
 * @throws StackLockedError at once when it is taken.
 */
export async function lockStack(stack: string, directory: string, operation: string): Promise<StackLock> {
  const name = `\0engine-room-${createHash("sha256").update(directory).digest("hex").slice(0, 32)}`;
  const holder: LockHolder = { pid: process.pid, operation, since: new Date().toISOString() };
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(JSON.stringify(holder));
  });
  try {
    await listen(server, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new StackLockedError(stack, await askHolder(name));
  }
  server.unref();
  return { release: () => void server.close() };
}

function listen(server: Server, name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(name, resolve);
  });
}

const ANSWER_TIMEOUT_MILLISECONDS = 1000;

function askHolder(name: string): Promise<LockHolder | undefined> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(name);
    socket.setTimeout(ANSWER_TIMEOUT_MILLISECONDS, () => socket.destroy());
    socket.on("data", (data) => {
      text += data.toString();
    });
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => {
      try {
        resolve(JSON.parse(text) as LockHolder);
      } catch {
        resolve(undefined);
      }
    });
  });
}
