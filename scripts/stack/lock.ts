/**
 * One operation of these commands on a stack at a time. The lock is a socket whose name the kernel frees with the process that holds it,
 * however that ends: on Linux an abstract socket. macOS lacks these and uses a file, which is taken over if no process answers. A client
 * that connects gets the holder's name. A plain `pulumi` has the lock of its backend.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { UserError } from "../errors.ts";

/** Another operation is running on the same stack, here or elsewhere. */
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
  const holder = `process ${process.pid} (\`${operation}\`, since ${new Date().toISOString()})`;
  const server = createServer((socket) => socket.on("error", () => {}).end(holder));
  try {
    await listen(server, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    const other = await askHolder(name);
    if (other !== null) throw new StackLockedError(stack, other);
    rmSync(name, { force: true });
    await listen(server, name);
  }
  server.unref();
  return { release: () => void server.close() };
}

/** @param platform - As in `process.platform`. */
export function lockName(directory: string, platform: NodeJS.Platform): string {
  const name = `engine-room-${createHash("sha256").update(directory).digest("hex").slice(0, 32)}`;
  return platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`);
}

async function listen(server: Server, name: string): Promise<void> {
  await once(server.listen(name), "listening");
}

/** A holder that is busy planning answers late. */
const ANSWER_TIMEOUT_MILLISECONDS = 5000;

/** @returns null for a file without a listener. */
async function askHolder(name: string): Promise<string | null> {
  const socket = connect(name);
  socket.setTimeout(ANSWER_TIMEOUT_MILLISECONDS, () => socket.destroy());
  try {
    return (await text(socket)) || "another process";
  } catch (error) {
    const isGone = (error as NodeJS.ErrnoException).code === "ECONNREFUSED" && !name.startsWith("\0");
    return isGone ? null : "another process";
  }
}
