/** Starts a plan's containers on a Docker host, only through the engine's API, and removes them. */
import { isTask } from "../../../infra/plan/containers/container.ts";
import type { DockerContainer } from "../../../infra/plan/docker/container-args.ts";
import type { DockerStack } from "../../../infra/plan/docker/docker-stack.ts";
import { eventually } from "../stack.ts";
import type { DockerApi } from "./api.ts";
import { archiveOf } from "./archive.ts";
import { createBody, labelRecord } from "./create-body.ts";

const TASK_TIMEOUT_SECONDS = 3600;
const HEALTHY_TIMEOUT_SECONDS = 300;
const LOOK_TIMEOUT_SECONDS = 120;
const LOOK_LINES = 10_000;
/** Docker checks for the first time after an interval; the planned 10 s would be most of a test's time. */
const HEALTH_INTERVAL = "2s";

/** Exit codes of stopped containers, by name. */
type ExitCodes = Record<string, number>;

export class RunningStack {
  readonly #api: DockerApi;
  readonly #stack: DockerStack;
  #looks = 0;

  constructor(api: DockerApi, stack: DockerStack) {
    this.#api = api;
    this.#stack = stack;
  }

  /**
   * Creates network, volumes and containers in the plan's order; returns when every service is healthy. The images must
   * exist.
   *
   * @throws Error with the last lines of the log of a container that fails or does not become healthy.
   */
  async up(): Promise<void> {
    const { network, labels, volumes, containers } = this.#stack;
    await this.#api.createNetwork(network, labelRecord(labels));
    for (const volume of volumes) await this.#api.createVolume(volume.name, labelRecord(volume.labels));
    for (const container of containers) await this.#start(container);
    for (const { args } of containers) if (args.healthcheck !== undefined) await this.healthy(args.name);
  }

  async #start(planned: DockerContainer): Promise<void> {
    const { container: described, secretFiles, args } = planned;
    const { files, timeoutSeconds } = described;
    const { name, healthcheck } = args;
    const container = {
      ...planned,
      args:
        healthcheck === undefined
          ? args
          : { ...args, healthcheck: { ...healthcheck, interval: HEALTH_INTERVAL } },
    };
    if (Object.keys(secretFiles).length > 0)
      throw new Error(`${name} has secrets, and tests have no values of any.`);
    await this.#api.createContainer(name, createBody(container, this.#image(container), this.#stack.network));
    if (Object.keys(files).length > 0) await this.#api.putArchive(name, await archiveOf(files));
    await this.#api.startContainer(name);
    if (!isTask(described)) return;
    const code = await this.#api.waitForExit(name, timeoutSeconds ?? TASK_TIMEOUT_SECONDS);
    if (code !== 0) throw new Error(`${name} ended with ${code}: ${await this.#api.logs(name)}`);
  }

  #image({ container, args }: DockerContainer): string {
    const image = this.#stack.images.find(({ name }) => name === container.image);
    if (image === undefined) throw new Error(`No image ${container.image} for the container ${args.name}.`);
    return image.reference;
  }

  /** Returns when the container's own check says so. @throws Error with the end of its log when it does not. */
  async healthy(name: string): Promise<void> {
    const ended = await eventually(async () => {
      const { State } = await this.#api.inspectContainer(name);
      if (State.Status === "exited" || State.Status === "dead") return true;
      return State.Health?.Status === "healthy" ? false : undefined;
    }, HEALTHY_TIMEOUT_SECONDS).catch(() => true);
    if (ended) throw new Error(`${name} is not healthy; its log ends with:\n${await this.#api.logs(name)}`);
  }

  /** Output of a program in a new container with the same image and volumes. @throws Error if it fails. */
  async outputOf(container: DockerContainer, argv: readonly string[]): Promise<string> {
    const name = `${container.args.name}-look-${++this.#looks}`;
    const { healthcheck: _, ...args } = container.args;
    const looking: DockerContainer = {
      ...container,
      args: { ...args, entrypoints: argv.slice(0, 1), command: argv.slice(1), ports: [], restart: "no" },
    };
    await this.#api.createContainer(name, createBody(looking, this.#image(container), this.#stack.network));
    try {
      await this.#api.startContainer(name);
      const code = await this.#api.waitForExit(name, LOOK_TIMEOUT_SECONDS);
      const output = await this.#api.logs(name, LOOK_LINES);
      if (code !== 0) throw new Error(`\`${argv.join(" ")}\` ended with ${code} in ${name}: ${output}`);
      return output;
    } finally {
      await this.#api.removeContainer(name);
    }
  }

  /** Puts a new container in the place of one, as an update does. */
  async replace(name: string): Promise<void> {
    const container = this.#stack.containers.find(({ args }) => args.name === name);
    if (container === undefined) throw new Error(`The stack has no container ${name}.`);
    await this.#api.stopContainer(name, container.container.stopSeconds);
    await this.#api.removeContainer(name);
    await this.#start(container);
  }

  /** Stops all containers in the opposite order, each within its time. */
  async stop(): Promise<ExitCodes> {
    const codes: ExitCodes = {};
    for (const { args, container } of this.#stack.containers.toReversed()) {
      const { name } = args;
      await this.#api.stopContainer(name, container.stopSeconds);
      codes[name] = (await this.#api.inspectContainer(name)).State.ExitCode;
    }
    return codes;
  }

  /** Removes all that the stack has, including volumes that `down` would keep. */
  async remove(): Promise<void> {
    const existing = (await this.#api.containers()).flatMap(({ Names }) => Names);
    for (const { args } of this.#stack.containers)
      if (existing.includes(`/${args.name}`)) await this.#api.removeContainer(args.name);
    const volumes = await this.#api.volumes();
    for (const { name } of this.#stack.volumes)
      if (volumes.includes(name)) await this.#api.removeVolume(name);
    if ((await this.#api.networks()).includes(this.#stack.network))
      await this.#api.removeNetwork(this.#stack.network);
  }
}
