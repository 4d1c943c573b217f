/**
 * An hour of mixed load on the gateway and both databases, with faults: clients that leave, cut bodies or read slowly,
 * kill -9, SIGSTOP, and a full disk. Acknowledged writes are kept, every error has a fault that explains it, and no process
 * has more memory or descriptors at the end than in the tenth minute.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../harness/ports.ts";
import { tell } from "../../harness/progress.ts";
import { printedSeed, randomOf } from "../../harness/random.ts";
import { needs } from "../../harness/requirements.ts";
import { AT_NIGHT } from "../../harness/thorough.ts";
import { Acknowledged } from "../kill-rounds.ts";
import { openDescriptors, residentBytes, temporaryFolder, until, urlIn } from "../service-process.ts";
import { type SmallDisk, smallDisk, smallDiskMissing } from "../small-disk.ts";
import { asWritten, foundBy, type Written } from "./document-writes.ts";
import { type FakeTriton, startFakeTriton } from "./fake-triton.ts";
import { Load } from "./soak-load.ts";
import {
  agreed,
  type Databases,
  dataUrl,
  picture,
  placesOf,
  type RestartableService,
  restartableService,
  retrievalConfig,
  startDatabases,
} from "./support.ts";

/** Length, by default an hour. */
const MINUTES = Number(process.env.ENGINE_ROOM_SOAK_MINUTES ?? 60);
const LENGTH_MS = MINUTES * 60_000;
/** Time for the start, the last kills, and the checks of the content. */
const MORE_MS = 5 * 60_000;
/**
 * Kills are at the beginning, and again after the last figures: a process has less memory just after its start than after
 * minutes of load, so no process is killed between the figures that are compared. A shorter soak takes the reference later
 * than after a sixth, to have such minutes before it.
 */
const KILLS_END_MS = LENGTH_MS / 20;
const WARM_MS = 6 * 60_000;
const REFERENCE_MS = Math.max(LENGTH_MS / 6, Math.min(KILLS_END_MS + WARM_MS, LENGTH_MS / 2));
/** Time without load before figures are taken, so that memory of requests is freed; samples are from its second half. */
const QUIET_MS = Math.max(20_000, Math.min(60_000, LENGTH_MS / 20));
const SAMPLES = 9;
const MOST_GROWTH = 1.1;
/** supervisord starts a process again a second after its end. */
const RESTART_MS = 1000;
const STOP_MS = { least: 1000, more: 7000 };
/** Time between two faults; most are long enough to show errors that no fault explains. */
const KILL_GAP_MS = { least: 5000, more: 10_000 };
const GAP_MS = { least: 5000, more: 35_000 };
const WATCH_MS = 500;
const DISK_MEBIBYTES = 64;

const NAMES = ["gateway", "mongo", "vector"] as const;
type Name = (typeof NAMES)[number];

/** Memory and descriptors of a process. */
interface Figures {
  readonly mebibytes: number;
  readonly descriptors: number;
}

const diskMissing = AT_NIGHT ?? smallDiskMissing();

