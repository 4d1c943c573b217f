import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { PulumiLockedError, saysLocked, takeOverLocks } from "../../scripts/stack/pulumi-lock.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "engine-room-locks-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

function lock(pid: number, machine = hostname()): string {
  const file = join(directory, "0123.json");
  writeFileSync(file, JSON.stringify({ pid, username: "root", hostname: machine, timestamp: "" }));
  writeFileSync(`${file}.attrs`, "{}");
  return file;
}

/** Above the largest number that Linux gives a process. */
const NOBODY = 2 ** 22 + 1;

test("the lock of a process that is gone goes, with what lies beside it", () => {
  lock(NOBODY);
  takeOverLocks("room", directory);
  expect(readdirSync(directory)).toEqual([]);
});

test("a process of that number that is another program holds nothing", () => {
  lock(process.pid);
  takeOverLocks("room", directory);
  expect(readdirSync(directory)).toEqual([]);
});

test("the lock of another machine stays, and is told", () => {
  const file = lock(NOBODY, "elsewhere");
  const taken = () => takeOverLocks("room", directory);
  expect(taken).toThrow(PulumiLockedError);
  expect(taken).toThrow(`The stack room is locked by the Pulumi CLI (process ${NOBODY} of elsewhere).`);
  expect(existsSync(file)).toBe(true);
});

test("a backend without locks is free", () => {
  takeOverLocks("room", join(directory, "absent"));
});

// As `checkForLock` of backend/diy/lock.go and `ConflictingUpdateError` of backend/backenderr write them.
test.each([
  ["error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end", true],
  [
    "error: [409] Conflict: Another update is currently in progress.\nTo learn more about possible reasons and resolution, visit https://www.pulumi.com/docs/support/troubleshooting/common-issues/update-conflicts/",
    true,
  ],
  ["error: DependencyViolation: the vpc has dependencies and cannot be deleted", false],
])("%j says whether another operation has the stack: %s", (words, isLocked) => {
  expect(saysLocked(words)).toBe(isLocked);
});
