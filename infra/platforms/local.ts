/** The whole service on this machine: Triton on the CPU, encoders, a small language model, the gateway. */
import * as pulumi from "@pulumi/pulumi";
import { PythonEnvironment } from "../../components/local/resources.ts";
import { cpuTriton, localDatabase, localGateway } from "../../components/services/local-services.ts";
import { type DeployedStack, planOutputs } from "../outputs.ts";
import type { LocalPlan } from "../plan/cpu-stack.ts";
import { gatewayConfig } from "../plan/gateway-config.ts";
import {
  type CpuModel,
  cpuEncoders,
  cpuLanguageModel,
  PYTHON_MODELS,
  VERSION_FOLDER,
} from "../plan/repository/cpu-models.ts";
import { fileSha256, sourcesSha256 } from "../project-files.ts";

const REQUIREMENTS = "containers/cpu-models/requirements.lock";

/** Registers the resources of a local stack. */
export function deploy(plan: LocalPlan): DeployedStack {
  const stackDirectory = `.stacks/${pulumi.getStack()}`;
  const requirementsSha256 = fileSha256(REQUIREMENTS);
  const { python } = new PythonEnvironment("python", {
    directory: `${stackDirectory}/python`,
    requirements: REQUIREMENTS,
    requirementsSha256,
    ...(plan.pythonVersion === undefined ? {} : { pythonVersion: plan.pythonVersion }),
  });
  const common = { stackDirectory, python };
  const triton = (
    name: string,
    served: readonly CpuModel[],
    { ports }: Pick<LocalPlan["encoders"], "ports">,
  ) =>
    cpuTriton(name, {
      ...common,
      ...repositoryOf(served),
      environmentKey: `${requirementsSha256} ${plan.pythonVersion ?? "any Python"}`,
      ports,
    });

  const encoders = triton("encoders", cpuEncoders(plan.encoders), plan.encoders);
  const models = plan.models.map((model) => ({
    name: model.name,
    endpoints: triton(model.name, cpuLanguageModel(model), model).endpoints,
  }));
  const { databases } = plan;
  const database = (kind: "mongo" | "vector", requestedPorts: Readonly<Record<string, number>>) =>
    localDatabase(kind, {
      ...common,
      requestedPorts,
      // Data outlive the stack: `npx engine-room down` leaves them.
      dataDirectory: `.data/${pulumi.getStack()}/${kind}`,
      sourceSha256: serviceSha256([`mock-${kind}`], /\.(ts|json)$/),
    });
  const own = databases.kind === "mock" ? databases.ports : undefined;
  const mongo = own && database("mongo", { mongo: own.mongo, metrics: own.mongoMetrics });
  const vector = own && database("vector", { http: own.vector });
  const gateway = localGateway("gateway", {
    ...common,
    port: plan.gateway.port,
    sourceSha256: serviceSha256(["gateway", "triton-requests"], /\.(ts|js|json|html|css|svg)$/),
    config: pulumi
      .all([encoders.endpoints, pulumi.all(models.map(({ endpoints }) => endpoints)), mongo, vector])
      .apply(([encoder, language, mongoUri, vectorUrl]) =>
        gatewayConfig(plan, {
          encoders: encoder.http,
          models: language.map(({ http }) => http),
          ...(mongoUri === undefined ? {} : { mongo: mongoUri }),
          ...(vectorUrl === undefined ? {} : { vector: vectorUrl }),
        }),
      ),
  });

  return planOutputs(plan, () => "host", {
    endpoints: pulumi.output({
      gateway,
      gatewayReach: "host" as const,
      gatewayDnsName: null,
      mongo: mongo ?? null,
      vector: vector ?? (databases.kind === "external" ? databases.vector.url : null),
      encoders: encoders.endpoints,
      models: Object.fromEntries(
        models.map(({ name, endpoints }) => [
          name,
          endpoints.apply((urls) => ({ ...urls, generate: `${urls.http}/v2/models/ensemble/generate` })),
        ]),
      ),
      reach: "host" as const,
    }),
    engineStore: `${stackDirectory}/repositories`,
    notes: encoders.facts.apply((facts) => notes(facts["vision_encoder/1"])),
  });
}

/** Hash of services' sources and packages, with those that all services share. */
function serviceSha256(services: readonly string[], files: RegExp): string {
  const folders = [...services, "service-process"].map((service) => `containers/services/${service}`);
  return sourcesSha256([...folders, "package-lock.json"], files);
}

/** A model repository, with the hashes of its sources; it is made again when the builders' code changes. */
function repositoryOf(models: readonly CpuModel[]) {
  const builderSha256 = sourcesSha256(["containers/python/engine_room/cpu_models"], /\.py$/);
  const source = (path: string) => ({ source: path, sha256: fileSha256(path) });
  return {
    files: Object.fromEntries(
      models.flatMap(({ name, config, sources, artifact }) => [
        [`${name}/config.pbtxt`, { text: config }],
        ...Object.entries(sources).map(([inner, path]) => [
          `${name}/${inner}`,
          source(`${PYTHON_MODELS}/${path}`),
        ]),
        // Folders exist here by the files in them.
        ...(Object.keys(sources).length > 0 || artifact !== null
          ? []
          : [
              [
                `${name}/${VERSION_FOLDER}/README`,
                { text: "An ensemble has no files; the folder is its version.\n" },
              ],
            ]),
      ]),
    ),
    artifacts: Object.fromEntries(
      models.flatMap(({ name, artifact }) =>
        artifact === null ? [] : [[`${name}/${VERSION_FOLDER}`, { spec: artifact, builderSha256 }]],
      ),
    ),
  };
}

/** Notes for users about the image encoder's weights. */
function notes(vision: Readonly<Record<string, unknown>> | undefined): string[] {
  const weights = String(vision?.weights ?? "");
  if (weights.startsWith("hub:")) return [];
  if (vision?.meaning === false) {
    return [`Image embeddings carry no meaning: the image encoder has random weights (${weights}).`];
  }
  return [
    `Image embeddings come from ${weights}, not from CLIP: image-to-image search works, text-to-image search does not.`,
  ];
}
