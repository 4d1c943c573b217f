import { openStack } from "../stack/backend.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  options: {
    "--diff": "every property that changes, hashes and triggers too",
    "--expect-no-changes": "exit code 1 when something would change",
  },
  notes: ["Changes nothing."],
  async run({ stack, values }) {
    const changes = await (await openStack(stack)).preview({ isFull: values.diff === true });
    if (!changes || values.expectNoChanges !== true) return EXIT.ok;
    process.stderr.write("Something would change, and --expect-no-changes says that nothing should.\n");
    return EXIT.failed;
  },
});
