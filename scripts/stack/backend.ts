/** Who applies a stack: the Pulumi CLI where there is one, else the try-out runner. A stack has one owner at a time. */
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { operationsOf } from "../platforms/index.ts";
import type { StackReference } from "../program/stack-file.ts";
import { findPulumi } from "../setup/pulumi-cli.ts";
import { STATE_URL_VARIABLE, sharedStateUrl } from "./shared-state.ts";
import type { StackBackend } from "./stack-backend.ts";
import { assertTryoutOwns, noSuchStack, requireKnownStack, stackPaths } from "./stack-paths.ts";

/**
 * Opens a stack for whoever owns it. ENGINE_ROOM_RUNNER=tryout asks for the try-out runner though a CLI is there.
 *
 * @throws UserError when the Pulumi CLI owns the stack, or the state is shared, and the CLI is not to be found.
 */
export async function openStack(stack: StackReference): Promise<StackBackend> {
  const paths = stackPaths(stack.name);
  const pulumi = process.env.ENGINE_ROOM_RUNNER === "tryout" ? undefined : findPulumi();
  if (pulumi !== undefined) {
    const { PulumiBackend } = await import("./pulumi-backend.ts");
    return new PulumiBackend(stack, paths, pulumi);
  }
  if (sharedStateUrl() !== undefined)
    throw new UserError(
      `A shared state (${STATE_URL_VARIABLE}) takes the Pulumi CLI, and the try-out runner would make the stack a second time; put \`pulumi\` on PATH, or unset the variable.`,
    );
  assertTryoutOwns(stack.name, paths);
  const { TryoutBackend } = await import("./tryout-backend.ts");
  return new TryoutBackend(stack, paths);
}

/**
 * Outputs of a stack that is up.
 *
 * @throws UserError with the command that brings it up, when it is not; ConfigError when nothing is known of such a stack.
 */
export async function requireOutputs(stack: StackReference): Promise<StackOutputs> {
  const outputs = await (await openStack(stack)).outputs();
  if (outputs !== undefined) return outputs;
  requireKnownStack(stack);
  const { name } = stack;
  const { upCommand, mayBeKnownElsewhere } = await operationsOf(stack);
  const up = `\`npx engine-room ${upCommand} --stack ${name}\` brings it up`;
  throw new UserError(
    mayBeKnownElsewhere
      ? `${noSuchStack(name)}; ${up}, and where it is up already, ask where it was brought up, or with its ${STATE_URL_VARIABLE}.`
      : `The stack ${name} is not up; ${up}.`,
  );
}
