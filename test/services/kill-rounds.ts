/** kill -9 of a database at random moments under concurrent writes of its own clients. */
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { printedSeed, type Random, randomOf } from "../harness/random.ts";
import { times } from "../harness/thorough.ts";
import { type ServiceProcess, startService, temporaryFolder, until } from "./service-process.ts";

export const KILLS = times(5, 50);
/** Of each writer; no other one writes them. */
export const KEYS_PER_WRITER = 40;
const WRITERS = 6;
/** A round goes on for so many acknowledged writes, some more of them, and then for less than so many milliseconds. */
const LEAST_WRITES = 10;
const MORE_WRITES = 20;
const ROUND_MILLISECONDS = 10;

/** What a database must hold after it was killed: what it acknowledged, and what it was asked for then or not. */
export class Acknowledged<T> {
  readonly #known = new Map<string, T | undefined>();
  /** Writes that were sent and not acknowledged since the last one that was, by key. */
  readonly #pending = new Map<string, (T | undefined)[]>();

  /** Writes that were acknowledged so far. */
  writes = 0;

  /** The value that a key has; undefined for none. */
  get(key: string): T | undefined {
    return this.#known.get(key);
  }

  /** Keys that were ever written. */
  keys(): string[] {
    return [...this.#known.keys()];
  }

  /** A write of keys, until it is acknowledged or the database is gone. */
  async during(changes: ReadonlyMap<string, T | undefined>, write: () => Promise<unknown>): Promise<void> {
    for (const [key, value] of changes) this.#pending.set(key, [...(this.#pending.get(key) ?? []), value]);
    await write();
    this.writes += 1;
    for (const [key, value] of changes) {
      this.#known.set(key, value);
      this.#pending.delete(key);
    }
  }

  /** What is wrong with a content, a sentence each; what is right in it is known from here on. */
  problems(content: ReadonlyMap<string, T>): string[] {
    const keys = new Set([...this.#known.keys(), ...this.#pending.keys(), ...content.keys()]);
    const wrong = [...keys].filter((key) => {
      const allowed = [this.#known.get(key), ...(this.#pending.get(key) ?? [])];
      return !allowed.some((value) => isDeepStrictEqual(value, content.get(key)));
    });
    const problems = wrong.map(
      (key) =>
        `${key} is ${JSON.stringify(content.get(key))}, acknowledged was ${JSON.stringify(this.#known.get(key))}`,
    );
    for (const key of keys) this.#known.set(key, content.get(key));
    this.#pending.clear();
    return problems;
  }
}

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
  const acknowledged = new Acknowledged<Value>();
  let service: ServiceProcess | undefined;
  try {
    for (let round = 0; round <= KILLS; round++) {
      service = startService(database.service, ["--data", folder.path, ...database.args]);
      const client = database.connect(await service.listening());
      if (round === 0) await database.prepare(client);
      expect(acknowledged.problems(await database.read(client, acknowledged.keys()))).toEqual([]);
      if (round < KILLS) {
        let isKilled = false;
        const writers = Array.from({ length: WRITERS }, async (_, writer) => {
          const own = randomOf(random.below(2 ** 32));
          try {
            for (;;) await database.write(client, acknowledged, writer, own);
          } catch (error) {
            if (!isKilled) throw error;
          }
        });
        const enough = acknowledged.writes + LEAST_WRITES + random.below(MORE_WRITES);
        // Writers end before only where a write is refused, which fails the test.
        await Promise.race([until(() => acknowledged.writes >= enough, 1), Promise.all(writers)]);
        await sleep(random.below(ROUND_MILLISECONDS));
        isKilled = true;
        await service.kill("SIGKILL");
        await Promise.all(writers);
      } else {
        await database.finish?.(client, acknowledged);
      }
      await database.disconnect(client);
    }
  } finally {
    await service?.kill("SIGKILL");
    folder.remove();
  }
}
