import { edgePlan } from "../../infra/plan/aws/edge.ts";
import { instancePlan } from "../../infra/plan/aws/machine/instance-plan.ts";
import { awaitTarget } from "../aws/load-balancer.ts";
import { awaitCommands } from "../aws/machine-commands.ts";
import { UsageError } from "../errors.ts";
import { isOnInstance, readInstanceTarget } from "../program/instance-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { isOnAws } from "../program/stack-platform.ts";
import { openStack } from "../stack/backend.ts";
import { type Command, EXIT } from "./command.ts";

/** The provider, and all that the component of the repositories has. */
const REGISTRIES = ["**pulumi:providers:aws::**", "**engine-room:aws:Registries**"] as const;

export const command: Command = {
  summary: "Makes the stack what its file says; what is right already is left alone.",
  usage: "[--registries] [--policies]",
  details: [
    "--registries         of a stack on AWS the repositories of its images alone, which take images before all else is made",
    "--policies           end where a mandatory policy of the stack is broken (docs/policies.md); takes the Pulumi CLI",
  ],
  options: { registries: { type: "boolean" }, policies: { type: "boolean" } },
  async run({ stack, values }) {
    const isForRegistries = values.registries === true;
    if (isForRegistries) {
      if (!isOnAws(stack)) throw new UsageError("--registries is for stacks of `platform: aws`.");
      process.env.ENGINE_ROOM_ONLY_REGISTRIES = "1";
    }
    await (await openStack(stack)).up({
      targets: isForRegistries ? REGISTRIES : [],
      enforcesPolicies: values.policies === true,
    });
    if (!isForRegistries && isOnInstance(stack)) await awaitMachine(stack);
    return EXIT.ok;
  },
};

/** It ends when the machine itself says that all of it was done there, and the load balancer sends requests to it. */
async function awaitMachine(reference: StackReference): Promise<void> {
  const { plan, context, stack } = readInstanceTarget(reference);
  process.stderr.write(await awaitCommands(context, instancePlan(plan, stack, context).tasks));
  process.stderr.write(await awaitTarget(context, edgePlan(plan, context)));
}
