import { openStack } from "../stack/backend.ts";
import { defineCommand, EXIT, printJson } from "./command.ts";

export const command = defineCommand({
  options: {
    "--diff": "every property that changes, hashes and triggers too",
    "--expect-no-changes": "exit code 1 when something would change",
    "--json":
      "print JSON: {stack, changes, unchanged}; a change has operation (create, update, replace, delete, delete-replaced), name, type, urn",
  },
  notes: ["Changes nothing."],
  async run({ stack, values }) {
    const out = values.json === true ? process.stderr : process.stdout;
    const preview = await (await openStack(stack)).preview({ isFull: values.diff === true, out });
    if (values.json === true) printJson({ stack: stack.name, ...preview });
    if (preview.changes.length === 0 || values.expectNoChanges !== true) return EXIT.ok;
    process.stderr.write("Something would change, and --expect-no-changes says that nothing should.\n");
    return EXIT.failed;
  },
});
