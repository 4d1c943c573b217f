/** Where the files of a stack are on this machine, and which stacks it knows. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import { projectRoot, requireStackFile, type StackReference } from "../program/stack-file.ts";
import { STATE_URL_VARIABLE, sharedStateUrl } from "./shared-state.ts";

/** Where everything of a stack lies that is not a download: its state, files, logs. */
export interface StackPaths {
  /** `.stacks/<stack>`, as the resources name it. */
  readonly relativeDirectory: string;
  /** The same, absolute. */
  readonly directory: string;
  /** Documents of the stack's own databases, absolute; `down` leaves them. */
  readonly data: string;
  /** State of the try-out runner. */
  readonly tryoutState: string;
  /** File backend and configuration of the Pulumi CLI. */
  readonly pulumi: string;
}

export function stackPaths(stack: string, root: string = projectRoot): StackPaths {
  const relativeDirectory = `.stacks/${stack}`;
  const directory = join(root, relativeDirectory);
  return {
    relativeDirectory,
    directory,
    data: join(root, ".data", stack),
    tryoutState: join(directory, "state.json"),
    pulumi: join(directory, "pulumi"),
  };
}

/**
 * A name that was mistyped is no stack that is down.
 *
 * @throws ConfigError for a stack without a file, of which this machine has neither state nor documents.
 */
export function requireKnownStack(stack: StackReference): void {
  const { directory, data } = stackPaths(stack.name);
  if (!existsSync(directory) && !existsSync(data)) requireStackFile(stack);
}

/** Where the Pulumi CLI keeps the state of one stack, as it takes it, where none is shared. */
export function ownStateUrl({ pulumi }: StackPaths): string {
  return `file://${pulumi}`;
}

/** Beginning of a sentence; what runs may be in another machine's state. */
export function noSuchStack(name: string): string {
  return sharedStateUrl() === undefined
    ? `This machine's state (${stackPaths(name).relativeDirectory}) has no such stack`
    : `The state that ${STATE_URL_VARIABLE} names has no stack ${name}`;
}

/** @throws UserError when the stack belongs to the Pulumi CLI. */
export function assertTryoutOwns(stack: string, paths: StackPaths): void {
  if (!existsSync(paths.pulumi) || existsSync(paths.tryoutState)) return;
  const why =
    process.env.ENGINE_ROOM_RUNNER === "tryout"
      ? "Unset ENGINE_ROOM_RUNNER, which asks for the try-out runner"
      : "There is none on PATH; put `pulumi` there";
  throw new UserError(
    `The stack ${stack} belongs to the Pulumi CLI (its state is in ${paths.pulumi}). ${why}, and try again.`,
  );
}
