/**
 * Containers of a stack: a task that `up` waits for, and a service that `up` starts. Cost: none but the host's; a build takes
 * minutes to hours of its GPU, a Triton with a language model its share of one or memory, a gateway about 100 MiB.
 */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import { type ContainerRole, isTask } from "../../infra/plan/containers/container.ts";
import { type DockerContainer, FILE_PERMISSIONS } from "../../infra/plan/docker/container-args.ts";
import type { SecretName } from "../../infra/plan/docker/host.ts";

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
interface Predecessor {
  readonly component: StackContainer;
  /** Whether a task needs the GPU of this service: the service is deleted before the task is replaced, and created after it. */
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

/** Spare time of a wait for the provider's own work: to look up an image, and to create and read a container. */
const SPARE_SECONDS = 300;

/** A container that `up` waits for: a task until it has ended with exit code 0, a service until it is healthy. */
export class StackContainer extends pulumi.ComponentResource {
  readonly container: docker.Container;
  /** Id of the container, once it has ended with exit code 0; null for a service. */
  readonly finished: pulumi.Output<string> | null;

  constructor(name: string, args: ContainerComponentArgs, opts?: pulumi.ComponentResourceOptions) {
    const { container } = args.planned;
    super(TYPES[container.role], name, {}, opts);

    this.container = createContainer(name, args, this);
    this.finished = isTask(container) ? this.#checkedId(`${name}-container`, args) : null;
    this.registerOutputs({ containerId: this.container.id });
  }

  /** The provider takes any exit code for success, so this is where a failed task ends `up`. */
  #checkedId(resource: string, { planned, secrets }: ContainerComponentArgs): pulumi.Output<string> {
    const { id, exitCode, containerLogs: logs } = this.container;
    const values = Object.values(planned.secretFiles).map((name) => secrets[name] ?? "");
    // Only the id is returned, which is not secret.
    return pulumi.unsecret(pulumi.output({ id, exitCode, logs, secrets: values })).apply((end) => {
      const failure = taskFailure({ ...end, name: planned.args.name, resource });
      if (failure === undefined) return end.id;
      const error = new pulumi.RunError(failure);
      // The SDK prints the stack trace of an error that ends the program; it does not help with a failed build.
      error.stack = "";
      throw error;
    });
  }
}

function createContainer(
  name: string,
  { planned, image, network, volumes, secrets, after }: ContainerComponentArgs,
  parent: pulumi.Resource,
): docker.Container {
  const { args, container } = planned;
  const waitSeconds = Math.ceil(container.timeoutSeconds ?? args.waitTimeout ?? 0);
  const sharers = after.flatMap(({ component: { finished }, needsItsGpu }) =>
    needsItsGpu && finished !== null ? [finished] : [],
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
      // No property refers to a task: services that only start after it remain while it is replaced.
      dependsOn: after.map(({ component: { container, finished } }) =>
        finished === null ? container : finished.apply(() => container),
      ),
      // The old container holds its name and ports.
      deleteBeforeReplace: true,
      // Docker can't change the first two, although the provider reports success; the last property is the engine's name for a container
      // that was created and never became healthy, or did not end in time.
      replaceOnChanges: ["healthcheck", "tmpfs", "#initerror"],
      customTimeouts: { create: `${waitSeconds + SPARE_SECONDS}s` },
      // The program of a task has secrets, and may print them.
      additionalSecretOutputs: isTask(container) ? ["containerLogs"] : [],
    },
  );
}

/** Files of the plan and files with secrets, sorted by path; all are secret in state and diffs. */
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
  // The provider keeps them as a set, so a mark on one file could move to another.
  return { uploads: pulumi.secret(all) };
}

/**
 * The image's id, in an input that refers to tasks: the engine deletes resources that have such an input, and could not keep them
 * without its value, before it replaces one of the tasks' containers.
 */
function imageAfter(finished: pulumi.Output<string>[], image: pulumi.Input<string>): pulumi.Input<string> {
  if (finished.length === 0) return image;
  return pulumi.all([image, pulumi.all(finished)]).apply(([id]) => id);
}

interface TaskEnd {
  /** Name of the container. */
  readonly name: string;
  /** Name of its resource. */
  readonly resource: string;
  /** Absent while it runs: the wait for it was given up. */
  readonly exitCode: number | null | undefined;
  /** Both streams; absent if the wait for its end was given up. */
  readonly logs: string | null | undefined;
  /** Values that must not be shown. */
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

/** The failure of a task that has ended, for users of `up`; undefined if it succeeded. */
export function taskFailure({ name, resource, exitCode, logs, secrets }: TaskEnd): string | undefined {
  if (exitCode === 0) return undefined;
  const meaning = MEANINGS[exitCode ?? 0];
  const ending =
    typeof exitCode === "number"
      ? `ended with exit code ${exitCode}${meaning === undefined ? "" : ` (${meaning})`}`
      : "did not end in the time it has";
  const lines = lastLines(logs ?? "", secrets);
  const quoted = lines.length === 0 ? " " : ` Its last lines:\n${lines.join("\n")}\n`;
  return `The container ${name} ${ending}.${quoted}\`docker logs ${name}\` on the host shows all of it; \`npx engine-room up\` runs it again, as \`pulumi up --replace '**::${resource}'\` does.`;
}

function lastLines(logs: string, secrets: readonly string[]): string[] {
  const text = secrets.reduce(
    (hidden, secret) => (secret === "" ? hidden : hidden.replaceAll(secret, "[secret]")),
    logs,
  );
  return (
    text
      .split("\n")
      // A progress bar overwrites its line.
      .map((line) => line.replace(/\r$/, "").split("\r").at(-1) ?? "")
      .filter((line) => line.trim() !== "")
      .slice(-SHOWN_LINES)
      .map((line) => `  ${line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line}`)
  );
}
