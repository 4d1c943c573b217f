/** kill -9 of a database at random moments under concurrent writes of its own clients. */
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { printedSeed, type Random, randomOf } from "../harness/random.ts";
import { times } from "../harness/thorough.ts";
import { type ServiceProcess, startService, temporaryFolder, until } from "./service-process.ts";

export const KILLS = times(5, 50);
/** Keys that only one writer writes. */
export const KEYS_PER_WRITER = 40;
const WRITERS = 6;
/** A round ends after `LEAST_WRITES` acknowledged writes, up to `MORE_WRITES` more, and up to `ROUND_MILLISECONDS`. */
const LEAST_WRITES = 10;
const MORE_WRITES = 20;
const ROUND_MILLISECONDS = 10;

/** Content that a database must have after a kill: acknowledged writes, and optionally the pending writes. */
export class Acknowledged<T> {
  readonly #known = new Map<string, T | undefined>();
  /** Writes since the last acknowledged write, by key. */
  readonly #pending = new Map<string, (T | undefined)[]>();

  /** Number of acknowledged writes so far. */
  writes = 0;

  /** Value of a key; undefined when it was never written, or was removed. */
  get(key: string): T | undefined {
    return this.#known.get(key);
  }

  /** Keys that were ever written. */
  keys(): string[] {
    return [...this.#known.keys()];
  }

  /** Records a write of keys, until it is acknowledged or the database is gone. */
  async during(changes: ReadonlyMap<string, T | undefined>, write: () => Promise<unknown>): Promise<void> {
    for (const [key, value] of changes) this.#pending.set(key, [...(this.#pending.get(key) ?? []), value]);
    await write();
    this.writes += 1;
    for (const [key, value] of changes) {
      this.#known.set(key, value);
      this.#pending.delete(key);
    }
  }

  /** Returns a sentence for each wrong value of a content, which is the known content from now on. */
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
  /** Arguments of its process, without its data directory. */
  readonly args: readonly string[];
  /** @param line - Line of its log with its address. */
  connect(line: Readonly<Record<string, unknown>>): Client;
  disconnect(client: Client): Promise<void>;
  /** Creates the collection of the writers. */
  prepare(client: Client): Promise<void>;
  /** Writes once. @throws When the database is gone. */
  write(client: Client, acknowledged: Acknowledged<Value>, writer: number, random: Random): Promise<void>;
  /** Reads all content, and expects the same from every kind of query. @param keys - Keys that were ever written. */
  read(client: Client, keys: readonly string[]): Promise<ReadonlyMap<string, Value>>;
  /** Checks the content after the last start. */
  finish?(client: Client, acknowledged: Acknowledged<Value>): Promise<void>;
}

/** Fails when an acknowledged write is lost, or when there is content that no writer wrote. */
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
        // Writers end earlier only when a write is refused, which fails the test.
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
