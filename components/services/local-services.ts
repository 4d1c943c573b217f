/** Servers of a stack as processes of this machine. Cost: none but the machine's own. */
import * as pulumi from "@pulumi/pulumi";
import { cpuServerSpec } from "../../infra/plan/container-specs.ts";
import { type TritonEndpoints, tritonEndpoints } from "../../infra/plan/endpoints.ts";
import { jsonDigest } from "../../infra/plan/plain-data.ts";
import type { TritonPorts } from "../../infra/plan/repository/launch.ts";
import type { JsonObject, Ports, RepositoryArtifact, RepositoryFile } from "../local/provider/inputs.ts";
import { type LocalPlace, ModelRepository, Process } from "../local/resources.ts";

type Program = Omit<ConstructorParameters<typeof Process>[1], keyof LocalPlace | "name">;

class LocalService extends pulumi.ComponentResource {
  readonly #name: string;

  /** @param type - Without the package. */
  constructor(type: string, name: string, opts?: pulumi.ComponentResourceOptions) {
    super(`engine-room:${type}`, name, {}, opts);
    this.#name = name;
    this.registerOutputs({});
  }

  /** @returns Ports on 127.0.0.1 by the names of `requestedPorts`. */
  start({ stackDirectory, python }: LocalPlace, program: Program): pulumi.Output<Ports> {
    const name = this.#name;
    const args = { stackDirectory, name, python, ...program };
    return new Process(`${name}-server`, args, { parent: this }).ports;
  }
}

/** The differences of the two databases: their ports in arguments, and their URLs. */
const DATABASES = {
  mongo: {
    portArguments: ["--port", "{port.mongo}", "--metrics-port", "{port.metrics}"],
    readyUrl: "http://127.0.0.1:{port.metrics}/healthz",
    endpoint: ({ mongo }: Ports) => `mongodb://127.0.0.1:${mongo}`,
  },
  vector: {
    portArguments: ["--port", "{port.http}"],
    readyUrl: "http://127.0.0.1:{port.http}/readyz",
    endpoint: ({ http }: Ports) => `http://127.0.0.1:${http}`,
  },
} as const;

interface LocalDatabaseArgs extends LocalPlace {
  /** Folder of its data, from the project's root; the data stay when the stack is deleted. */
  readonly dataDirectory: string;
  /** By the names in the table; 0 for any free port. */
  readonly requestedPorts: Ports;
  /** Hash of its sources and packages: a changed one restarts it. */
  readonly sourceSha256: string;
}

/** A mock of a database; about 100 MiB of memory. @returns Its address for clients on 127.0.0.1. */
export function localDatabase(
  name: keyof typeof DATABASES,
  { dataDirectory, requestedPorts, sourceSha256, ...place }: LocalDatabaseArgs,
): pulumi.Output<string> {
  const { portArguments, readyUrl, endpoint } = DATABASES[name];
  const main = `containers/services/mock-${name}/src/main.ts`;
  const ports = new LocalService("services:LocalDatabase", name).start(place, {
    command: ["node", "loader/run.mjs", main, "--data", dataDirectory, ...portArguments],
    environment: { NODE_ENV: "production" },
    requestedPorts,
    triggers: [sourceSha256],
    ready: { url: readyUrl, timeoutSeconds: 60 },
    stopTimeoutSeconds: 30,
    // Before the gateway, which queries them as soon as it starts.
    priority: 150,
  });
  return ports.apply(endpoint);
}

interface LocalGatewayArgs extends LocalPlace {
  /** The gateway's configuration, as containers/services/gateway/src/config.ts reads it, without host and port. */
  readonly config: pulumi.Input<Record<string, unknown>>;
  /** 0 for any free port. */
  readonly port: number;
  /** Hash of the gateway's sources and packages: a changed one restarts it. */
  readonly sourceSha256: string;
}

const CONFIG_FILE = "gateway.json";
const SERVER_FILE = "server.json";
/** How long requests in flight may take when a Triton is stopped. */
const EXIT_TIMEOUT_SECONDS = 20;

