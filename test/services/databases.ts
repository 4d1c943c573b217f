/** Helpers of the tests of both databases: a process with its official client, its start, and clients in Python. */
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findPython } from "../../components/local/provider/python.ts";
import { lockedPython } from "../../scripts/testing/python.ts";
import { logLines, type ServiceProcess, startService, temporaryFolder } from "./service-process.ts";

/** Start and client of a kind of database. */
export interface DatabaseKind<Running extends { readonly service: ServiceProcess }, Client> {
  /** For names of folders. */
  readonly name: string;
  start(data: string, ...args: string[]): Promise<Running>;
  connect(running: Running): Client;
  disconnect(client: Client): Promise<void>;
}

/** Runs a test with its own server and client. @param args - Arguments of the process. */
export async function withDatabase<Running extends { readonly service: ServiceProcess }, Client>(
  kind: DatabaseKind<Running, Client>,
  run: (client: Client, running: Running) => Promise<void>,
  ...args: string[]
): Promise<void> {
  const folder = temporaryFolder(kind.name);
  const running = await kind.start(folder.path, ...args);
  const client = kind.connect(running);
  try {
    await run(client, running);
  } finally {
    await kind.disconnect(client);
    await running.service.kill("SIGKILL");
    folder.remove();
  }
}

/** One server and one client for all tests of a file. */
export function useDatabase<Running extends { readonly service: ServiceProcess }, Client>(
  kind: DatabaseKind<Running, Client>,
): {
  readonly running: () => Running;
  readonly client: () => Client;
  /** A number that no other test has. */
  readonly unused: () => number;
} {
  const folder = temporaryFolder(`${kind.name}-client`);
  let running: Running;
  let client: Client;
  let used = 0;
  beforeAll(async () => {
    running = await kind.start(folder.path);
    client = kind.connect(running);
  });
  afterAll(async () => {
    await kind.disconnect(client);
    await running.service.kill("SIGTERM");
    folder.remove();
  });
  return {
    running: () => running,
    client: () => client,
    unused() {
      used += 1;
      return used;
    },
  };
}

interface StartedDatabase {
  /** Its name in titles. */
  readonly name: string;
  /** Folder below containers/services. */
  readonly service: string;
  /** LMDB's file in its data directory. */
  readonly file: string;
  readonly portOptions: readonly [string, ...string[]];
  /** Starts it on free ports. @returns Also the required text of its first line. */
  start(data: string): Promise<{ readonly service: ServiceProcess; readonly firstLine: object }>;
}

/** Defines the tests. @param folder - Empty before each of them. */
export function testStarts(
  { name, service, file, portOptions, start }: StartedDatabase,
  folder: () => string,
): void {
  const [firstOption] = portOptions;
  const lastOption = portOptions.at(-1) ?? firstOption;
  /** Expects exit code 1 and one sentence, and returns it. @param ports - By option; by default free ports. */
  async function refused(data: string, ports: Readonly<Record<string, number>> = {}): Promise<string> {
    const args = portOptions.flatMap((option) => [option, String(ports[option] ?? 0)]);
    return sentenceOf(["--data", data, ...args]);
  }

  async function sentenceOf(args: readonly string[]): Promise<string> {
    const started = startService(service, args);
    expect(await started.exit).toBe(1);
    const lines = started.output.stderr.trimEnd().split("\n");
    expect(lines).toHaveLength(1);
    return String(lines[0]);
  }

  test(`${name} says in one JSON line where it listens, and ends with 0 on SIGTERM and on SIGINT`, async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { service: started, firstLine } = await start(folder());
      expect(logLines(started.output.stdout)).toMatchObject([firstLine]);
      expect(await started.kill(signal)).toBe(0);
      expect(started.output.stderr).toBe("");
    }
  });

  test.each([
    ["no data directory", [], "--data is missing"],
    ["an unknown argument", ["--data", "x", "--prot", "1"], "--prot"],
    ["a wrong level", ["--data", "x", "--log-level", "loud"], "--log-level is loud"],
    [`a wrong ${firstOption}`, ["--data", "x", firstOption, "80a"], `${firstOption} is 80a`],
    [`a ${lastOption} that is too large`, ["--data", "x", lastOption, "65536"], `${lastOption} is 65536`],
  ] as const)(`${name} ends with 1 and one sentence about %s`, async (_what, args, message) => {
    expect(await sentenceOf(args)).toContain(message);
  });

  test.each(portOptions)(
    `${name} ends with 1 and one sentence when the port of %s is taken`,
    async (option) => {
      const other = createServer();
      await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
      const { port } = other.address() as { port: number };
      expect(await refused(folder(), { [option]: port })).toBe(
        `The server can't listen: listen EADDRINUSE: address already in use 127.0.0.1:${port}; choose another port with ${option}, or another host with --host.`,
      );
      other.close();
    },
  );

  test(`${name} ends with 1 and one sentence when the data can't be opened`, async () => {
    const noDirectory = join(folder(), "file");
    writeFileSync(noDirectory, "");
    const damaged = join(folder(), "damaged");
    mkdirSync(damaged);
    writeFileSync(join(damaged, file), "no database ".repeat(1000));
    expect(await refused(noDirectory)).toContain(`The data in ${noDirectory} can't be opened: `);
    expect(await refused(damaged)).toBe(
      `The data in ${damaged} can't be opened: ${file} is not an LMDB file; choose another directory with --data.`,
    );
  });

  test(`${name} refuses a directory that another process has, by any path, until that process is killed`, async () => {
    const data = join(folder(), "data");
    mkdirSync(data);
    const link = join(folder(), "link");
    symlinkSync(data, link);
    const { service: first } = await start(data);
    for (const path of [data, link]) {
      expect(await refused(path)).toBe(
        `Another process uses the data in ${path}; stop it, or choose another directory with --data.`,
      );
    }
    await first.kill("SIGKILL");
    const { service: third } = await start(data);
    expect(await third.kill("SIGTERM")).toBe(0);
  });
}

/** Reason why Python is missing; undefined when it exists. */
export async function pythonMissing(): Promise<string | undefined> {
  try {
    await findPython(undefined);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Runs a script with the packages of the lock beside it. @returns Its exit status and output. */
export async function runPython(
  folder: string,
  script: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly status: number | null; readonly output: string }> {
  const python = await lockedPython([join(folder, "requirements.lock")], () => undefined);
  const { status, stdout, stderr } = spawnSync(python, [join(folder, script)], {
    encoding: "utf8",
    env: { ...process.env, ...env },
    timeout: 100_000,
  });
  return { status, output: `${stdout}${stderr}` };
}
