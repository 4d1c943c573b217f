/** `platform: docker`: the whole service on one Docker host, with or without GPUs. */
import * as docker from "@pulumi/docker";
import { StackContainer } from "../../components/docker/container.ts";
import { Image } from "../../components/docker/image.ts";
import { Network } from "../../components/docker/network.ts";
import { Volumes } from "../../components/docker/volumes.ts";
import { planImages } from "../image-inputs.ts";
import { type DeployedStack, planOutputs } from "../outputs.ts";
import { isTask } from "../plan/containers/container.ts";
import { type DockerContainer, stopsFor } from "../plan/docker/container-args.ts";
import { type DockerStack, dockerStack } from "../plan/docker/docker-stack.ts";
import type { DockerPlan } from "../plan/docker/host-objects.ts";
import { found, inPlace, type Place, secretValues } from "./program.ts";

/**
 * Options of every ssh connection: ssh never asks for a password, an unreachable host is an error
 * after 10 s, and a connection stays open during a long build.
 */
const SSH_OPTIONS = [
  ...["-o", "BatchMode=yes"],
  ...["-o", "ConnectTimeout=10"],
  ...["-o", "ServerAliveInterval=15"],
  ...["-o", "ServerAliveCountMax=4"],
];

/** The project's root as the provider sees it, which runs in the program's folder. */
const BUILD_CONTEXT = "..";

/** Registers the resources of a stack on a Docker host. */
export function deploy(plan: DockerPlan, place: Place): DeployedStack {
  const { found: images } = planImages(plan);
  const stack = dockerStack(plan, { stack: place.name, images });
  deployContainers(stack, plan.host.uri, place);
  const { endpoints, notes } = stack;
  return planOutputs(plan, () => "host", { endpoints, engineStore: engineStore(plan, stack), notes });
}

/** A folder of the host, or a volume; models of a CPU are in their image. */
function engineStore(plan: DockerPlan, { volumes }: DockerStack): string {
  if (plan.tier === "cpu") return "image";
  const volume = volumes.find(({ purpose }) => purpose === "store");
  return plan.host.storePath ?? `volume ${volume?.name}`;
}

/** Registers network, volumes, images and containers. */
function deployContainers(stack: DockerStack, uri: string, place: Place): void {
  const ssh = uri.startsWith("ssh:") ? { sshOpts: SSH_OPTIONS } : {};
  const parent = inPlace(place);
  const provider = new docker.Provider("host", { host: uri, ...ssh }, parent);
  const opts = { ...parent, providers: { docker: provider } };

  const network = new Network("network", { networkName: stack.network, labels: stack.labels }, opts);
  const volumes = new Volumes("volumes", { volumes: stack.volumes }, opts);
  const images = new Map(
    stack.images.map((image) => [image.name, new Image(image.name, { image, context: BUILD_CONTEXT }, opts)]),
  );
  const secretNames = stack.containers.flatMap(({ secretFiles }) => Object.values(secretFiles));
  const common = {
    network: network.networkName,
    volumes: volumes.volumeNames,
    secrets: secretValues(place, secretNames),
  };

  const made = new Map<string, { planned: DockerContainer; component: StackContainer }>();
  for (const planned of stack.containers) {
    const after = planned.after.map((name) => {
      const predecessor = found(made, name);
      return { component: predecessor.component, needsItsGpu: stopsFor(planned, predecessor.planned) };
    });
    const [name, ...formerNames] = componentNames(planned, stack);
    const component = new StackContainer(
      name,
      { ...common, planned, image: found(images, planned.container.image).imageId, after },
      { ...opts, aliases: formerNames.map((former) => ({ name: former })) },
    );
    made.set(planned.args.name, { planned, component });
  }
}

/**
 * Services keep their names. A build has its container's name, with the engine's key: the old engine serves until the new engine
 * is built. If both need the same GPU, the name has no key, so that a new key replaces the build, and Pulumi deletes its dependents
 * first. Each name is an alias of the other, for stacks whose GPUs are assigned differently later.
 */
function componentNames(
  planned: DockerContainer,
  { containers }: DockerStack,
): readonly [name: string, ...formerly: string[]] {
  const { container, args } = planned;
  const subject = container.model ?? (container.role === "encoderBuild" ? "encoders" : container.role);
  if (!isTask(container)) return [subject];
  const isInTheWay = containers.some((other) => other.after.includes(args.name) && stopsFor(other, planned));
  return isInTheWay ? [`${subject}-build`, args.name] : [args.name, `${subject}-build`];
}