describe(`a soak of ${MINUTES} minutes`, {
  ...needs(AT_NIGHT),
  shuffle: false,
  timeout: LENGTH_MS + MORE_MS,
}, () => {
  const seed = AT_NIGHT === undefined ? printedSeed() : 0;
  const random = randomOf(seed);
  const acknowledged = new Acknowledged<Written>();
  const counts = { kills: 0, stops: 0, fullDisks: 0 };
  const problems: string[] = [];
  const reference = new Map<Name, Figures>();
  const atTheEnd = new Map<Name, Figures>();
  let folder: ReturnType<typeof temporaryFolder> | undefined;
  let disk: SmallDisk | undefined;
  let triton: FakeTriton;
  let databases: Databases;
  let services: Readonly<Record<Name, RestartableService>>;
  let load: Load;

  beforeAll(async () => {
    folder = temporaryFolder("soak");
    disk = diskMissing === undefined ? smallDisk(DISK_MEBIBYTES) : undefined;
    [databases, triton] = await Promise.all([startDatabases(disk?.path), startFakeTriton()]);
    triton.behaviour.answer = Array.from({ length: 200 }, (_, index) => `word ${index} `);
    const file = join(folder.path, "gateway.json");
    const port = await freePort();
    const config = retrievalConfig(triton, placesOf(databases), { port, log: {} });
    writeFileSync(file, JSON.stringify(config));
    const gateway = restartableService("gateway", ["--config", file]);
    services = { gateway, mongo: databases.mongo, vector: databases.vector };
    const url = urlIn(await gateway.start());
    const image = dataUrl(await picture("lime", "maroon", { size: 512 }));
    load = new Load({ url, image, acknowledged, random: randomOf(random.below(2 ** 32)) });
  });
  afterAll(async () => {
    load?.end();
    await services?.gateway.kill();
    await databases?.dispose();
    await triton?.close();
    disk?.remove();
    folder?.remove();
  });

  test("acknowledged writes are kept after all faults, and no process ended or request failed without a fault", async () => {
    const begin = Date.now();
    const at = (milliseconds: number) => begin + milliseconds;
    const watch = setInterval(look, WATCH_MS);
    load.start();
    for (let turn = 0; Date.now() < at(KILLS_END_MS); turn++) {
      await kill(NAMES[turn % NAMES.length] ?? "gateway");
      await sleep(KILL_GAP_MS.least + random.below(KILL_GAP_MS.more));
    }
    await faultsUntil(at(REFERENCE_MS) - QUIET_MS);
    await takeFigures(reference);
    await faultsUntil(at(LENGTH_MS) - QUIET_MS);
    await takeFigures(atTheEnd);
    for (const name of NAMES) {
      await kill(name);
      await sleep(KILL_GAP_MS.least);
    }
    await load.pause();
    clearInterval(watch);
    report();
    const contents = await agreed(databases);
    expect(acknowledged.problems(asWritten(contents))).toEqual([]);
    await until(async () => (await foundBy(load.url)).length === contents.documents.size, 200);
    expect(await foundBy(load.url)).toEqual([...contents.documents.keys()].sort());
    expect([...problems, ...load.unexplained()]).toEqual([]);
    expect(acknowledged.writes).toBeGreaterThan(0);
    for (const [kind, count] of load.done) expect(count, kind).toBeGreaterThan(0);
  });

  test.each(NAMES)(
    "%s has at the end at most a tenth more memory and descriptors than when it was warm",
    (name) => {
      const [before, after] = [reference.get(name), atTheEnd.get(name)];
      expect(after?.mebibytes).toBeLessThanOrEqual((before?.mebibytes ?? 0) * MOST_GROWTH);
      expect(after?.descriptors).toBeLessThanOrEqual((before?.descriptors ?? 0) * MOST_GROWTH);
    },
  );

  test("the databases' disk was full for a while", needs(diskMissing), () => {
    expect(counts.fullDisks).toBeGreaterThan(0);
  });

  /** Processes that are killed by a fault; the end of any other process is a problem. */
  const expected = new Set<Name>();
  function look(): void {
    for (const name of NAMES) {
      const { child, output } = services[name].current();
      const hasEnded = child.exitCode !== null || child.signalCode !== null;
      if (expected.has(name)) continue;
      // Its log would otherwise be kept in memory for the whole hour.
      output.stdout = "";
      if (!hasEnded) continue;
      const how = `exit code ${child.exitCode}, signal ${child.signalCode}`;
      problems.push(`${name} ended by itself with ${how}: ${output.stderr.slice(-2000)}`);
      expected.add(name);
      void load.during(() => restart(name));
    }
  }

  async function restart(name: Name): Promise<void> {
    await sleep(RESTART_MS);
    await services[name].start();
    expected.delete(name);
  }

  async function kill(name: Name): Promise<void> {
    counts.kills += 1;
    await load.during(async () => {
      expected.add(name);
      await services[name].kill();
      await restart(name);
    });
  }

  async function stop(name: Name): Promise<void> {
    counts.stops += 1;
    const { child } = services[name].current();
    await load.during(async () => {
      child.kill("SIGSTOP");
      await sleep(STOP_MS.least + random.below(STOP_MS.more));
      child.kill("SIGCONT");
    });
  }

  async function fillDisk(full: SmallDisk): Promise<void> {
    counts.fullDisks += 1;
    await load.during(async () => {
      full.fill();
      await sleep(STOP_MS.least + random.below(STOP_MS.more));
      full.free();
    });
  }

  /** Stops each process and fills the disk, in random order, until a time. */
  async function faultsUntil(end: number): Promise<void> {
    const faults = [
      ...NAMES.map((name) => () => stop(name)),
      ...(disk === undefined ? [] : [() => fillDisk(disk as SmallDisk)]),
    ];
    while (Date.now() < end) {
      await faults[random.below(faults.length)]?.();
      await sleep(Math.max(0, Math.min(GAP_MS.least + random.below(GAP_MS.more), end - Date.now())));
    }
  }

  async function takeFigures(figures: Map<Name, Figures>): Promise<void> {
    await load.pause();
    await sleep(QUIET_MS / 2);
    const samples = new Map<Name, Figures[]>(NAMES.map((name) => [name, []]));
    for (let taken = 0; taken < SAMPLES; taken++) {
      for (const name of NAMES) samples.get(name)?.push(figuresOf(services[name]));
      await sleep(QUIET_MS / 2 / SAMPLES);
    }
    for (const [name, taken] of samples) {
      const mebibytes = median(taken.map((one) => one.mebibytes));
      const descriptors = median(taken.map((one) => one.descriptors));
      figures.set(name, { mebibytes, descriptors });
    }
    load.resume();
  }

  function report(): void {
    const { kills, stops, fullDisks } = counts;
    const requests = [...load.done].map(([kind, count]) => `${count} ${kind}`).join(", ");
    tell(`soak of ${MINUTES} minutes: ${kills} kills, ${stops} stops, ${fullDisks} full disks; ${requests}`);
    tell(`errors that faults explain: ${load.explained()}; acknowledged writes: ${acknowledged.writes}`);
    for (const name of NAMES) {
      const [before, after] = [reference.get(name), atTheEnd.get(name)];
      tell(
        `${name}: ${before?.mebibytes.toFixed(1)} MiB, then ${after?.mebibytes.toFixed(1)} MiB; ` +
          `${before?.descriptors} descriptors, then ${after?.descriptors}`,
      );
    }
  }
});

function figuresOf(service: RestartableService): Figures {
  const pid = service.current().child.pid ?? 0;
  return { mebibytes: residentBytes(pid) / 2 ** 20, descriptors: openDescriptors(pid) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
