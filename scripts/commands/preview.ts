import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Shows what `up` would create, update, replace and delete, property by property; changes nothing.",
  usage: "[--expect-no-changes]",
  details: ["--expect-no-changes  exit code 1 when something would change"],
  options: { "expect-no-changes": { type: "boolean" } },
  async run({ stack, values }) {
    const changes = await (await openStack(stack)).preview();
    if (!changes || values["expect-no-changes"] !== true) return EXIT.ok;
    process.stderr.write("Something would change, and --expect-no-changes says that nothing should.\n");
    return EXIT.failed;
  },
};
