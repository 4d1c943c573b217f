/** A stack on a Docker host that the project's own commands, the Pulumi CLI and its Docker provider bring up. */
import type { DockerApi } from "../harness/docker/api.ts";
import { buildSecrets, dockerConfigDirectory } from "../harness/docker/images.ts";
import { systemPath } from "../harness/docker/run.ts";
import { TestStack } from "../harness/stack.ts";

export class PulumiStack {
  readonly stack: TestStack;
  readonly environment: NodeJS.ProcessEnv;
  readonly #api: DockerApi;
  readonly #socketPath: string;
  readonly #host: Readonly<Record<string, unknown>>;

  /** @param config - Without platform and the host's address. */
  constructor(socketPath: string, api: DockerApi, config: Readonly<Record<string, unknown>>) {
    this.#host = { uri: `unix://${socketPath}` };
    this.stack = new TestStack("docker", this.#whole(config));
    this.environment = {
      ENGINE_ROOM_RUNNER: "",
      PATH: systemPath(),
      DOCKER_CONFIG: dockerConfigDirectory(socketPath),
    };
    this.#api = api;
    this.#socketPath = socketPath;
  }

  configure(config: Readonly<Record<string, unknown>>): void {
    this.stack.configure(this.#whole(config));
  }

  #whole({ host, ...config }: Readonly<Record<string, unknown>>): Record<string, unknown> {
    return { platform: "docker", host: { ...this.#host, ...(host ?? {}) }, ...config };
  }

  run(command: string, ...args: string[]) {
    return this.stack.runWith(this.environment, command, ...args);
  }

  succeed(command: string, ...args: string[]) {
    return this.stack.succeedWith(this.environment, command, ...args);
  }

  /** Runs a command of Pulumi's own. @throws Error with its output when the exit code is not 0. */
  async plain(command: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.stack.runPulumi(this.environment, command, ...args);
    if (code !== 0) throw new Error(`pulumi ${command} ended with ${code}:\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** URN of a service's container in the state. */
  urnOf(service: string): string {
    const state = JSON.parse(this.stack.stateFile()) as {
      readonly checkpoint: {
        readonly latest: {
          readonly resources: readonly {
            readonly urn: string;
            readonly inputs?: { readonly name?: string };
          }[];
        };
      };
    };
    const found = state.checkpoint.latest.resources.find(
      ({ inputs }) => inputs?.name === `${this.stack.name}-${service}`,
    );
    if (found === undefined) throw new Error(`The state has no container of ${service}.`);
    return found.urn;
  }

  /** Builds images with the secrets of this machine's registries, so that `up` finds every layer in Docker's cache. */
  async buildImages(): Promise<void> {
    const secrets = Object.entries(buildSecrets(this.#socketPath)).map(
      ([id, path]) => `--secret=id=${id},src=${path}`,
    );
    await this.succeed("images", ...secrets);
  }

  /** Ids of the stack's containers, by service. */
  async ids(): Promise<Record<string, string>> {
    const names = (await this.#api.containers()).flatMap(({ Names }) => Names.map((name) => name.slice(1)));
    const own = names.filter((name) => name.startsWith(`${this.stack.name}-`)).toSorted();
    const entries = own.map(async (name) => {
      return [name.slice(this.stack.name.length + 1), (await this.#api.inspectContainer(name)).Id] as const;
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  /** State by service, from `npx engine-room status`. */
  async states(): Promise<Record<string, string>> {
    const { stdout } = await this.run("status", "--json");
    const services = JSON.parse(stdout) as readonly { readonly name: string; readonly state: string }[];
    return Object.fromEntries(services.map(({ name, state }) => [name, state]));
  }

  dispose(): Promise<void> {
    return this.stack.dispose(this.environment);
  }
}
