/** A database as a process of this machine: its data stay when the stack is deleted. Cost: none; about 100 MiB of memory. */
import * as pulumi from "@pulumi/pulumi";
import { type LocalPlace, Process } from "../local/resources.ts";

/** The differences of the two databases: their ports in arguments, and their URLs. */
const KINDS = {
  mongo: {
    portArguments: ["--port", "{port.mongo}", "--metrics-port", "{port.metrics}"],
    readyUrl: "http://127.0.0.1:{port.metrics}/healthz",
    endpoint: ({ mongo }: Readonly<Record<string, number>>) => `mongodb://127.0.0.1:${mongo}`,
  },
  vector: {
    portArguments: ["--port", "{port.http}"],
    readyUrl: "http://127.0.0.1:{port.http}/readyz",
    endpoint: ({ http }: Readonly<Record<string, number>>) => `http://127.0.0.1:${http}`,
  },
} as const;

interface LocalDatabaseArgs extends LocalPlace {
  readonly kind: keyof typeof KINDS;
  /** Folder of its data, from the project's root. */
  readonly dataDirectory: string;
  /** By the names in KINDS; 0 for any free one. */
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
    const { kind, stackDirectory, python, dataDirectory, requestedPorts, sourceSha256 } = args;
    const { portArguments, readyUrl, endpoint } = KINDS[kind];
    const main = `containers/services/mock-${kind}/src/main.ts`;

    const server = new Process(
      `${name}-server`,
      {
        stackDirectory,
        name,
        python,
        command: ["node", "loader/run.mjs", main, "--data", dataDirectory, ...portArguments],
        environment: { NODE_ENV: "production" },
        requestedPorts,
        triggers: [sourceSha256],
        ready: { url: readyUrl, timeoutSeconds: READY_TIMEOUT_SECONDS },
        stopTimeoutSeconds: STOP_TIMEOUT_SECONDS,
        // Before the gateway, which asks them as soon as it starts.
        priority: 150,
      },
      { parent: this },
    );

    this.endpoint = server.ports.apply(endpoint);
    this.registerOutputs({ endpoint: this.endpoint });
  }
}
