import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { processHandler } from "../../../components/local/provider/process.ts";
import {
  askProcess,
  asState,
  context,
  createProcess,
  makeEnvironment,
  makeProject,
  projectFile,
  removeProject,
  stackPids,
} from "./fixtures.ts";

let root: string;
beforeAll(async () => {
  root = makeProject();
  await makeEnvironment("s");
});
afterAll(() => removeProject(root));

const CREATE = `
import { createProcess } from ${JSON.stringify(join(import.meta.dirname, "fixtures.ts"))};
console.log("begin");
await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
console.log("end");
`;

/** Creates two processes in a program of its own, which is killed some time after its begin. */
async function createAndKill(afterMilliseconds: number): Promise<void> {
  const argv = ["--import", "tsx", "--input-type=module", "--eval", CREATE];
  const child = spawn(process.execPath, argv, {
    cwd: join(import.meta.dirname, "../../.."),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  await new Promise((resolve) => child.stdout.once("data", resolve));
  setTimeout(() => child.kill("SIGKILL"), afterMilliseconds);
  await ended;
}

// From the first step, before anything is written, until after the last.
it.each([0, 50, 120, 200, 280, 360, 450, 600])(
  "a create that is killed after %i ms can be repeated and ends right",
  async (milliseconds) => {
    await createAndKill(milliseconds);
    const made = await Promise.all([createProcess("s", "one"), createProcess("s", "two")]);
    for (const { id, outs } of made) {
      expect(stackPids("s", outs.name)).toEqual([(await askProcess(outs.ports.http)).pid]);
      expect(await processHandler.read(id, asState(outs), context)).toBeDefined();
    }
    expect(stackPids("s", "supervisord")).toHaveLength(1);
    for (const { id, outs } of made) await processHandler.delete(id, asState(outs), context);
    expect(stackPids("s")).toEqual([]);
    expect(readdirSync(projectFile(".stacks/s"))).toEqual(["python"]);
  },
);
