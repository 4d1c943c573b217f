import type { StackOutputs } from "../../infra/outputs.ts";
import type { StackPlan } from "../../infra/plan/stack-plan.ts";
import { withEndpoints } from "../connect/connected-stack.ts";
import { errorWords } from "../errors.ts";
import { readPlan } from "../program/docker-target.ts";
import { smokeChecks } from "../smoke/checks.ts";
import { CheckSkipped } from "../smoke/requests.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Sends a real request to every endpoint of the stack, a line each.",
  usage: "",
  details: ["The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY."],
  asksCluster: true,
  run: ({ stack }) =>
    withEndpoints(stack, ["triton", "databases"], (outputs) => smoke(readPlan(stack), outputs)),
};

async function smoke(plan: StackPlan, outputs: StackOutputs): Promise<number> {
  const checks = smokeChecks(plan, outputs, process.env.ENGINE_ROOM_API_KEY);
  const width = Math.max(...checks.map((check) => check.name.length));
  const counts: Record<Sign, number> = { ok: 0, FAILED: 0, skipped: 0 };
  for (const check of checks) {
    const started = performance.now();
    const outcome = await check.run().then(
      (text): Outcome => ({ sign: "ok", text }),
      (error: unknown): Outcome => ({
        sign: error instanceof CheckSkipped ? "skipped" : "FAILED",
        text: errorWords(error),
      }),
    );
    counts[outcome.sign] += 1;
    const milliseconds = (performance.now() - started).toFixed(0).padStart(6);
    process.stdout.write(
      `${outcome.sign.padEnd(7)} ${check.name.padEnd(width)} ${milliseconds} ms  ${outcome.text}\n`,
    );
  }
  const skipped = counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`;
  process.stdout.write(`${counts.ok} of ${checks.length - counts.skipped} checks passed${skipped}.\n`);
  return counts.FAILED === 0 ? EXIT.ok : EXIT.failed;
}

type Sign = "ok" | "FAILED" | "skipped";

interface Outcome {
  readonly sign: Sign;
  readonly text: string;
}
