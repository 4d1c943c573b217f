/**
 * Containers of a stack: a task that `up` waits for, and a service that `up` starts. Cost: none but the host's; a build takes
 * minutes to hours of its GPU, a Triton with a language model its share of one or memory, a gateway about 100 MiB.
 */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import type { ContainerRole } from "../../infra/plan/containers/container.ts";
import type { DockerContainer } from "../../infra/plan/docker/container-args.ts";
import type { SecretName } from "../../infra/plan/docker/types.ts";

interface ContainerComponentArgs {
  readonly planned: DockerContainer;
  /** Id of the image, as the host's engine has it. */
  readonly image: pulumi.Input<string>;
  /** Name of the stack's network. */
  readonly network: pulumi.Input<string>;
  /** Names of the stack's volumes, by themselves: a container that mounts one waits for it. */
  readonly volumes: Readonly<Record<string, pulumi.Input<string>>>;
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
  readonly after: readonly Predecessor[];
}

/** A task that must have ended with success, or a service that must run. */
export interface Predecessor {
  readonly component: TaskContainer | ServiceContainer;
  /** Whether a task needs the GPU that this service has: the service goes before the task is made anew, and comes back after it. */
  readonly needsItsGpu: boolean;
}

const TYPES: Readonly<Record<ContainerRole, string>> = {
  engineBuild: "engine-room:docker:EngineBuild",
  encoderBuild: "engine-room:docker:EncoderBuild",
  triton: "engine-room:docker:TritonServer",
  encoders: "engine-room:docker:Encoders",
  gateway: "engine-room:docker:Gateway",
  mongo: "engine-room:docker:Database",
  vector: "engine-room:docker:Database",
};

/** For the provider's own work around a wait: an image to look up, a container to make and to read back. */
const SPARE_SECONDS = 300;

/** Files of the plan are readable by all users of the container, as are those with secrets. */
const FILE_PERMISSIONS = "0444";

/** A container that runs once. Everything after it waits for its exit code to be 0. */
export class TaskContainer extends pulumi.ComponentResource {
  /** Id of the container, once it has ended with exit code 0. */
  readonly finished: pulumi.Output<string>;
  readonly container: docker.Container;

  constructor(name: string, args: ContainerComponentArgs, opts?: pulumi.ComponentResourceOptions) {
    super(TYPES[args.planned.container.role], name, {}, opts);

    this.container = createContainer(name, args, this, {
      createSeconds: Math.ceil(args.planned.container.timeoutSeconds ?? 0) + SPARE_SECONDS,
      // The program has secrets, and may print them.
      additionalSecretOutputs: ["containerLogs"],
    });
    this.finished = this.#checkedId(args);
    this.registerOutputs({ containerId: this.container.id });
  }

  /** The provider takes any exit code for success, so this is where a failed task ends `up`. */
  #checkedId({ planned, secrets }: ContainerComponentArgs): pulumi.Output<string> {
    const { id, exitCode, containerLogs } = this.container;
    const names = Object.values(planned.secretFiles);
    const hidden = pulumi.output(names.map((name) => secrets[name] ?? ""));
    // The id alone comes out of it, and that is no secret.
    return pulumi
      .unsecret(pulumi.all([id, exitCode, containerLogs, hidden]))
      .apply(([id, code, logs, values]) => {
        const failure = taskFailure({ name: planned.args.name, exitCode: code, logs, secrets: values });
        if (failure !== undefined) throw withoutStack(failure);
        return id;
      });
  }
}

/** A container that runs until it is removed. With a health check, it is made when it is healthy. */
export class ServiceContainer extends pulumi.ComponentResource {
  readonly container: docker.Container;

  constructor(name: string, args: ContainerComponentArgs, opts?: pulumi.ComponentResourceOptions) {
    super(TYPES[args.planned.container.role], name, {}, opts);

    this.container = createContainer(name, args, this, {
      createSeconds: (args.planned.args.waitTimeout ?? 0) + SPARE_SECONDS,
    });
    this.registerOutputs({ containerId: this.container.id });
  }
}

interface ContainerOptions {
  readonly createSeconds: number;
  readonly additionalSecretOutputs?: string[];
}

