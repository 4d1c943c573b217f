import { openStack } from "../stack/backend.ts";
import { requireKnownStack } from "../stack/stack-paths.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--json": "print JSON: {stack, changes, unchanged}; a change has operation, name, type, urn",
  },
  notes: ["A resource that is gone is shown and leaves the state; the next `up` makes it again."],
  async run({ stack, values }) {
    requireKnownStack(stack);
    const changes = await (await openStack(stack)).refresh();
    if (values.json === true) printJson({ stack: stack.name, ...changes });
    return EXIT.ok;
  },
});
