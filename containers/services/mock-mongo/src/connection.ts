/** One client: messages in, one command after the other, replies out. */
import type { Socket } from "node:net";
import type { ByteBudget } from "@engine-room/service-process";
import type { Logger } from "pino";
import { COMMAND_NAMES, commandName, failure, runCommand } from "./commands/index.ts";
import type { Cursors } from "./cursors.ts";
import { MessageReader } from "./message-reader.ts";
import type { ServerMetrics } from "./metrics.ts";
import { encodeReply, type Reply } from "./reply.ts";
import type { Store } from "./store.ts";
import type { UnsentReplies } from "./unsent-replies.ts";
import { parseMessage, type Request, WireError } from "./wire.ts";

/** A message up to this size needs no room in the budget. */
const SMALL_MESSAGE_BYTES = 16 * 1024;

export interface ConnectionLimits {
  /** A connection that sends nothing this long is closed; drivers open another. */
  readonly idleSeconds: number;
  /** A message must be whole this long after its first byte. */
  readonly messageSeconds: number;
  /** A reply must be read this long after it was sent. */
  readonly replySeconds: number;
}

interface Services {
  readonly store: Store;
  readonly cursors: Cursors;
  readonly metrics: ServerMetrics;
  readonly log: Logger;
  /** For messages that are not small. */
  readonly room: ByteBudget;
  readonly unsent: UnsentReplies;
}

export class Connection {
  readonly #socket: Socket;
  readonly #id: number;
  readonly #services: Services;
  readonly #limits: ConnectionLimits;
  readonly #reader = new MessageReader();
  #roomBytes = 0;
  #messageTimer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isFinishing = false;

  constructor(socket: Socket, id: number, services: Services, limits: ConnectionLimits) {
    this.#socket = socket;
    this.#id = id;
    this.#services = services;
    this.#limits = limits;
    socket.setTimeout(limits.idleSeconds * 1000, () => socket.destroy());
    socket.on("data", (chunk) => this.#receive(chunk));
    // A client that breaks off is no event worth a line; what it had asked for is done all the same.
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(this.#messageTimer);
      this.#giveRoom();
    });
  }

  /** Answers what is being answered, then closes. */
  async finish(): Promise<void> {
    this.#isFinishing = true;
    await this.#running;
    this.#socket.destroySoon();
  }

  #receive(chunk: Buffer): void {
    this.#reader.add(chunk);
    if (this.#running !== undefined) return;
    this.#running = this.#serve()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#running = undefined;
      });
  }

  async #serve(): Promise<void> {
    while (!this.#isFinishing && !this.#socket.destroyed) {
      const message = this.#reader.take();
      if (message === undefined) {
        if (await this.#madeRoom()) continue;
        break;
      }
      clearTimeout(this.#messageTimer);
      this.#messageTimer = undefined;
      // While a command runs nothing more is read, so that a client can't fill the memory with requests.
      this.#socket.pause();
      await this.#answer(parseMessage(message));
      this.#giveRoom();
      this.#socket.resume();
    }
    if (this.#reader.isWithinMessage) this.#messageTimer ??= this.#cutOffLater();
  }

  /** Waits for room where the message that has begun needs some. @returns Whether it had to. */
  async #madeRoom(): Promise<boolean> {
    const bytes = this.#reader.expectedBytes ?? 0;
    if (bytes <= SMALL_MESSAGE_BYTES || this.#roomBytes > 0) return false;
    this.#socket.pause();
    await this.#services.room.take(bytes);
    this.#roomBytes = bytes;
    if (this.#socket.destroyed) this.#giveRoom();
    this.#socket.resume();
    return true;
  }

  #giveRoom(): void {
    this.#services.room.give(this.#roomBytes);
    this.#roomBytes = 0;
  }

  #cutOffLater(): NodeJS.Timeout {
    const seconds = this.#limits.messageSeconds;
    return setTimeout(() => {
      this.#services.log.warn(
        { connection: this.#id, seconds },
        "a message was not whole in time; the connection is closed",
      );
      this.#socket.destroy();
    }, seconds * 1000);
  }

  #fail(error: unknown): void {
    const { log } = this.#services;
    if (error instanceof WireError) {
      log.warn(
        { connection: this.#id, reason: error.message },
        "a message that can't be read; the connection is closed",
      );
    } else log.error({ connection: this.#id, err: error }, "the connection is closed");
    this.#socket.destroy();
  }

  async #answer(request: Request): Promise<void> {
    const { metrics, log, store, cursors } = this.#services;
    const name = commandName(request);
    const label = COMMAND_NAMES.has(name) ? name : "unknown";
    const end = metrics.commandSeconds.startTimer({ command: label });
    const reply = await runCommand(request, { store, cursors, connectionId: this.#id });
    const seconds = end();
    metrics.commands.inc({ command: label, ok: String(Number(reply.ok)) });
    logCommand(log, request, reply, name, seconds);
    if (request.isSilent || this.#socket.destroyed) return;
    await this.#send(encode(request, reply));
  }

  async #send(bytes: Buffer): Promise<void> {
    if (this.#socket.write(bytes)) return;
    const { unsent, log } = this.#services;
    const drop = () => {
      log.warn(
        { connection: this.#id, bytes: bytes.length },
        "a reply is not read; the connection is closed",
      );
      this.#socket.destroy();
    };
    const timer = setTimeout(drop, this.#limits.replySeconds * 1000);
    unsent.add(drop, bytes.length);
    if (!this.#socket.destroyed) await drained(this.#socket);
    unsent.remove(drop);
    clearTimeout(timer);
  }
}

/** The reply as a message; an error where it is too large for one. */
function encode(request: Request, reply: Reply): Buffer {
  try {
    return encodeReply(request, reply);
  } catch (error) {
    return encodeReply(request, failure(error));
  }
}

/** Handshakes and heartbeats would drown the rest. */
const QUIET = new Set(["hello", "ismaster", "isMaster", "ping", "endSessions"]);

function logCommand(log: Logger, { body }: Request, reply: Reply, name: string, seconds: number): void {
  if (QUIET.has(name)) return;
  const isOk = Number(reply.ok) === 1;
  log[isOk ? "info" : "warn"](
    {
      // The gateway sets `comment` to the id of its request.
      requestId: typeof body.comment === "string" ? body.comment.slice(0, 100) : undefined,
      command: name.slice(0, 100),
      database: String(body.$db ?? "").slice(0, 100),
      collection: typeof body[name] === "string" ? body[name].slice(0, 255) : undefined,
      milliseconds: Math.round(seconds * 1e5) / 100,
      code: "code" in reply ? reply.code : undefined,
    },
    "command",
  );
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off("drain", done);
      socket.off("close", done);
      resolve();
    };
    socket.on("drain", done);
    socket.on("close", done);
  });
}
