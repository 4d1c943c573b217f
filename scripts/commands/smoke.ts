import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { errorWords } from "../errors.ts";
import { readPlan } from "../program/targets.ts";
import { smokeChecks } from "../smoke/checks.ts";
import { CheckSkipped } from "../smoke/requests.ts";
import { hanging, styled } from "../terminal-text.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json": "print JSON: {checks}; a check has name, outcome (ok, FAILED, skipped), milliseconds, text",
  },
  notes: ["The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY."],
  asksCluster: true,
  run: ({ stack, values }) =>
    withEndpoints(stack, ["triton", "databases"], async (outputs) => {
      const out = values.json === true ? process.stderr : process.stdout;
      const results = await smoke(readPlan(stack), outputs, out);
      if (values.json === true) printJson({ checks: results });
      return results.some(({ outcome }) => outcome === "FAILED") ? EXIT.failed : EXIT.ok;
    }),
});

interface SmokeResult {
  readonly name: string;
  readonly outcome: "ok" | "FAILED" | "skipped";
  readonly milliseconds: number;
  readonly text: string;
}

const STYLES = { ok: "ok", FAILED: "failed", skipped: "skipped" } as const;

/** Prints each result on `out` as soon as it is known. */
async function smoke(
  plan: StackPlan,
  outputs: StackOutputs,
  out: NodeJS.WriteStream,
): Promise<readonly SmokeResult[]> {
  const checks = smokeChecks(plan, outputs, process.env.ENGINE_ROOM_API_KEY);
  const width = Math.max(...checks.map((check) => check.name.length));
  const results: SmokeResult[] = [];
  for (const check of checks) {
    const started = performance.now();
    const { outcome, text } = await check.run().then(
      (answer) => ({ outcome: "ok", text: answer }) as const,
      (error: unknown) =>
        ({
          outcome: error instanceof CheckSkipped ? "skipped" : "FAILED",
          text: errorWords(error),
        }) as const,
    );
    const milliseconds = Math.round(performance.now() - started);
    results.push({ name: check.name, outcome, milliseconds, text });
    const sign = styled(STYLES[outcome], outcome.padEnd(7), out);
    const head = `${sign} ${check.name.padEnd(width)} ${String(milliseconds).padStart(6)} ms  `;
    out.write(`${hanging(head, text, out)}\n`);
  }
  const count = (outcome: SmokeResult["outcome"]) =>
    results.filter((result) => result.outcome === outcome).length;
  const skipped = count("skipped");
  out.write(
    `${count("ok")} of ${checks.length - skipped} checks passed${skipped === 0 ? "" : `, ${skipped} skipped`}.\n`,
  );
  return results;
}