/** The gateway; about 100 MiB of memory. @returns Its base URL on 127.0.0.1. */
export function localGateway(
  name: string,
  { config, port, sourceSha256, ...place }: LocalGatewayArgs,
): pulumi.Output<string> {
  const text = pulumi.output(config).apply((value) => `${JSON.stringify(value, null, 2)}\n`);
  const ports = new LocalService("services:LocalGateway", name).start(place, {
    command: [
      ...["node", "loader/run.mjs", "containers/services/gateway/src/main.ts"],
      ...["--config", `${place.stackDirectory}/processes/${name}/${CONFIG_FILE}`, "--port", "{port.http}"],
    ],
    environment: { NODE_ENV: "production" },
    files: { [CONFIG_FILE]: text },
    requestedPorts: { http: port },
    triggers: [sourceSha256],
    // Alive is enough: it answers 503 with Retry-After while a Triton is unavailable, and recovers by itself.
    ready: { url: "http://127.0.0.1:{port.http}/healthz", timeoutSeconds: 30 },
    stopTimeoutSeconds: 30,
    priority: 200,
  });
  return ports.apply(({ http }) => `http://127.0.0.1:${http}`);
}

interface CpuTritonArgs extends LocalPlace {
  /** Names the environment's packages and Python: a changed one restarts the server. */
  readonly environmentKey: string;
  /** Files of the model repository, by path. */
  readonly files: Readonly<Record<string, RepositoryFile>>;
  /** Folders of the repository that a builder makes. */
  readonly artifacts: Readonly<Record<string, RepositoryArtifact>>;
  /** 0 for any free port. */
  readonly ports: TritonPorts;
}

/**
 * A Triton Inference Server on the CPU, with its model repository; about 50 MiB of memory for the server and the models' own
 * (0.3 GiB for the encoders, 0.3 GiB for a language model of 135M).
 *
 * @returns URLs on 127.0.0.1, and `facts.json` of each artifact, by folder; known after `up`.
 */
export function cpuTriton(
  name: string,
  { environmentKey, files, artifacts, ports, ...place }: CpuTritonArgs,
): {
  readonly endpoints: pulumi.Output<TritonEndpoints>;
  readonly facts: pulumi.Output<Record<string, JsonObject>>;
} {
  const { stackDirectory, python } = place;
  const directory = `${stackDirectory}/repositories/${name}`;
  const service = new LocalService("serving:CpuTriton", name);
  const repository = new ModelRepository(
    `${name}-repository`,
    { directory, python, files, artifacts, digest: jsonDigest({ files, artifacts }) },
    { parent: service },
  );
  const started = service.start(place, {
    command: [
      ...["python", "-m", "engine_room.triton_entrypoint", "serve"],
      `${stackDirectory}/processes/${name}/${SERVER_FILE}`,
      ...["--http-port", "{port.http}", "--grpc-port", "{port.grpc}", "--metrics-port", "{port.metrics}"],
    ],
    environment: { PYTHONDONTWRITEBYTECODE: "1", PYTHONPATH: "{root}/containers/python" },
    files: {
      [SERVER_FILE]: cpuServerSpec(name, null, EXIT_TIMEOUT_SECONDS, {
        repository: directory,
        address: "127.0.0.1",
      }),
    },
    requestedPorts: { ...ports },
    // The digest is taken from the repository, not computed again, so that the server waits for its files.
    triggers: pulumi.all([repository.digest, environmentKey]),
    // A first start reads the weights from a cold disk.
    ready: { url: "http://127.0.0.1:{port.http}/v2/health/ready", timeoutSeconds: 120 },
    // The entry point ends a server that does not end in time.
    stopTimeoutSeconds: EXIT_TIMEOUT_SECONDS + 20,
    priority: 100,
  });
  return {
    endpoints: started.apply(({ http = 0, grpc = 0, metrics = 0 }) =>
      tritonEndpoints("127.0.0.1", { http, grpc, metrics }),
    ),
    facts: repository.facts,
  };
}
