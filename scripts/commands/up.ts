import { UsageError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Makes the stack what its file says; what is right already is left alone.",
  usage: "[--registries] [--policies]",
  details: [
    "--registries         of a stack on AWS the repositories of its images alone, which take images before all else is made",
    "--policies           end where a mandatory policy of the stack is broken (docs/policies.md); takes the Pulumi CLI",
  ],
  options: { registries: { type: "boolean" }, policies: { type: "boolean" } },
  async run({ stack, values }) {
    const operations = await operationsOf(stack);
    const isForRegistries = values.registries === true;
    const targets = isForRegistries ? operations.registries : [];
    if (targets === null) throw new UsageError("--registries is for stacks of `platform: aws`.");
    if (isForRegistries) process.env.ENGINE_ROOM_ONLY_REGISTRIES = "1";
    await (await openStack(stack)).up({ targets, enforcesPolicies: values.policies === true });
    if (!isForRegistries) await operations.afterUp();
    return EXIT.ok;
  },
};
