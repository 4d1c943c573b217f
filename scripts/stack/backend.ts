/** Who applies a stack: the Pulumi CLI where there is one, else the try-out runner. A stack has one owner at a time. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { StackOutputs } from "../../infra/outputs.ts";
import { UserError } from "../errors.ts";
import { projectRoot, requireStackFile, type StackReference } from "../program/stack-file.ts";
import { isInCluster, isOnAws } from "../program/stack-platform.ts";
import { findPulumi } from "../setup/pulumi-cli.ts";
import { STATE_URL_VARIABLE, sharedStateUrl } from "./shared-state.ts";

export interface UpOptions {
  /** Called when nothing refuses the stack any more, before anything is changed. */
  readonly onBegin?: () => void;
  /**
   * Whether mandatory policies end it: those about single resources before each is made, those about the stack in a preview
   * that goes before. @default false
   */
  readonly enforcesPolicies?: boolean;
  /** URNs, with `**` for any text: these alone, where the Pulumi CLI has the stack. @default all */
  readonly targets?: readonly string[];
}

/** `empty`: an operation was ended before it made anything, or after it had deleted everything. */
export type StackRecord = "none" | "empty" | "resources";

export interface StackBackend {
  /** Shown to the user. */
  readonly title: string;
  /** Shows what `up` would do. @returns whether anything would change. */
  preview(): Promise<boolean>;
  /** Makes the stack what its file says, after reading what there really is. */
  up(options?: UpOptions): Promise<void>;
  /** Reads what there really is into the state. */
  refresh(): Promise<void>;
  /** What the state has of the stack; begun operations count as resources. */
  record(): Promise<StackRecord>;
  /** Deletes everything, and the state with it. */
  down(): Promise<void>;
  /** Outputs of the last `up`; undefined before the first one. */
  outputs(): Promise<StackOutputs | undefined>;
}

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
  if (!isOnAws(stack))
    throw new UserError(`The stack ${name} is not up; \`${upCommand(stack)}\` brings it up.`);
  throw new UserError(
    `${noSuchStack(name)}; \`${upCommand(stack)}\` brings it up, and where it is up already, ask where it was brought up, or with its ${STATE_URL_VARIABLE}.`,
  );
}

/** `npm start` waits for this machine, or for a Docker host. */
function upCommand(stack: StackReference): string {
  return `npm ${isOnAws(stack) || isInCluster(stack) ? "run up" : "start"} -- --stack ${stack.name}`;
}

/** Beginning of a sentence; what runs may be in another machine's state. */
export function noSuchStack(name: string): string {
  return sharedStateUrl() === undefined
    ? `This machine's state (${stackPaths(name).relativeDirectory}) has no such stack`
    : `The state that ${STATE_URL_VARIABLE} names has no stack ${name}`;
}
