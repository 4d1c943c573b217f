import { resolve } from "node:path";
import { withEndpoints } from "../connect/connected-stack.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { SampleMark } from "../seed/samples.ts";
import { type LoadSummary, seedFolder, seedSamples } from "../seed/seed.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--from <dir>":
      "the folder: its pictures (jpg, png, webp), and captions in *.jsonl or *.ndjson (default: the sample collection)",
    "--json":
      "print JSON: {total, created, updated, unchanged, failures, stopped}; a failure has label and reason",
  },
  notes: [
    'A line of captions; all keys may be missing but one of file and text:\n  {"file": "x.jpg", "text": "A cat on a sofa.", "id": "cat-1", "metadata": {"year": 2024}}',
    "Without file it is a text alone. A picture without a line gets its file name as text. Without id the id comes from the content, so that the same command resumes a load that was interrupted.",
    "What could not be loaded is listed at the end, with file and reason; the exit code is then 1.",
    "The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY.",
  ],
  asksCluster: true,
  run: ({ stack, values }) =>
    withEndpoints(stack, [], async ({ endpoints }) => {
      const started = performance.now();
      const interrupt = new AbortController();
      const interrupted = () => interrupt.abort();
      process.once("SIGINT", interrupted);
      try {
        const options = {
          gateway: endpoints.gateway,
          apiKey: process.env.ENGINE_ROOM_API_KEY,
          signal: interrupt.signal,
        };
        const summary =
          values.from !== undefined
            ? await seedFolder(resolve(callerDirectory(), values.from), options)
            : await seedSamples(
                endpoints.mongo === null ? undefined : new SampleMark(stackPaths(stack.name).data),
                options,
              );
        if (values.json === true) printJson(summary);
        else process.stdout.write(report(summary, (performance.now() - started) / 1000));
        if (interrupt.signal.aborted) return INTERRUPTED_EXIT_CODE;
        return summary.failures.length === 0 && summary.stopped === undefined ? EXIT.ok : EXIT.failed;
      } finally {
        process.off("SIGINT", interrupted);
      }
    }),
});

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;

function report(summary: LoadSummary, seconds: number): string {
  const { total, created, updated, unchanged, failures, stopped } = summary;
  const lines = failures.map(({ label, reason }) => `FAILED ${label}: ${reason}`);
  lines.push(
    `${total} documents in ${seconds.toFixed(1)} s: ${created} created, ${updated} updated, ${unchanged} unchanged, ${failures.length} failed`,
  );
  if (stopped !== undefined) {
    const rest = total - created - updated - unchanged - failures.length;
    lines.push(`Stopped: ${stopped}. ${rest} are left; the same command goes on from there.`);
  }
  return `${lines.join("\n")}\n`;
}
