/** The endpoints of a stack as they are reached from here, wherever it runs. */
import type { StackOutputs } from "../../infra/outputs.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { requireOutputs } from "../stack/backend.ts";
import type { ConnectedPart } from "./cluster-forwards.ts";
import { startPortForwards } from "./port-forwarder.ts";

/**
 * Does what needs the endpoints of a stack. Those in a cluster or on EC2 are forwarded until it is done, the gateway and what is
 * named; others are what they are.
 *
 * @throws UserError where the stack is not up, or its Services can't be forwarded.
 */
export async function withEndpoints<T>(
  stack: StackReference,
  parts: readonly ConnectedPart[],
  work: (outputs: StackOutputs) => Promise<T>,
): Promise<T> {
  const known = () => requireOutputs(stack);
  const forwarding = await (await operationsOf(stack)).forwarding(parts);
  if (forwarding === null) return work(await known());
  const outputs = await forwarding.outputs(known);
  const forwarder = await startPortForwards(
    await forwarding.commands(),
    (line) => process.stderr.write(`${line}\n`),
    forwarding.failure,
  );
  // Ctrl-C ends the process and the forwards with it; where the work handles it, the work's handler runs alone.
  const interrupt = () => {
    if (process.listenerCount("SIGINT") === 1) process.exit(INTERRUPTED_EXIT_CODE);
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    return await work(outputs);
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
    await forwarder.stop();
  }
}

/** As shells report a process that Ctrl-C ended. */
const INTERRUPTED_EXIT_CODE = 130;
