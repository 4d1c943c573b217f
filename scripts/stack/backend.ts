/** The owner of a stack, only one at a time: the Pulumi CLI if installed, otherwise the try-out runner. */
import { existsSync } from "node:fs";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { findProgram, noSuchStack } from "./pulumi-cli.ts";
import type { StackChanges } from "./reporter.ts";
import { assertTryoutOwns, requireKnownStack, stackPaths } from "./stack-paths.ts";
import type { StackBackend } from "./state.ts";

/**
 * Opens a stack for its owner. ENGINE_ROOM_RUNNER=tryout selects the try-out runner even if a CLI is installed.
 *
 * @param operation - An `up` with a CLI moves a stack of the try-out runner to the CLI's backend; all other operations leave it where it
 * is.
 * @throws UserError when the Pulumi CLI owns the stack and is not found.
 */
export async function openStack(
  stack: StackReference,
  operation: "up" | "other" = "other",
): Promise<StackBackend> {
  const pulumi = process.env.ENGINE_ROOM_RUNNER === "tryout" ? undefined : findProgram("pulumi");
  const isOfTryout = operation === "other" && existsSync(stackPaths(stack.name).tryoutState);
  if (pulumi !== undefined && !isOfTryout) {
    const { PulumiBackend } = await import("./pulumi-backend.ts");
    return new PulumiBackend(stack, pulumi);
  }
  assertTryoutOwns(stack.name);
  const { TryoutBackend } = await import("../tryout/backend.ts");
  return new TryoutBackend(stack);
}

/**
 * Outputs of a stack that is up.
 *
 * @throws UserError with the command that starts the stack, when it is down; ConfigError for an unknown stack.
 */
export async function requireOutputs(stack: StackReference): Promise<StackOutputs> {
  const outputs = await (await openStack(stack)).outputs();
  if (outputs !== undefined) return outputs;
  requireKnownStack(stack);
  const { name } = stack;
  const { upCommand, isRented } = await operationsOf(stack);
  const up = `\`npx engine-room ${upCommand} --stack ${name}\` brings it up`;
  throw new UserError(
    isRented
      ? `${noSuchStack(name)}; ${up}. If it is up already, log in to the backend that has it (\`pulumi login\`, or PULUMI_BACKEND_URL).`
      : `The stack ${name} is not up; ${up}.`,
  );
}

/** Result of the end of a stack. */
interface StackEnd {
  /** False: the stack is gone, and some of its resources may still cost money. */
  readonly isRestKnown: boolean;
  readonly changes: StackChanges;
}

/**
 * Stops and deletes a stack, and prints the rest: documents, and on AWS resources that still cost money.
 *
 * @param deletesData - Whether the documents of its databases are deleted as well.
 * @param out - Stream for the list of remaining costs.
 * @throws UserError if something could not be deleted; the state has the rest, so it can be called again. Also if the account has
 * resources of a stack that are missing from the state.
 * @throws ConfigError for a stack without file and state.
 */
export async function endStack(
  stack: StackReference,
  deletesData: boolean,
  out: NodeJS.WriteStream,
): Promise<StackEnd> {
  requireKnownStack(stack);
  const backend = await openStack(stack);
  const operations = await operationsOf(stack);
  await operations.beforeDown(
    () => backend.record(),
    async () => void (await backend.down()),
  );
  const changes = await backend.down();
  return { isRestKnown: await operations.afterDown(deletesData, out), changes };
}
