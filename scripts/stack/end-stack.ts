/** The way in which every stack ends: `npx engine-room down`, and `npx engine-room expire`. */
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { openStack } from "./backend.ts";
import { requireKnownStack } from "./stack-paths.ts";

/** How a stack ended. */
export interface StackEnd {
  /** False: the stack is gone, and nobody can say whether something of it still costs money. */
  readonly isRestKnown: boolean;
}

/**
 * Stops and deletes everything of a stack, and prints what stays: documents, and of a stack on AWS what still costs money.
 *
 * @param deletesData - Whether the documents of its databases go as well.
 * @throws UserError where something could not be deleted; the state has what is left, so it can be called again. Also where the
 *   account has things of a stack that the state does not know.
 * @throws ConfigError where there is neither a file nor a state of such a stack.
 */
export async function endStack(stack: StackReference, deletesData: boolean): Promise<StackEnd> {
  requireKnownStack(stack);
  const backend = await openStack(stack);
  const operations = await operationsOf(stack);
  await operations.beforeDown(
    () => backend.record(),
    () => backend.down(),
  );
  await backend.down();
  return { isRestKnown: await operations.afterDown(deletesData) };
}
