import { lastLines, runCommand } from "../../../components/local/provider/commands.ts";

interface RunOptions {
  readonly cwd?: string;
  readonly environment?: NodeJS.ProcessEnv;
  readonly onLine?: (line: string) => void;
}

/** PATH with the folders of Debian's own programs first: their Docker CLI goes with their engine. */
export function systemPath(environment: NodeJS.ProcessEnv = process.env): string {
  return `/usr/local/sbin:/usr/sbin:/usr/bin:${environment.PATH}`;
}

/**
 * Runs a program of this machine, with the lowest claim on its cores. Ends with this process.
 *
 * @returns The last lines of its standard output.
 * @throws Error with the last lines that it printed, when it fails or does not end in time.
 */
export async function run(
  argv: readonly string[],
  timeoutSeconds: number,
  options: RunOptions = {},
): Promise<string> {
  const { cwd = "/", environment = process.env, onLine = () => {} } = options;
  const { exitCode, stdout, stderr, timedOut } = await runCommand(["nice", "-n", "10", ...argv], {
    cwd,
    environment: { ...environment, PATH: systemPath(environment) },
    timeoutSeconds,
    onLine,
  });
  if (exitCode === 0) return stdout;
  const outcome = timedOut ? `did not end within ${timeoutSeconds} s` : `ended with ${exitCode}`;
  throw new Error(`\`${argv.slice(0, 3).join(" ")}\` ${outcome}: ${lastLines(stderr || stdout, 30)}`);
}
