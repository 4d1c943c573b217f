/** The part of the Docker Engine API (version 1.41) that tests need, over an engine's unix socket. */
import { type IncomingMessage, request } from "node:http";
import { json, text } from "node:stream/consumers";

/** Beyond what a request waits for by itself, such as the end of a container. */
const REQUEST_TIMEOUT_SECONDS = 60;

interface Call {
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  /** JSON, or a tar archive. */
  readonly body?: object | Buffer;
  readonly waitSeconds?: number;
}

interface ContainerState {
  readonly Status: "created" | "running" | "restarting" | "exited" | "dead" | "paused" | "removing";
  readonly ExitCode: number;
  /** Pid of its first process on the host; 0 when stopped. */
  readonly Pid: number;
  readonly Health?: {
    readonly Status: "starting" | "healthy" | "unhealthy";
    readonly Log?: readonly object[];
  };
}

interface InspectedContainer {
  readonly Id: string;
  readonly State: ContainerState;
  readonly RestartCount: number;
}

interface InspectedImage {
  readonly Id: string;
  readonly Size: number;
  readonly Config: {
    readonly User: string;
    readonly Labels: Readonly<Record<string, string>> | null;
    readonly Healthcheck?: object;
  };
}

interface ListedContainer {
  readonly Names: readonly string[];
  readonly Ports: readonly {
    readonly IP?: string;
    readonly PrivatePort: number;
    readonly PublicPort?: number;
  }[];
}

/** @throws Error with the engine's own message, from every method, if the engine refuses. */
export class DockerApi {
  readonly #socketPath: string;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async ping(): Promise<void> {
    await this.#call("GET", "/_ping", { waitSeconds: 0 });
  }

  async createNetwork(name: string, labels: Readonly<Record<string, string>>): Promise<void> {
    await this.#call("POST", "/networks/create", {
      body: { Name: name, Driver: "bridge", CheckDuplicate: true, Labels: labels },
    });
  }

  async removeNetwork(name: string): Promise<void> {
    await this.#call("DELETE", `/networks/${name}`);
  }

  async networks(): Promise<string[]> {
    const networks = await this.#json<{ Name: string }[]>("GET", "/networks");
    return networks.map(({ Name }) => Name);
  }

  async createVolume(name: string, labels: Readonly<Record<string, string>>): Promise<void> {
    await this.#call("POST", "/volumes/create", { body: { Name: name, Labels: labels } });
  }

  async removeVolume(name: string): Promise<void> {
    await this.#call("DELETE", `/volumes/${name}`);
  }

  async volumes(): Promise<string[]> {
    const { Volumes } = await this.#json<{ Volumes: { Name: string }[] | null }>("GET", "/volumes");
    return (Volumes ?? []).map(({ Name }) => Name);
  }

  /** @returns Its id. */
  async createContainer(name: string, body: object): Promise<string> {
    const { Id } = await this.#json<{ Id: string }>("POST", "/containers/create", { query: { name }, body });
    return Id;
  }

  /** @param archive - A tar of files by their path from the root. */
  async putArchive(container: string, archive: Buffer): Promise<void> {
    await this.#call("PUT", `/containers/${container}/archive`, { query: { path: "/" }, body: archive });
  }

  async startContainer(container: string): Promise<void> {
    await this.#call("POST", `/containers/${container}/start`);
  }

  /** Kills it when it has not ended after the seconds. */
  async stopContainer(container: string, seconds: number): Promise<void> {
    await this.#call("POST", `/containers/${container}/stop`, {
      query: { t: seconds },
      waitSeconds: seconds,
    });
  }

  /** Its anonymous volumes go with it. */
  async removeContainer(container: string): Promise<void> {
    await this.#call("DELETE", `/containers/${container}`, { query: { force: true, v: true } });
  }

  async inspectContainer(container: string): Promise<InspectedContainer> {
    return this.#json("GET", `/containers/${container}/json`);
  }

  /** All containers, stopped or running. */
  async containers(): Promise<ListedContainer[]> {
    return this.#json("GET", "/containers/json", { query: { all: true } });
  }

  /** @returns Exit code. @throws Error when it still runs after the seconds. */
  async waitForExit(container: string, seconds: number): Promise<number> {
    const call = { waitSeconds: seconds };
    const { StatusCode } = await this.#json<{ StatusCode: number }>(
      "POST",
      `/containers/${container}/wait`,
      call,
    );
    return StatusCode;
  }

  /** The last lines of both outputs. */
  async logs(container: string, lines = 60): Promise<string> {
    const query = { stdout: true, stderr: true, tail: lines };
    const response = await this.#call("GET", `/containers/${container}/logs`, { query });
    const frames = Buffer.concat((await response.toArray()) as Buffer[]);
    return readFrames(frames);
  }

  async inspectImage(reference: string): Promise<InspectedImage> {
    return this.#json("GET", `/images/${reference}/json`);
  }

  async imageTags(): Promise<string[]> {
    const images = await this.#json<{ RepoTags: string[] | null }[]>("GET", "/images/json");
    return images.flatMap(({ RepoTags }) => RepoTags ?? []);
  }

  async #json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    return (await json(await this.#call(method, path, call))) as T;
  }

  async #call(method: string, path: string, call: Call = {}): Promise<IncomingMessage> {
    const { query = {}, body, waitSeconds = 0 } = call;
    const parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(query)) parameters.set(key, `${value}`);
    const isArchive = Buffer.isBuffer(body);
    const content = body === undefined || isArchive ? body : Buffer.from(JSON.stringify(body));
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = request(
        {
          socketPath: this.#socketPath,
          method,
          path: `/v1.41${path}?${parameters}`,
          headers: content === undefined ? {} : contentHeaders(content, isArchive),
          signal: AbortSignal.timeout((waitSeconds + REQUEST_TIMEOUT_SECONDS) * 1000),
        },
        resolve,
      );
      sent.on("error", reject);
      sent.end(content);
    });
    const { statusCode = 0 } = response;
    if (statusCode >= 400) {
      throw new Error(`${method} ${path} was refused (${statusCode}): ${(await text(response)).trim()}`);
    }
    if (statusCode !== 200 && statusCode !== 201) response.resume();
    return response;
  }
}

function contentHeaders(content: Buffer, isArchive: boolean) {
  return {
    "content-type": isArchive ? "application/x-tar" : "application/json",
    "content-length": content.length,
  };
}

/** Each frame: one byte for the stream, three of nothing, the length in four, the bytes. */
function readFrames(frames: Buffer): string {
  const parts: string[] = [];
  for (let at = 0; at + 8 <= frames.length; ) {
    const end = at + 8 + frames.readUInt32BE(at + 4);
    parts.push(frames.toString("utf8", at + 8, end));
    at = end;
  }
  return parts.join("");
}
