/** Runs `npx engine-room plan` in this process. */
import { join } from "node:path";
import { vi } from "vitest";
import { main } from "../../../scripts/commands/main.ts";
import { projectRoot } from "../../../scripts/program/stack-file.ts";

export interface CommandRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command. @returns Its output and exit code. */
export async function runCommand(...argv: readonly string[]): Promise<CommandRun> {
  const written = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((chunk) => {
      written[stream] += String(chunk);
      return true;
    }),
  );
  try {
    return { exitCode: await main(argv), ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/** Runs `plan` of an example of the project. */
export function planExample(example: string, ...options: readonly string[]): Promise<CommandRun> {
  const file = join(projectRoot, "examples", `${example}.yaml`);
  return runCommand("plan", "--stack", example, "--config-file", file, ...options);
}