function createContainer(
  name: string,
  { planned, image, network, volumes, secrets, after }: ContainerComponentArgs,
  parent: pulumi.Resource,
  { createSeconds, additionalSecretOutputs = [] }: ContainerOptions,
): docker.Container {
  const { args } = planned;
  const sharers = after.flatMap(({ component, needsItsGpu }) =>
    needsItsGpu && component instanceof TaskContainer ? [component] : [],
  );
  return new docker.Container(
    `${name}-container`,
    {
      ...args,
      image: imageAfter(sharers, image),
      networksAdvanced: args.networksAdvanced.map((attached) => ({ ...attached, name: network })),
      mounts: args.mounts.map((mount) => ({ ...mount, source: volumes[mount.source ?? ""] ?? mount.source })),
      ...uploads(planned, secrets),
    },
    {
      parent,
      dependsOn: after.map(({ component }) => whenReady(component)),
      // Name and ports are taken as long as the old one is there.
      deleteBeforeReplace: true,
      // Docker can't change them, and the provider says that it did.
      replaceOnChanges: ["healthcheck", "tmpfs"],
      customTimeouts: { create: `${createSeconds}s` },
      additionalSecretOutputs,
    },
  );
}

/** Files with secrets among those of the plan, sorted by path: state and diffs then show none of them. */
function uploads(
  { args, secretFiles }: DockerContainer,
  secrets: ContainerComponentArgs["secrets"],
): Pick<docker.ContainerArgs, "uploads"> {
  if (Object.keys(secretFiles).length === 0) return {};
  const withSecrets = Object.entries(secretFiles).map(([file, secret]) => {
    const content = secrets[secret];
    if (content === undefined)
      throw new Error(`No value for the secret ${secret} of the container ${args.name}`);
    return { file, content, permissions: FILE_PERMISSIONS };
  });
  const all = [...(args.uploads ?? []), ...withSecrets].sort((a, b) => (a.file < b.file ? -1 : 1));
  // The provider keeps them as a set, so a mark on one of them could end up on another.
  return { uploads: pulumi.secret(all) };
}

/** No property refers to the task: what only comes after one stays where it is while the task is made anew. */
function whenReady(component: TaskContainer | ServiceContainer): pulumi.Input<pulumi.Resource> {
  if (component instanceof ServiceContainer) return component.container;
  return component.finished.apply(() => component.container);
}

/**
 * The image's id, in an input that refers to tasks: the engine deletes resources that have such an input, and could not keep them
 * without its value, before it replaces one of the tasks' containers.
 */
function imageAfter(tasks: readonly TaskContainer[], image: pulumi.Input<string>): pulumi.Input<string> {
  if (tasks.length === 0) return image;
  const finished = pulumi.all(tasks.map((task) => task.finished));
  return pulumi.all([image, finished]).apply(([id]) => id);
}

/** The SDK prints the stack trace of an error that ends the program; it does not help with a failed build. */
function withoutStack(message: string): Error {
  const error = new pulumi.RunError(message);
  error.stack = "";
  return error;
}

interface TaskEnd {
  /** Name of the container. */
  readonly name: string;
  /** Absent while it runs: the wait for it was given up. */
  readonly exitCode: number | null | undefined;
  /** Both streams; absent where the wait for its end was given up. */
  readonly logs: string | null | undefined;
  /** What must not be shown. */
  readonly secrets: readonly string[];
}

const SHOWN_LINES = 20;
const LONGEST_LINE = 400;

/** Exit codes that a program does not choose itself: https://docs.docker.com/engine/containers/run/#exit-status */
const MEANINGS: Readonly<Record<number, string>> = {
  125: "Docker itself failed",
  126: "its command can't be run",
  127: "its command is not in the image",
  137: "it was killed, most often because the memory was used up",
  139: "it crashed",
  143: "it was stopped",
};

/** What is wrong with a task that has ended, in words for the one who ran `up`; undefined where nothing is. */
export function taskFailure({ name, exitCode, logs, secrets }: TaskEnd): string | undefined {
  if (exitCode === 0) return undefined;
  const lines = lastLines(logs ?? "", secrets);
  const quoted = lines.length === 0 ? "" : ` Its last lines:\n${lines.join("\n")}\n`;
  return (
    `The container ${name} ${ending(exitCode)}.${quoted === "" ? " " : quoted}` +
    `\`docker logs ${name}\` on the host shows all of it; \`npm run up\` runs it again.`
  );
}

function ending(exitCode: number | null | undefined): string {
  if (typeof exitCode !== "number") return "did not end in the time it has";
  const meaning = MEANINGS[exitCode];
  return `ended with exit code ${exitCode}${meaning === undefined ? "" : ` (${meaning})`}`;
}

function lastLines(logs: string, secrets: readonly string[]): string[] {
  let text = logs;
  for (const secret of secrets) if (secret !== "") text = text.replaceAll(secret, "[secret]");
  // A progress bar writes one line over itself; its last state is what was to be seen.
  const lines = text.split("\n").map((line) => line.replace(/\r$/, "").split("\r").at(-1) ?? "");
  return lines
    .filter((line) => line.trim() !== "")
    .slice(-SHOWN_LINES)
    .map((line) => `  ${line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line}`);
}
