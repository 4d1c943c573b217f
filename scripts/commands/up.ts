import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary: "Makes the stack what its file says; what is right already is left alone.",
  usage: "[--stack NAME] [--policies]",
  details: [
    "--policies           end where a mandatory policy of the stack is broken (docs/policies.md); takes the Pulumi CLI",
  ],
  options: { policies: { type: "boolean" } },
  async run({ stack, values }) {
    await (await openStack(stack)).up({ enforcesPolicies: values.policies === true });
    return EXIT.ok;
  },
};
