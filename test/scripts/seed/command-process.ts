/** `npm run seed` in a process of its own, for tests that kill it: `command-process.ts STACK [--from DIR]`. */
import { command } from "../../../scripts/commands/seed.ts";
import { stackReference } from "../../../scripts/program/stack-file.ts";

const [stack = "", , from] = process.argv.slice(2);
process.exitCode = await command.run({
  stack: stackReference(stack),
  positionals: [],
  values: from === undefined ? {} : { from },
});
