/** Paths of a stack's files on this machine, and the backend that owns it. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../errors.ts";
import { projectName, projectRoot, requireStackFile, type StackReference } from "../program/stack-file.ts";

/** Paths of a stack's own files, without downloads: its files, logs, and its state without a Pulumi CLI. */
interface StackPaths {
  /** `.stacks/<stack>`, as the resources name it. */
  readonly relativeDirectory: string;
  /** The same, absolute. */
  readonly directory: string;
  /** Documents of the stack's own databases, absolute; `down` leaves them. */
  readonly data: string;
  /** State of the try-out runner, which owns the stack while the file exists. */
  readonly tryoutState: string;
  /** Names the backend of Pulumi that owns the stack. */
  readonly owner: string;
  /** Folder of earlier versions for the state of each stack for the CLI. */
  readonly earlierState: string;
}

export function stackPaths(stack: string, root: string = projectRoot): StackPaths {
  const relativeDirectory = `.stacks/${stack}`;
  const directory = join(root, relativeDirectory);
  return {
    relativeDirectory,
    directory,
    data: join(root, ".data", stack),
    tryoutState: join(directory, "state.json"),
    owner: join(directory, "owner.json"),
    earlierState: join(directory, "pulumi"),
  };
}

/** Backend in which an earlier version has the stack, if any. */
export function earlierBackend(stack: string, { earlierState }: StackPaths): string | undefined {
  const state = join(earlierState, ".pulumi", "stacks", projectName(), `${stack}.json`);
  return existsSync(state) ? `file://${earlierState}` : undefined;
}

/**
 * Refuses a mistyped name, which would look like a stack that is down.
 *
 * @throws ConfigError for a stack without a file, of which this machine has neither state nor documents.
 */
export function requireKnownStack(stack: StackReference): void {
  const { directory, data } = stackPaths(stack.name);
  if (!existsSync(directory) && !existsSync(data)) requireStackFile(stack);
}

/** Pulumi's ownership of a stack, recorded beside it; undefined for no owner, or the try-out runner. */
interface Owner {
  /** Address of the backend; absent if plain `pulumi up` created the stack. */
  readonly backend?: string;
  /** File of the record, which is deleted when the stack is moved. */
  readonly record: string;
}

function readOwner(stack: string): Owner | undefined {
  const paths = stackPaths(stack);
  const earlier = earlierBackend(stack, paths);
  if (earlier !== undefined) return { backend: earlier, record: paths.earlierState };
  if (!existsSync(paths.owner)) return undefined;
  return { ...JSON.parse(readFileSync(paths.owner, "utf8")), record: paths.owner };
}

export function writeOwner({ directory, owner }: StackPaths, backend: string): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(owner, `${JSON.stringify({ owner: "Pulumi", backend }, null, 2)}\n`);
}

/** @throws UserError when a backend other than that at `url` has the stack. */
export function refuseOtherBackend(stack: string, url: string): void {
  const { backend = url, record } = readOwner(stack) ?? {};
  if (backend === url) return;
  throw new UserError(
    [
      `The stack ${stack} belongs to the backend ${backend}, and Pulumi uses ${url}.`,
      `To continue there: \`pulumi login ${backend}\`. To move it here:`,
      `  PULUMI_BACKEND_URL=${backend} pulumi stack export --stack ${stack} --file ${stack}.json`,
      `  pulumi stack init ${stack} && pulumi stack import --stack ${stack} --file ${stack}.json && rm -r ${record}`,
    ].join("\n"),
  );
}

/** @throws UserError when plain `pulumi up` created the stack in a backend, and the backend at `url` lacks it. */
export function refuseUnknownBackend(stack: string, url: string): void {
  const owner = readOwner(stack);
  if (owner === undefined || owner.backend !== undefined) return;
  throw new UserError(
    `\`pulumi up\` made the stack ${stack} in another backend than ${url}, which Pulumi uses now. Log in there (\`pulumi login\`), or, if the stack is gone, delete ${owner.record}.`,
  );
}

/** @throws UserError when the stack belongs to the Pulumi CLI. */
export function assertTryoutOwns(stack: string): void {
  const owner = readOwner(stack);
  if (owner === undefined || existsSync(stackPaths(stack).tryoutState)) return;
  const where = owner.backend === undefined ? "" : ` (its state is in ${owner.backend})`;
  const why =
    process.env.ENGINE_ROOM_RUNNER === "tryout"
      ? "Unset ENGINE_ROOM_RUNNER, which asks for the try-out runner"
      : "`pulumi` is not on PATH; install it";
  throw new UserError(
    `The stack ${stack} belongs to the Pulumi CLI${where}. ${why}, and try again. If the stack is gone, delete ${owner.record}.`,
  );
}
