/** A database as a process of this machine: its data stay when the stack is deleted. Cost: none; about 100 MiB of memory. */
import * as pulumi from "@pulumi/pulumi";
import { Process } from "../local/resources.ts";

/** What the two databases differ in. */
interface DatabaseKind {
  /** Entry point, from the project's root. */
  readonly main: string;
  /** Ports by name; the first is the one that clients use. */
  readonly ports: readonly [string, ...string[]];
  /** Arguments that hand them over. */
  readonly portArguments: readonly string[];
  readonly readyUrl: string;
  readonly endpoint: (ports: Readonly<Record<string, number>>) => string;
}

const KINDS = {
  mongo: {
    main: "containers/services/mock-mongo/src/main.ts",
    ports: ["mongo", "metrics"],
    portArguments: ["--port", "{port.mongo}", "--metrics-port", "{port.metrics}"],
    readyUrl: "http://127.0.0.1:{port.metrics}/healthz",
    endpoint: ({ mongo }) => `mongodb://127.0.0.1:${mongo}`,
  },
  vector: {
    main: "containers/services/mock-vector/src/main.ts",
    ports: ["http"],
    portArguments: ["--port", "{port.http}"],
    readyUrl: "http://127.0.0.1:{port.http}/readyz",
    endpoint: ({ http }) => `http://127.0.0.1:${http}`,
  },
} as const satisfies Record<string, DatabaseKind>;

export interface LocalDatabaseArgs {
  readonly kind: keyof typeof KINDS;
  /** `.stacks/<stack>`. */
  readonly stackDirectory: string;
  /** Interpreter of the environment that holds supervisord. */
  readonly python: pulumi.Input<string>;
  /** Folder of its data, from the project's root. */
  readonly dataDirectory: string;
  /** By the names of its ports; 0 for any free one. */
  readonly requestedPorts: Readonly<Record<string, number>>;
  /** Hash of its sources and packages: a changed one restarts it. */
  readonly sourceSha256: string;
}

const READY_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 30;

export class LocalDatabase extends pulumi.ComponentResource {
  /** Address for clients on 127.0.0.1. */
  readonly endpoint: pulumi.Output<string>;

  constructor(name: string, args: LocalDatabaseArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:services:LocalDatabase", name, {}, opts);

    const server = this.#createServer(name, args);

    this.endpoint = server.ports.apply(KINDS[args.kind].endpoint as DatabaseKind["endpoint"]);
    this.registerOutputs({ endpoint: this.endpoint });
  }

  #createServer(name: string, args: LocalDatabaseArgs): Process {
    const { main, ports, portArguments, readyUrl } = KINDS[args.kind];
    return new Process(
      `${name}-server`,
      {
        stackDirectory: args.stackDirectory,
        name,
        python: args.python,
        command: ["node", "loader/run.mjs", main, "--data", args.dataDirectory, ...portArguments],
        environment: { NODE_ENV: "production" },
        requestedPorts: Object.fromEntries(ports.map((port) => [port, args.requestedPorts[port] ?? 0])),
        triggers: [args.sourceSha256],
        ready: { url: readyUrl, timeoutSeconds: READY_TIMEOUT_SECONDS },
        stopTimeoutSeconds: STOP_TIMEOUT_SECONDS,
        // Before the gateway, which asks them as soon as it starts.
        priority: 150,
      },
      { parent: this },
    );
  }
}
