import { smokeChecks } from "../smoke/checks.ts";
import { requireOutputs } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Sends a real request to every endpoint of the stack, a line each.",
  usage: "[--stack NAME]",
  details: ["The key of a gateway that asks for one is read from ENGINE_ROOM_API_KEY."],
  async run({ stack }) {
    const outputs = await requireOutputs(stack);
    const checks = smokeChecks(outputs, process.env.ENGINE_ROOM_API_KEY);
    const width = Math.max(...checks.map((check) => check.name.length));
    let failed = 0;
    for (const check of checks) {
      const started = performance.now();
      const outcome = await check.run().then(
        (text) => ({ sign: "ok    ", text }),
        (error: unknown) => ({ sign: "FAILED", text: reasonOf(error) }),
      );
      if (outcome.sign === "FAILED") failed += 1;
      const milliseconds = (performance.now() - started).toFixed(0).padStart(6);
      process.stdout.write(
        `${outcome.sign} ${check.name.padEnd(width)} ${milliseconds} ms  ${outcome.text}\n`,
      );
    }
    process.stdout.write(
      `${checks.length - failed} of ${checks.length} endpoints answered as they should.\n`,
    );
    return failed === 0 ? EXIT.ok : EXIT.failed;
  },
};

/** `fetch failed` alone helps nobody; its cause says what happened to the connection. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}
