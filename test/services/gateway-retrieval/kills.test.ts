/**
 * kill -9 of each database, of both, and of the gateway, at random moments under concurrent writes through the gateway, which
 * is sometimes killed with a database: acknowledged writes are kept, no start needs a manual repair, and the gateway always
 * updates the vectors from MongoDB and finds every document.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { printedSeed, type Random, randomOf } from "../../harness/random.ts";
import { isThorough, times } from "../../harness/thorough.ts";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { Acknowledged } from "../kill-rounds.ts";
import { temporaryFolder, until, urlIn } from "../service-process.ts";
import { asWritten, foundBy, put, remove, type Written } from "./document-writes.ts";
import { type FakeTriton, startFakeTriton } from "./fake-triton.ts";
import {
  agree,
  agreed,
  contentsOf,
  dataUrl,
  picture,
  placesOf,
  restartableService,
  retrievalConfig,
  startDatabases,
} from "./support.ts";

/** Kills of each database, of both, and of the gateway. */
const KILLS = times(3, 50);
/** Number of kills of a database for each kill of the gateway that is written through. */
const KILLS_PER_GATEWAY_KILL = times(3, 10);
const WRITERS = 6;
/** A round ends after 1 to this number of acknowledged documents, while other writers are anywhere in their writes. */
const ROUND_DOCUMENTS = 30;

const seed = printedSeed();
const folder = temporaryFolder("gateway-kills");
let triton: FakeTriton;
let image: string;

beforeAll(async () => {
  [triton, image] = await Promise.all([startFakeTriton(), picture("lime", "maroon").then(dataUrl)]);
});
afterAll(async () => {
  await triton?.close();
  folder.remove();
});

test.concurrent.each(["mongo", "vector", "mongo and vector", "gateway"] as const)(
  `documents that the gateway acknowledged outlast ${KILLS} kills of %s, and all are found`,
  { timeout: 600_000 },
  async (what) => {
    const random = randomOf(seed);
    const acknowledged = new Acknowledged<Written>();
    const databases = await startDatabases();
    const killed = (["mongo", "vector"] as const)
      .filter((name) => what.includes(name))
      .map((name) => databases[name]);
    const config = retrievalConfig(triton, placesOf(databases));
    const file = join(folder.path, `${what}.json`);
    writeFileSync(file, JSON.stringify({ ...config, log: {} }));
    const mortal = restartableService("gateway", ["--config", file]);
    const survivor = await startGateway(config);
    try {
      let mortalUrl = urlIn(await mortal.start());
      for (let kills = 1; kills <= KILLS; kills++) {
        const killsGateway = what === "gateway" || kills % KILLS_PER_GATEWAY_KILL === 0;
        let isOver = false;
        const writers = Array.from({ length: WRITERS }, (_, writer) =>
          write({
            url: killsGateway ? mortalUrl : survivor.url,
            name: String(writer),
            image,
            acknowledged,
            random: randomOf(random.below(2 ** 32)),
            isOver: () => isOver,
          }),
        );
        const enough = acknowledged.writes + 1 + random.below(ROUND_DOCUMENTS);
        // Writers end earlier only when a document is refused, which fails the test.
        await Promise.race([until(() => acknowledged.writes >= enough), Promise.all(writers)]);
        isOver = true;
        await Promise.all([...killed.map((one) => one.kill()), killsGateway && mortal.kill()]);
        await Promise.all([...killed.map((one) => one.start()), ...writers]);
        if (killsGateway) {
          // It makes missing vectors by itself.
          mortalUrl = urlIn(await mortal.start());
          await agreed(databases);
        } else {
          await reindex(survivor.url);
        }
        const contents = await contentsOf(databases);
        expect(contents).toSatisfy(agree);
        expect(acknowledged.problems(asWritten(contents))).toEqual([]);
        const found = await foundBy(killsGateway ? mortalUrl : survivor.url);
        expect(found).toEqual([...contents.documents.keys()].sort());
      }
      // Kills prove nothing when there is nothing to repair; a few may all happen between two writes.
      if (isThorough && what !== "gateway") expect(await indexedBy(survivor)).toBeGreaterThanOrEqual(KILLS);
    } finally {
      await mortal.kill();
      await survivor.app.close();
      await databases.dispose();
    }
  },
);

/** Makes missing vectors as soon as both databases are reached. */
async function reindex(url: string): Promise<void> {
  await until(async () => (await fetch(`${url}/v1/reindex`, { method: "POST" })).ok);
}

/** Number of documents whose vectors a gateway has created or removed by reindexing. */
async function indexedBy({ gateway }: RunningGateway): Promise<number> {
  const values = (await gateway.retrieval?.metrics.reindexed.get())?.values ?? [];
  return values.reduce((sum, { value }) => sum + value, 0);
}

/** Documents of one writer. */
const IDS = 12;
/** Documents of one request: the largest requests have two batches in the gateway. */
const MOST_DOCUMENTS = 10;

interface WriterSettings {
  readonly url: string;
  /** First part of its documents' ids, which no other writer has. */
  readonly name: string;
  /** As data URL. */
  readonly image: string;
  readonly acknowledged: Acknowledged<Written>;
  readonly random: Random;
  /** Whether a request may fail from now on. */
  readonly isOver: () => boolean;
}

/** Writes until a write is not acknowledged. @throws Error when that is before `isOver`. */
async function write(settings: WriterSettings): Promise<void> {
  const { url, name, image, acknowledged, random, isOver } = settings;
  try {
    while (!isOver()) {
      const id = () => `${name}-${random.below(IDS)}`;
      if (random.below(5) === 0) {
        await remove(url, id(), acknowledged);
        continue;
      }
      const ids = new Set(Array.from({ length: 1 + random.below(MOST_DOCUMENTS) }, id));
      const documents = [...ids].map((one) => ({
        id: one,
        text: `${one} ${random.below(1000)}`,
        ...(random.below(20) === 0 && { image }),
      }));
      await put(url, documents, acknowledged);
    }
  } catch (error) {
    if (!isOver()) throw error;
  }
}
