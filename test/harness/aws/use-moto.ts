/** One moto for the tests of a file, in the environment of what they test. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, beforeEach, type MockInstance } from "vitest";
import type { ask } from "../../../scripts/aws/session.ts";
import { type AwsStandIn, startMoto } from "./moto.ts";
import { awsPython } from "./python.ts";
import { SDK_OPERATIONS } from "./script-operations.ts";

export interface MotoUse {
  aws(): AwsStandIn;
  /** Of the file's tests; first on PATH. */
  folder(): string;
  /** Writes a program that everything started from here finds before those of the machine. */
  program(name: string, text: string): void;
}

/** Calls of this process go to it, and it is empty before each test. */
export function useMoto(region: string): MotoUse {
  let aws: AwsStandIn;
  let folder: string;
  const before = { ...process.env };
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "engine-room-moto-"));
    aws = await startMoto({ region });
    Object.assign(process.env, aws.environment, { PATH: `${folder}${delimiter}${before.PATH}` });
  });
  beforeEach(() => aws.reset());
  afterAll(async () => {
    process.env = { ...before };
    rmSync(folder, { recursive: true });
    await aws.stop();
  });
  return {
    aws: () => aws,
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
 * Rows of the table of operations that a file's run proves wrong: actions that the file says it has tested, and moto has not
 * answered; and those that moto is said to lack, and answered.
 *
 * @param spy - Of `ask`. @param name - Of the test file: `sleep`.
 */
export function wrongRows(spy: MockInstance<typeof ask>, name: string): readonly string[] {
  const answered = new Set(
    spy.mock.calls.flatMap(([action], index) => {
      const result = spy.mock.settledResults[index];
      return result?.type === "fulfilled" && result.value.kind === "answer" ? [action] : [];
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
