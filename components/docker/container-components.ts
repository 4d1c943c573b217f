/** What all containers of a host have in common: a task that `up` waits for, a service that `up` starts. */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import { readySeconds } from "../../infra/plan/docker/ready-seconds.ts";
import type { ContainerRole, DockerContainer } from "../../infra/plan/docker/types.ts";
import { type ContainerPlacement, containerArgs } from "./container-args.ts";
import { taskFailure } from "./task-result.ts";

/** What a container comes after: a task that must have ended with success, or a service that must run. */
export interface Predecessor {
  readonly component: TaskContainer | ServiceContainer;
  /** Whether a task needs the GPU that this service has: the service goes before the task is made anew, and comes back after it. */
  readonly needsItsGpu: boolean;
}

export interface ContainerComponentArgs<Role extends ContainerRole> extends ContainerPlacement {
  readonly container: DockerContainer & { readonly role: Role };
  readonly after: readonly Predecessor[];
}

/** For the provider's own work around a wait: an image to look up, a container to make and to read back. */
const SPARE_SECONDS = 300;

/** A container that runs once. Everything after it waits for its exit code to be 0. */
export abstract class TaskContainer extends pulumi.ComponentResource {
  /** Id of the container, once it has ended with exit code 0. */
  readonly finished: pulumi.Output<string>;
  readonly container: docker.Container;

  protected constructor(
    type: string,
    name: string,
    args: ContainerComponentArgs<ContainerRole>,
    opts: pulumi.ComponentResourceOptions | undefined,
  ) {
    super(type, name, {}, opts);

    this.container = createContainer(name, args, this, {
      createSeconds: Math.ceil(args.container.timeoutSeconds ?? 0) + SPARE_SECONDS,
      // Whatever a program says of itself, and it is handed secrets.
      additionalSecretOutputs: ["containerLogs"],
    });
    this.finished = this.#checkedId(args);
    this.registerOutputs({ containerId: this.container.id });
  }

  /** The provider takes any exit code for success, so this is where a failed task ends `up`. */
  #checkedId({ container, secrets }: ContainerComponentArgs<ContainerRole>): pulumi.Output<string> {
    const { id, exitCode, containerLogs } = this.container;
    const names = Object.values(container.secretFiles);
    const hidden = pulumi.output(names.map((name) => secrets[name] ?? ""));
    // The id alone comes out of it, and that is no secret.
    return pulumi
      .unsecret(pulumi.all([id, exitCode, containerLogs, hidden]))
      .apply(([id, code, logs, values]) => {
        const failure = taskFailure({ name: container.name, exitCode: code, logs, secrets: values });
        if (failure !== undefined) throw withoutStack(failure);
        return id;
      });
  }
}

/** A container that runs until it is removed. With a health check, it is made when it is healthy. */
export abstract class ServiceContainer extends pulumi.ComponentResource {
  readonly container: docker.Container;

  protected constructor(
    type: string,
    name: string,
    args: ContainerComponentArgs<ContainerRole>,
    opts: pulumi.ComponentResourceOptions | undefined,
  ) {
    super(type, name, {}, opts);

    this.container = createContainer(name, args, this, {
      createSeconds: (readySeconds(args.container) ?? 0) + SPARE_SECONDS,
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
  args: ContainerComponentArgs<ContainerRole>,
  parent: pulumi.Resource,
  { createSeconds, additionalSecretOutputs = [] }: ContainerOptions,
): docker.Container {
  const { container, after } = args;
  const sharers = after.flatMap(({ component, needsItsGpu }) =>
    needsItsGpu && component instanceof TaskContainer ? [component] : [],
  );
  return new docker.Container(
    `${name}-container`,
    containerArgs(container, { ...args, image: imageAfter(sharers, args.image) }),
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

/** No property refers to the task: what only comes after one stays where it is while the task is made anew. */
function whenReady(component: TaskContainer | ServiceContainer): pulumi.Input<pulumi.Resource> {
  if (component instanceof ServiceContainer) return component.container;
  return component.finished.apply(() => component.container);
}

/**
 * The image's id, in an input that refers to tasks: the engine deletes whatever has such an input, and could not keep it
 * without its value, before it replaces one of the tasks' containers.
 */
function imageAfter(tasks: readonly TaskContainer[], image: pulumi.Input<string>): pulumi.Input<string> {
  if (tasks.length === 0) return image;
  const finished = pulumi.all(tasks.map((task) => task.finished));
  return pulumi.all([image, finished]).apply(([id]) => id);
}

/** The SDK prints the stack of whatever ends a program, where there is one; nobody can mend a failed build with it. */
function withoutStack(message: string): Error {
  const error = new pulumi.RunError(message);
  error.stack = "";
  return error;
}
