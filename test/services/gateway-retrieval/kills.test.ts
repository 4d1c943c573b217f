/**
 * kill -9 of each database at fifty random moments under concurrent writes through the gateway, which is killed as well
 * at some of them: nothing acknowledged is lost, no start needs a repair by hand, and both databases agree each time
 * after the gateway's own repair.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "../gateway/support.ts";
import { Acknowledged } from "../mock-mongo/acknowledged.ts";
import { compileService } from "../mock-mongo/compiled.ts";
import { printedSeed, randomOf } from "../mock-mongo/random.ts";
import { temporaryFolder, until } from "../mock-mongo/service-process.ts";
import { urlIn } from "../mock-vector/support.ts";
import { type FakeTriton, startFakeTriton } from "./fake-triton.ts";
import {
  agreed,
  type Contents,
  type Databases,
  dataUrl,
  picture,
  restartableService,
  retrievalConfig,
  startDatabases,
} from "./support.ts";
import { asWritten, type Written, write } from "./writers.ts";

/** Of each database. */
const KILLS = 50;
/** Every so many kills of a database, the gateway that is written through is killed with it. */
const KILLS_PER_GATEWAY_KILL = 10;
const WRITERS = 6;
/** A round ends with one of so many acknowledged documents; at that moment the other writers are anywhere in their writes. */
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

test.concurrent.each(["mongo", "vector"] as const)(
  `%s comes back from ${KILLS} kills, nothing that was acknowledged is lost, and repair finishes the rest`,
  { timeout: 300_000 },
  async (name) => {
    const random = randomOf(seed);
    const acknowledged = new Acknowledged<Written>();
    const compiled = compileService(`mock-${name}`);
    const databases = await startDatabases();
    const { [name]: killed } = databases;
    const config = gatewayConfig(databases);
    const file = join(folder.path, `${name}.json`);
    writeFileSync(file, JSON.stringify({ ...config, log: {} }));
    const mortal = restartableService("gateway", ["--config", file]);
    const survivor = await startGateway(config);
    let finished = 0;
    try {
      killed.prepare(compiled);
      let mortalUrl = urlIn(await mortal.start());
      for (let kills = 1; kills <= KILLS; kills++) {
        if (kills < KILLS) killed.prepare(compiled);
        const killsGateway = kills % KILLS_PER_GATEWAY_KILL === 0;
        if (killsGateway) mortal.prepare();
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
        // Writers end before only where a document is refused, which fails the test.
        await Promise.race([until(() => acknowledged.writes >= enough), Promise.all(writers)]);
        isOver = true;
        await Promise.all([killed.kill(), killsGateway && mortal.kill()]);
        await Promise.all([killed.start(), ...writers]);
        if (killsGateway) {
          // Nobody tells it to repair.
          mortalUrl = urlIn(await mortal.start());
          await agreed(databases);
        }
        finished += await repair(survivor);
        // What the gateway's clock has begun to settle at the same time, a sweep leaves alone.
        const contents = await agreed(databases);
        expect(missingImages(contents)).toEqual([]);
        expect(acknowledged.problems(asWritten(contents))).toEqual([]);
      }
      // A kill that interrupts nothing proves nothing.
      expect(finished).toBeGreaterThan(KILLS);
    } finally {
      await mortal.dispose();
      await survivor.app.close();
      await databases.dispose();
      compiled.remove();
    }
  },
);

function gatewayConfig({ mongo, vector }: Databases) {
  const ports = { mongo: mongo.port, vector: vector.port };
  return retrievalConfig(triton, ports, {
    databases: {
      // The driver looks for a server that was away every half second, if it is not told otherwise.
      mongo: { uri: `mongodb://127.0.0.1:${mongo.port}/?minHeartbeatFrequencyMS=20` },
      vector: { url: `http://127.0.0.1:${vector.port}` },
    },
  });
}

/** Sweeps as soon as both databases are reached. @returns Writes and deletions that were brought to their end. */
async function repair({ gateway }: RunningGateway): Promise<number> {
  let finished: number | undefined;
  await until(async () => {
    finished = await gateway.retrieval?.repair.sweep(true).then(
      (result) => result.finished,
      () => undefined,
    );
    return finished !== undefined;
  });
  return finished ?? 0;
}

/** Images that a document shows and that are not there. */
function missingImages({ documents, images }: Contents): string[] {
  const there = new Set(images);
  return [...documents.values()].flatMap(({ image: one }) => one ?? []).filter((one) => !there.has(one));
}
