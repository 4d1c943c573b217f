/** What all containers of a host have in common: a task that `up` waits for, a service that `up` starts. */
import * as docker from "@pulumi/docker";
import * as pulumi from "@pulumi/pulumi";
import type { ContainerRole, DockerContainer } from "../../infra/plan/docker/types.ts";
import { type ContainerPlacement, containerArgs, labelArgs, readySeconds } from "./container-args.ts";
import { taskFailure } from "./task-result.ts";

/** What a container comes after: a task that must have ended with success, or a service that must run. */
export interface Predecessor {
  readonly component: TaskContainer | ServiceContainer;
  /** Whether both need the same GPU. A service goes before such a task is made anew, and comes back after it. */
  readonly sharesGpu: boolean;
}

export interface ContainerComponentArgs<Role extends ContainerRole> extends ContainerPlacement {
  readonly container: DockerContainer & { readonly role: Role };
  readonly after: readonly Predecessor[];
}

/** Of a service: the containers of the builds whose GPU it shares. */
const BUILT_BY_LABEL = "engine-room.built-by";

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
      createSeconds: (args.container.timeoutSeconds ?? 0) + SPARE_SECONDS,
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
        if (failure !== undefined) throw new pulumi.ResourceError(failure, this, true);
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
  const sharers = after.flatMap(({ component, sharesGpu }) =>
    sharesGpu && component instanceof TaskContainer ? [component] : [],
  );
  return new docker.Container(
    `${name}-container`,
    { ...containerArgs(container, args), labels: labels(container, sharers) },
    {
      parent,
      dependsOn: after.map(({ component }) => whenReady(component)),
      // Name and ports are taken as long as the old one is there.
      deleteBeforeReplace: true,
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

/** A property that refers to a task makes the engine delete this container before it replaces the task's. */
function labels(
  container: DockerContainer,
  sharers: readonly TaskContainer[],
): pulumi.Input<docker.types.input.ContainerLabel[]> {
  if (sharers.length === 0) return labelArgs(container.labels);
  return pulumi
    .all(sharers.map(({ finished }) => finished))
    .apply((ids) =>
      labelArgs({ ...container.labels, [BUILT_BY_LABEL]: ids.map((id) => id.slice(0, 12)).join(",") }),
    );
}
