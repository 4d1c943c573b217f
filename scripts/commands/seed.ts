import { resolve } from "node:path";
import { withEndpoints } from "../connect/connected-stack.ts";
import { callerDirectory } from "../program/stack-file.ts";
import { SampleMark } from "../seed/samples.ts";
import { seedFolder, seedSamples } from "../seed/seed.ts";
import { stackPaths } from "../stack/stack-paths.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  options: {
    "--from <dir>":
      "the folder: its pictures (jpg, png, webp), and captions in *.jsonl or *.ndjson (default: the sample collection)",
    "--json":
      "print JSON: {total, created, updated, unchanged, failures, stopped}; a failure has label and reason",
  },
  notes: [
    'A line of captions; file or text is required, all other keys are optional:\n  {"file": "x.jpg", "text": "A cat on a sofa.", "id": "cat-1", "metadata": {"year": 2024}}',
    "Without file it is only a text. A picture without a line gets its file name as text. Without id the id comes from the content, so that the same command resumes a load that was interrupted.",
    "Documents that could not be loaded are listed at the end, with file and reason; the exit code is then 1.",
  ],
  asksCluster: true,
  asksGateway: true,
  run: ({ stack, values: { from } }) =>
    withEndpoints(stack, [], async ({ endpoints: { gateway, mongo } }) => {
      const started = performance.now();
      const interrupt = new AbortController();
      const interrupted = () => interrupt.abort();
      process.once("SIGINT", interrupted);
      const options = { gateway, apiKey: process.env.ENGINE_ROOM_API_KEY, signal: interrupt.signal };
      const mark = mongo === null ? undefined : new SampleMark(stackPaths(stack.name).data);
      const summary = await (from === undefined
        ? seedSamples(mark, options)
        : seedFolder(resolve(callerDirectory(), from), options)
      ).finally(() => process.off("SIGINT", interrupted));
      const { total, created, updated, unchanged, failures, stopped } = summary;
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      const rest = total - created - updated - unchanged - failures.length;
      const lines = [
        ...failures.map(({ label, reason }) => `FAILED ${label}: ${reason}`),
        `${total} documents in ${seconds} s: ${created} created, ${updated} updated, ${unchanged} unchanged, ${failures.length} failed`,
        ...(stopped === undefined
          ? []
          : [`Stopped: ${stopped}. ${rest} are left; run the same command to resume.`]),
      ];
      return {
        json: summary,
        text: `${lines.join("\n")}\n`,
        isOk: failures.length === 0 && stopped === undefined,
        // As shells report a process that Ctrl-C ended.
        ...(interrupt.signal.aborted ? { exitCode: 130 } : {}),
      };
    }),
});
