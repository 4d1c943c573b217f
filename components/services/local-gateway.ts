/** The gateway as a process of this machine. Cost: none; about 100 MiB of memory. */
import * as pulumi from "@pulumi/pulumi";
import { type LocalPlace, Process } from "../local/resources.ts";

interface LocalGatewayArgs extends LocalPlace {
  /** The gateway's configuration, as containers/services/gateway/src/config.ts reads it, without host and port. */
  readonly config: pulumi.Input<Record<string, unknown>>;
  /** 0 for any free port. */
  readonly port: number;
  /** Hash of the gateway's sources and packages: a changed one restarts it. */
  readonly sourceSha256: string;
}

const CONFIG_FILE = "gateway.json";
const READY_TIMEOUT_SECONDS = 30;
const STOP_TIMEOUT_SECONDS = 30;

export class LocalGateway extends pulumi.ComponentResource {
  /** Base URL on 127.0.0.1. */
  readonly endpoint: pulumi.Output<string>;

  constructor(name: string, args: LocalGatewayArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:services:LocalGateway", name, {}, opts);
    const { stackDirectory, python, port, sourceSha256 } = args;
    const config = pulumi.output(args.config).apply((value) => `${JSON.stringify(value, null, 2)}\n`);

    const server = new Process(
      `${name}-server`,
      {
        stackDirectory,
        name,
        python,
        command: [
          ...["node", "loader/run.mjs", "containers/services/gateway/src/main.ts"],
          ...["--config", `${stackDirectory}/processes/${name}/${CONFIG_FILE}`, "--port", "{port.http}"],
        ],
        environment: { NODE_ENV: "production" },
        files: { [CONFIG_FILE]: config },
        requestedPorts: { http: port },
        triggers: [sourceSha256],
        // Alive is enough: it answers 503 with Retry-After while a Triton is away, and recovers by itself.
        ready: { url: "http://127.0.0.1:{port.http}/healthz", timeoutSeconds: READY_TIMEOUT_SECONDS },
        stopTimeoutSeconds: STOP_TIMEOUT_SECONDS,
        priority: 200,
      },
      { parent: this },
    );

    this.endpoint = server.ports.apply(({ http }) => `http://127.0.0.1:${http}`);
    this.registerOutputs({ endpoint: this.endpoint });
  }
}
