/** moto in the environment of tested code. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeEach, expect, inject, type MockInstance, vi } from "vitest";
import type { ask } from "../../../scripts/aws/session.ts";
import { motoEnvironment, resetMoto } from "./moto.ts";
import { awsPython } from "./python.ts";
import { SDK_OPERATIONS } from "./script-operations.ts";

export interface MotoUse {
  /** Folder of the test file's own programs, first on PATH. */
  folder(): string;
  /** Writes a program that everything started from here finds before those of the machine. */
  program(name: string, text: string): void;
}

/** The stand-in of this worker: no other file calls it while this one runs. */
export function motoUrl(): string {
  const urls = inject("motoUrls");
  const url = urls[Number(process.env.VITEST_POOL_ID) - 1];
  if (url === undefined)
    throw new Error(`Worker ${process.env.VITEST_POOL_ID} has none of ${urls.length} motos.`);
  return url;
}

/** Calls of this process go to moto, which is empty before each test. */
export function useMoto(region: string): MotoUse {
  const folder = mkdtempSync(join(tmpdir(), "engine-room-moto-"));
  beforeEach(async () => {
    const environment = motoEnvironment(motoUrl(), region);
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
    await resetMoto(motoUrl());
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  return {
    folder: () => folder,
    program: (name, text) => {
      writeFileSync(join(folder, name), text);
      chmodSync(join(folder, name), 0o755);
    },
  };
}

/** Puts AWS's own CLI on PATH, as `aws`. */
export async function useAwsCli({ program }: MotoUse): Promise<void> {
  program("aws", `#!/bin/sh\nexec '${await awsPython()}' -I -m awscli "$@"\n`);
}

/**
 * After all tests of a file: fails if moto has not answered an action that the table of operations assigns to the
 * file, or has answered an action that the table says it lacks. A run of some of the tests proves neither.
 *
 * @param spy - On `ask`. @param name - Name of the test file: `preflight`.
 */
export function checkOperations(spy: MockInstance<typeof ask>, name: string): void {
  // biome-ignore lint/correctness/noEmptyPattern: Vitest requires an object pattern as first parameter.
  afterAll(({}, { tasks }) => {
    if (tasks.some(({ mode }) => mode === "skip")) return;
    expect(wrongActions(spy, name), "wrong in test/harness/aws/script-operations.ts").toEqual([]);
  });
}

function wrongActions(spy: MockInstance<typeof ask>, name: string): readonly string[] {
  const answered = new Set<string>(
    spy.mock.calls.flatMap(([action], index) => {
      const result = spy.mock.settledResults[index];
      return result?.type === "fulfilled" && result.value !== undefined ? [action] : [];
    }),
  );
  return Object.entries(SDK_OPERATIONS).flatMap(([action, answerer]) => {
    const isWrong =
      answerer.by === "fake"
        ? answered.has(action)
        : answerer.files.includes(`test/aws/${name}.test.ts`) && !answered.has(action);
    return isWrong ? [action] : [];
  });
}
