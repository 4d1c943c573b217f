/**
 * A Triton Inference Server on this machine's CPU, with its model repository. Cost: none but the machine's own; about
 * 50 MiB of memory for the server and the models' own (0.3 GiB for the encoders, 0.3 GiB for a language model of 135M).
 */
import * as pulumi from "@pulumi/pulumi";
import { jsonDigest } from "../../infra/plan/canonical-json.ts";
import { type TritonEndpoints, tritonEndpoints } from "../../infra/plan/endpoints.ts";
import type { TritonPorts } from "../../infra/plan/repository/launch.ts";
import type { JsonObject, RepositoryArtifact, RepositoryFile } from "../local/provider/inputs.ts";
import { type LocalPlace, ModelRepository, Process } from "../local/resources.ts";

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

/** Longest wait for the models to load; a first start reads the weights from a cold disk. */
const READY_TIMEOUT_SECONDS = 120;
/** Triton drains requests for `--exit-timeout-secs` (30) before it gives up. */
const STOP_TIMEOUT_SECONDS = 40;

export class CpuTriton extends pulumi.ComponentResource {
  /** URLs on 127.0.0.1. */
  readonly endpoints: pulumi.Output<TritonEndpoints>;
  /** `facts.json` of each artifact, by folder; known after `up`. */
  readonly facts: pulumi.Output<Record<string, JsonObject>>;

  constructor(name: string, args: CpuTritonArgs, opts?: pulumi.ComponentResourceOptions) {
    super("engine-room:serving:CpuTriton", name, {}, opts);
    const { stackDirectory, python, environmentKey, files, artifacts, ports } = args;
    const directory = `${stackDirectory}/repositories/${name}`;

    const repository = new ModelRepository(
      `${name}-repository`,
      { directory, python, files, artifacts, digest: jsonDigest({ files, artifacts }) },
      { parent: this },
    );
    const server = new Process(
      `${name}-server`,
      {
        stackDirectory,
        name,
        python,
        command: [
          ...["python", "-m", "engine_room_models.serve", "--model-repository", `{root}/${directory}`],
          ...["--work-directory", `{root}/${stackDirectory}/processes/${name}/triton`],
          ...["--http-port", "{port.http}", "--grpc-port", "{port.grpc}", "--metrics-port", "{port.metrics}"],
        ],
        environment: { PYTHONDONTWRITEBYTECODE: "1", PYTHONPATH: "{root}/containers/cpu-models" },
        requestedPorts: { ...ports },
        // The digest is taken from the repository, not computed again, so that the server waits for its files.
        triggers: pulumi.all([repository.digest, environmentKey]),
        ready: { url: "http://127.0.0.1:{port.http}/v2/health/ready", timeoutSeconds: READY_TIMEOUT_SECONDS },
        stopTimeoutSeconds: STOP_TIMEOUT_SECONDS,
        priority: 100,
      },
      { parent: this },
    );

    this.endpoints = server.ports.apply(({ http = 0, grpc = 0, metrics = 0 }) =>
      tritonEndpoints("127.0.0.1", { http, grpc, metrics }),
    );
    this.facts = repository.facts;
    this.registerOutputs({ endpoints: this.endpoints, facts: this.facts });
  }
}
