/** How a container that runs once has ended. Pure. */

interface TaskEnd {
  /** Name of the container. */
  readonly name: string;
  /** Absent while it runs: the wait for it was given up. */
  readonly exitCode: number | null | undefined;
  /** Both streams; absent where nobody waited until its end. */
  readonly logs: string | null | undefined;
  /** What must not be shown. */
  readonly secrets: readonly string[];
}

const SHOWN_LINES = 20;
const LONGEST_LINE = 400;

/** Exit codes that a program does not choose itself: https://docs.docker.com/engine/containers/run/#exit-status */
const MEANINGS: Readonly<Record<number, string>> = {
  125: "Docker itself failed",
  126: "its command can't be run",
  127: "its command is not in the image",
  137: "it was killed, most often because the memory was used up",
  139: "it crashed",
  143: "it was stopped",
};

/** What is wrong with a task that has ended, in words for the one who ran `up`; undefined where nothing is. */
export function taskFailure({ name, exitCode, logs, secrets }: TaskEnd): string | undefined {
  if (exitCode === 0) return undefined;
  const lines = lastLines(logs ?? "", secrets);
  const quoted = lines.length === 0 ? "" : ` Its last lines:\n${lines.join("\n")}\n`;
  return (
    `The container ${name} ${ending(exitCode)}.${quoted === "" ? " " : quoted}` +
    `\`docker logs ${name}\` on the host shows all of it; \`npm run up\` runs it again.`
  );
}

function ending(exitCode: number | null | undefined): string {
  if (typeof exitCode !== "number") return "did not end in the time it has";
  const meaning = MEANINGS[exitCode];
  return `ended with exit code ${exitCode}${meaning === undefined ? "" : ` (${meaning})`}`;
}

function lastLines(logs: string, secrets: readonly string[]): string[] {
  let text = logs;
  for (const secret of secrets) if (secret !== "") text = text.replaceAll(secret, "[secret]");
  // A progress bar writes one line over itself; its last state is what was to be seen.
  const lines = text.split("\n").map((line) => line.replace(/\r$/, "").split("\r").at(-1) ?? "");
  return lines
    .filter((line) => line.trim() !== "")
    .slice(-SHOWN_LINES)
    .map((line) => `  ${line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line}`);
}
