import { Skipped } from "../ask/golden.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { errorWords } from "../errors.ts";
import { readPlan } from "../program/targets.ts";
import { smokeChecks } from "../smoke/checks.ts";
import { resultLine } from "../terminal-text.ts";
import { defineCommand } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json": "print JSON: {checks}; a check has name, outcome (ok, FAILED, skipped), milliseconds, text",
  },
  asksCluster: true,
  asksGateway: true,
  run: ({ stack, out }) =>
    withEndpoints(stack, ["triton", "databases"], async (outputs) => {
      const all = smokeChecks(readPlan(stack), outputs, process.env.ENGINE_ROOM_API_KEY);
      const width = Math.max(...all.map(({ name }) => name.length));
      const checks: { name: string; outcome: string; milliseconds: number; text: string }[] = [];
      for (const { name, run } of all) {
        const started = performance.now();
        const [outcome, text] = await run().then(
          (answer) => ["ok", answer] as const,
          (error: unknown) => [error instanceof Skipped ? "skipped" : "FAILED", errorWords(error)] as const,
        );
        const milliseconds = Math.round(performance.now() - started);
        checks.push({ name, outcome, milliseconds, text });
        out.write(resultLine(outcome, [name.padEnd(width)], milliseconds, text, out));
      }
      const count = (outcome: string) => checks.filter((check) => check.outcome === outcome).length;
      const [passed, skipped] = [count("ok"), count("skipped")];
      out.write(
        `${passed} of ${checks.length - skipped} checks passed${skipped === 0 ? "" : `, ${skipped} skipped`}.\n`,
      );
      return { json: { checks }, isOk: count("FAILED") === 0 };
    }),
});
