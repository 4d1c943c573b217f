/** Tests of how both databases start, and of what keeps them from it. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { logLines, type ServiceProcess, startService } from "./service-process.ts";

interface StartedDatabase {
  /** Its main.ts, from the repository's root. */
  readonly main: string;
  /** LMDB's file in its data directory. */
  readonly file: string;
  readonly portOptions: readonly string[];
  /** Starts it on free ports. @returns Also what its first line must hold. */
  start(data: string): Promise<{ readonly service: ServiceProcess; readonly firstLine: object }>;
}

/** Defines the tests. @param folder - Empty before each of them. */
export function testStarts({ main, file, portOptions, start }: StartedDatabase, folder: () => string): void {
  /** Ends with 1 and one sentence. @param ports - By option; free ones where they are not named. */
  async function refused(data: string, ports: Readonly<Record<string, number>> = {}): Promise<string> {
    const args = portOptions.flatMap((option) => [option, String(ports[option] ?? 0)]);
    return sentenceOf(["--data", data, ...args]);
  }

  async function sentenceOf(args: readonly string[]): Promise<string> {
    const service = startService(main, args);
    expect(await service.exit).toBe(1);
    const lines = service.output.stderr.trimEnd().split("\n");
    expect(lines).toHaveLength(1);
    return String(lines[0]);
  }

  it("says in one JSON line where it listens, and ends with 0 on SIGTERM and on SIGINT", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      const { service, firstLine } = await start(folder());
      expect(logLines(service.output.stdout)).toMatchObject([firstLine]);
      expect(await service.kill(signal)).toBe(0);
      expect(service.output.stderr).toBe("");
    }
  });

  it.each([
    ["no data directory", [], "--data is missing"],
    ["an unknown argument", ["--data", "x", "--prot", "1"], "--prot"],
    ["a wrong level", ["--data", "x", "--log-level", "loud"], "--log-level is loud"],
    ...portOptions.flatMap((option) => [
      [`a wrong ${option}`, ["--data", "x", option, "80a"], `${option} is 80a`] as const,
      [`a ${option} that is too large`, ["--data", "x", option, "65536"], `${option} is 65536`] as const,
    ]),
  ] as const)("ends with 1 and one sentence about %s", async (_what, args, message) => {
    expect(await sentenceOf(args)).toContain(message);
  });

  it.each(portOptions)("ends with 1 and one sentence when the port of %s is taken", async (option) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    expect(await refused(folder(), { [option]: port })).toBe(
      `Port ${port} of 127.0.0.1 is taken by another process; choose another one with ${option}.`,
    );
    other.close();
  });

  it("ends with 1 and one sentence when the data can't be opened", async () => {
    const noDirectory = join(folder(), "file");
    writeFileSync(noDirectory, "");
    const damaged = join(folder(), "damaged");
    mkdirSync(damaged);
    writeFileSync(join(damaged, file), "no database ".repeat(1000));
    expect(await refused(noDirectory)).toContain(`The data in ${noDirectory} can't be opened: `);
    expect(await refused(damaged)).toBe(
      `The data in ${damaged} can't be opened: ${file} is no LMDB file; choose another directory with --data.`,
    );
  });

  it("is refused while another process has the directory, by any path, and not after it was killed", async () => {
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
