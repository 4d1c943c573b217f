/** All commands by name; any other gets MongoDB's own error 59. */
import { type Document, Double } from "bson";
import { CommandError } from "../errors.ts";
import { CursorReply, type Reply } from "../reply.ts";
import type { Request } from "../wire.ts";
import * as administration from "./administration.ts";
import { type Command, type CommandContext, refuseUnknownFields } from "./command.ts";
import * as reading from "./reading.ts";
import * as writing from "./writing.ts";

const commands: Readonly<Record<string, Command>> = {
  aggregate: reading.aggregateCommand,
  buildInfo: administration.buildInfo,
  buildinfo: administration.buildInfo,
  count: reading.count,
  create: administration.create,
  createIndexes: administration.createIndexes,
  delete: writing.deleteCommand,
  drop: administration.drop,
  dropDatabase: administration.dropDatabase,
  dropIndexes: administration.dropIndexes,
  endSessions: administration.endSessions,
  find: reading.find,
  getMore: reading.getMore,
  hello: administration.hello,
  insert: writing.insert,
  isMaster: administration.hello,
  ismaster: administration.hello,
  killCursors: reading.killCursors,
  listCollections: administration.listCollections,
  listDatabases: administration.listDatabases,
  listIndexes: administration.listIndexes,
  ping: administration.ping,
  update: writing.update,
};

export const COMMAND_NAMES: ReadonlySet<string> = new Set(Object.keys(commands));

/** Drivers say `hello` in the old form before they know that there is a new one; mongod takes nothing else in it either. */
const LEGACY_COMMANDS = ["hello", "isMaster", "ismaster"];

/** Runs one command. Never throws: what goes wrong is a reply with `ok: 0`. */
export async function runCommand(request: Request, context: CommandContext): Promise<Reply> {
  const name = commandName(request);
  try {
    if (request.isLegacy && !LEGACY_COMMANDS.includes(name)) {
      throw new CommandError(
        352,
        `Unsupported OP_QUERY command: ${name}. The client driver may require an upgrade.`,
      );
    }
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (command === undefined) throw new CommandError(59, `no such command: '${name}'`);
    if (command.fields !== undefined) refuseUnknownFields(name, request, command.fields);
    const reply = await command.run(request, context);
    return reply instanceof CursorReply ? reply : { ...reply, ok: new Double(1) };
  } catch (error) {
    return failure(error);
  }
}

/** A command is the first key of its document. */
export function commandName({ body }: Request): string {
  return Object.keys(body)[0] ?? "";
}

/** The reply to what went wrong. */
export function failure(error: unknown): Document {
  const known =
    error instanceof CommandError
      ? error
      : new CommandError(1, `Internal error: ${(error as Error).message}`);
  const { code, codeName, message, details } = known;
  return { ...details, ok: new Double(0), errmsg: message, code, codeName };
}
