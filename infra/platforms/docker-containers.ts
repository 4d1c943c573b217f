/** Everything that one Docker host runs, as components: `platform: docker`, and one machine of a cloud. */

import * as docker from "@pulumi/docker";
import type * as pulumi from "@pulumi/pulumi";
import { ServiceContainer, TaskContainer } from "../../components/docker/container.ts";
import { Image } from "../../components/docker/image.ts";
import { Network } from "../../components/docker/network.ts";
import { Volumes } from "../../components/docker/volumes.ts";
import { isTask } from "../plan/containers/container.ts";
import { type DockerContainer, stopsFor } from "../plan/docker/container-args.ts";
import type { DockerStack } from "../plan/docker/docker-stack.ts";
import type { SecretName } from "../plan/docker/types.ts";
import { found } from "./program.ts";

interface HostArgs {
  /** `unix:///PATH` or `ssh://USER@HOST`. */
  readonly uri: string;
  /** Of all secrets that a container names. */
  readonly secrets: Readonly<Partial<Record<SecretName, pulumi.Input<string>>>>;
}

/**
 * Options of every ssh connection: ssh never asks for a password, a host that is away is an error
 * after 10 s, and a connection on which nothing happens but a long build stays.
 */
const SSH_OPTIONS = [
  ...["-o", "BatchMode=yes"],
  ...["-o", "ConnectTimeout=10"],
  ...["-o", "ServerAliveInterval=15"],
  ...["-o", "ServerAliveCountMax=4"],
] as const;

/** The project's root as the provider sees it, which runs in the program's folder. */
const BUILD_CONTEXT = "..";

/** Registers network, volumes, images and containers. */
export function deployContainers(stack: DockerStack, { uri, secrets }: HostArgs): void {
  const provider = new docker.Provider("host", {
    host: uri,
    ...(uri.startsWith("ssh:") ? { sshOpts: [...SSH_OPTIONS] } : {}),
  });
  const opts = { providers: { docker: provider } };

  const network = new Network("network", { networkName: stack.network, labels: stack.labels }, opts);
  const volumes = new Volumes("volumes", { volumes: stack.volumes }, opts);
  const images = new Map(
    stack.images.map((image) => [image.name, new Image(image.name, { image, context: BUILD_CONTEXT }, opts)]),
  );

  const made = new Map<string, { planned: DockerContainer; component: TaskContainer | ServiceContainer }>();
  for (const planned of stack.containers) {
    const after = planned.after.map((name) => {
      const predecessor = found(made, name);
      return {
        component: predecessor.component,
        needsItsGpu: stopsFor(planned, predecessor.planned),
      };
    });
    const { name, formerly } = componentName(planned, stack);
    const Component = isTask(planned.container) ? TaskContainer : ServiceContainer;
    const component = new Component(
      name,
      {
        planned,
        image: found(images, planned.container.image).imageId,
        network: network.networkName,
        volumes: volumes.volumeNames,
        secrets,
        after,
      },
      { ...opts, aliases: formerly.map((former) => ({ name: former })) },
    );
    made.set(planned.args.name, { planned, component });
  }
}

/**
 * Services keep their names. A build has its container's, with the engine's key: the old engine serves until the new one
 * is there. Where both need the same GPU it has a name without key, so that a new key replaces it, and the engine takes
 * whatever refers to it away first. Each name is also known by the other one, for stacks whose GPUs are given out anew.
 */
function componentName(
  planned: DockerContainer,
  stack: DockerStack,
): { readonly name: string; readonly formerly: readonly string[] } {
  const { container, args } = planned;
  const subject = container.model ?? (container.role === "encoderBuild" ? "encoders" : container.role);
  if (!isTask(container)) return { name: subject, formerly: [] };
  const isInTheWay = stack.containers.some(
    (other) => other.after.includes(args.name) && stopsFor(other, planned),
  );
  const names = [`${subject}-build`, args.name] as const;
  return isInTheWay ? { name: names[0], formerly: [names[1]] } : { name: names[1], formerly: [names[0]] };
}
