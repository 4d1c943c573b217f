import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestStack } from "../harness/stack.ts";

const stack = new TestStack("verify");
const out = join(tmpdir(), `engine-room-verify-${process.pid}.json`);

beforeAll(async () => {
  await stack.succeed("up");
});
afterAll(() => stack.dispose());

test("verify passes all that a CPU can, skips the rest with the reason, and records nothing", async () => {
  const { code, stdout, stderr } = await stack.run("verify", "--out", out);
  expect(stderr).toBe("");
  const lines = stdout.split("\n").flatMap((line) => {
    const [, sign, subject, title] = /^(ok|FAILED|skipped) +(\S+) +(.*?) {2,}\d+ ms/.exec(line) ?? [];
    return sign === undefined ? [] : [[`${subject}: ${title}`, sign]];
  });
  expect(Object.fromEntries(lines)).toEqual({
    "smollm2: golden question at Triton": "ok",
    "smollm2: golden question at the gateway": "ok",
    "smollm2: streamed answer equals the whole one": "ok",
    "smollm2: asked at once equals asked one by one": "ok",
    "smollm2: names of metrics": "ok",
    "smollm2: seconds of the start": "skipped",
    "encoders: published similarities of texts": "ok",
    "encoders: captions find their pictures": "skipped",
    "encoders: a batch equals single requests": "ok",
    "encoders: llava_ensemble equals its encoders": "ok",
    "encoders: names of metrics": "ok",
    "encoders: seconds of the start": "skipped",
  });
  expect(stdout).toContain("nothing is shown of a GPU");
  expect(stdout).toContain("Verified: 9 passed, 0 failed, 3 skipped.");
  expect(stdout).toContain("No proof file was written: the stack runs on a CPU.");
  expect(existsSync(out)).toBe(false);
  expect(code).toBe(0);
});
