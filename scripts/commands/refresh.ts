import { openStack } from "../stack/backend.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { defineCommand, EXIT } from "./command.ts";

export const command = defineCommand({
  notes: ["A resource that is gone is shown and leaves the state; the next `up` makes it again."],
  async run({ stack }) {
    requireKnownStack(stack);
    await (await openStack(stack)).refresh();
    return EXIT.ok;
  },
});
