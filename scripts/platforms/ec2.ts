/** Stacks on one machine of EC2, which runs the containers of a Docker host. */
import { edgePlan } from "../../infra/plan/aws/edge.ts";
import { instancePlan } from "../../infra/plan/aws/machine/instance.ts";
import { shellLine } from "../../infra/plan/engine/shell-line.ts";
import {
  awaitCommands,
  awaitTarget,
  changeMachine,
  requireMachine,
  stackMachine,
  terminalSession,
} from "../aws/machine.ts";
import { forwards, localEndpoints, sessionForwards, wantedEndpoints } from "../connect/forwards.ts";
import { serviceName } from "../docker-host/service-states.ts";
import { type InstanceTarget, readAwsTarget, readInstanceTarget } from "../program/targets.ts";
import { asleepLine, awsOperations } from "./aws.ts";
import { HERE, type Operations, type StackSource, type StatusReport } from "./operations.ts";

export function operations(source: StackSource): Operations {
  const target = () => readInstanceTarget(source.stack);
  return {
    ...awsOperations(source),
    logged: "containers",
    status: () => status(target()),
    /**
     * Of the containers that the stack file wants: Docker says where the machine lacks one. A session is that of `ssm-user`, whom
     * the agent puts among the sudoers; where an account's sessions have another user, that user must be allowed the same.
     * https://github.com/aws/amazon-ssm-agent/releases/tag/2.3.68.0
     */
    async logs() {
      const { stack, context } = target();
      const id = await requireMachine(context);
      return new Map(
        stack.containers.map(({ args: { name } }) => [
          serviceName(source.stack.name, name),
          ({ lines, follow }) => ({
            argv: terminalSession(
              context.region,
              id,
              `sudo docker logs --tail ${lines}${follow ? " --follow" : ""} ${name}`,
            ),
          }),
        ]),
      );
    },
    async forwarding(parts) {
      const { stack, context } = target();
      const addresses = await forwards(wantedEndpoints(stack.endpoints, parts, /(^|\/)127\.0\.0\.1:/));
      return {
        addresses,
        where: "ON THE MACHINE",
        commands: async () => sessionForwards(context.region, await requireMachine(context), addresses),
        // The load balancer may answer its own network alone; a session reaches the gateway in any case.
        outputs: async (known) => ({
          ...(await known()),
          endpoints: { ...localEndpoints(stack.endpoints, addresses), ...HERE },
        }),
      };
    },
    async sleep(print) {
      const { context, plan } = readAwsTarget(source.stack);
      print(await changeMachine(context, "sleep"));
      print(asleepLine(plan, source.stack.name));
    },
    async wake() {
      const { context } = readAwsTarget(source.stack);
      return { text: await changeMachine(context, "wake"), isComplete: true };
    },
    /** `up` ends when the machine says that all was done there, and the load balancer sends requests to it. */
    async afterUp() {
      const { plan, context, stack } = target();
      await awaitCommands(context, instancePlan(plan, stack, context).tasks);
      await awaitTarget(context, edgePlan(plan, context));
    },
  };
}

/** State of the machine; only a session on it shows what runs there. */
async function status({ context }: InstanceTarget): Promise<StatusReport> {
  const { region, stack } = context;
  const machine = await stackMachine(context);
  if (machine === null) {
    const text = `The stack ${stack} has no machine in ${region}; \`npx engine-room up --stack ${stack}\` makes it.\n`;
    return { services: [], isHealthy: false, text };
  }
  const { id, type, state } = machine;
  const isRunning = state === "running";
  const containers = terminalSession(region, id, "sudo docker compose -p engine-room ps --all");
  const next = isRunning
    ? `What runs on it:\n${shellLine(containers)}`
    : `\`npx engine-room wake --stack ${stack}\` starts it.`;
  return {
    services: [{ name: "machine", id, type, state }],
    isHealthy: isRunning,
    text: `machine ${id} ${type} in ${region}: ${state}\n${next}\n`,
  };
}
