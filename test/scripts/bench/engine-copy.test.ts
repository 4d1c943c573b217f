import { expect, test } from "vitest";
import { engineCopyFigures, engineCopyText } from "../../../scripts/bench/engine-copy.ts";
import { runCommand } from "../plan/run-plan.ts";

const MEASURED = {
  readers: 8,
  files: 4,
  bytes: 2 ** 30,
  pairs: [
    { copySeconds: 1, ddSeconds: 2 },
    { copySeconds: 2, ddSeconds: 1 },
    { copySeconds: 4, ddSeconds: 4.8 },
  ],
};

test("the ratio is that of throughputs, taken pair by pair", () => {
  const figures = engineCopyFigures(MEASURED);
  expect([figures.medianRatio, figures.leastRatio, figures.quickestRatio]).toEqual([1.2, 0.5, 1]);
  expect(figures.copyMegabytesPerSecond).toBeCloseTo(2 ** 30 / 2e6);
  expect(figures.ddMegabytesPerSecond).toBeCloseTo(2 ** 30 / 2e6);
  expect(engineCopyText(figures)).toMatch(
    /1\.00 GiB, 8 readers, 3 pairs: .* median ratio 1\.20, least 0\.50; .* ratio 1\.00$/,
  );
});

test("a folder in memory is no disk", async () => {
  await expect(runCommand("bench", "engine-copy", "--directory", "/dev/shm")).resolves.toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("/dev/shm is in memory"),
  });
});
