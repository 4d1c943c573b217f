/** kill -9 of a database at fifty random moments under concurrent writes of its own clients. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { Acknowledged } from "./acknowledged.ts";
import { compileService } from "./compiled.ts";
import { printedSeed, type Random, randomOf } from "./random.ts";
import { prepareService, type ServiceProcess, temporaryFolder, until } from "./service-process.ts";

export const KILLS = 50;
/** Of each writer; no other one writes them. */
export const KEYS_PER_WRITER = 40;
const WRITERS = 6;
/** A round goes on for less than so many acknowledged writes, and then for less than so many milliseconds. */
const ROUND_WRITES = 30;
const ROUND_MILLISECONDS = 10;

interface KilledDatabase<Client, Value> {
  /** Folder below containers/services. */
  readonly service: string;
  /** Of its process, without its data directory. */
  readonly args: readonly string[];
  /** @param line - That says where it listens. */
  connect(line: Readonly<Record<string, unknown>>): Client;
  disconnect(client: Client): Promise<void>;
  /** Makes what the writers write to. */
  prepare(client: Client): Promise<void>;
  /** Writes once. @throws When the database is gone. */
  write(client: Client, acknowledged: Acknowledged<Value>, writer: number, random: Random): Promise<void>;
  /** All that is there, and whether every way to ask agrees with it. @param keys - That were ever written. */
  read(client: Client, keys: readonly string[]): Promise<ReadonlyMap<string, Value>>;
  /** Looks at what the last start found. */
  finish?(client: Client, acknowledged: Acknowledged<Value>): Promise<void>;
}

/** Fails where anything that was acknowledged is lost, or where there is anything that nobody wrote. */
export async function killAgainAndAgain<Client, Value>(
  database: KilledDatabase<Client, Value>,
): Promise<void> {
  const random = randomOf(printedSeed());
  const folder = temporaryFolder(`${database.service}-crash`);
  const compiled = compileService(database.service);
  const acknowledged = new Acknowledged<Value>();
  const args = ["--data", folder.path, ...database.args];
  const prepare = () => prepareService(compiled.main, args, [compiled.server]);
  const prepared = [prepare(), prepare()];
  let service: ServiceProcess | undefined;
  try {
    for (let round = 0; round <= KILLS; round++) {
      service = (prepared.shift() ?? prepare()).start();
      if (round < KILLS - 1) prepared.push(prepare());
      const client = database.connect(await service.listening());
      if (round === 0) await database.prepare(client);
      expect(acknowledged.problems(await database.read(client, acknowledged.keys()))).toEqual([]);
      if (round < KILLS) {
        const writers = Array.from({ length: WRITERS }, (_, writer) =>
          writeUntilGone(database, client, acknowledged, writer, randomOf(random.below(2 ** 32))),
        );
        const enough = acknowledged.writes + random.below(ROUND_WRITES);
        await until(() => acknowledged.writes >= enough);
        await sleep(random.below(ROUND_MILLISECONDS));
        await service.kill("SIGKILL");
        await Promise.all(writers);
      } else {
        await database.finish?.(client, acknowledged);
      }
      await database.disconnect(client);
    }
    expect(acknowledged.writes).toBeGreaterThan((KILLS * ROUND_WRITES) / 4);
  } finally {
    await service?.kill("SIGKILL");
    for (const one of prepared) one.discard();
    folder.remove();
    compiled.remove();
  }
}

async function writeUntilGone<Client, Value>(
  database: KilledDatabase<Client, Value>,
  client: Client,
  acknowledged: Acknowledged<Value>,
  writer: number,
  random: Random,
): Promise<void> {
  try {
    for (;;) await database.write(client, acknowledged, writer, random);
  } catch {
    return;
  }
}
