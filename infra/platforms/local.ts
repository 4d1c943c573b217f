/** The whole service on this machine: Triton on the CPU, encoders, a small language model, the gateway. */
import * as pulumi from "@pulumi/pulumi";
import type { RepositoryArtifact, RepositoryFile } from "../../components/local/provider/inputs.ts";
import { PythonEnvironment } from "../../components/local/resources.ts";
import { LocalDatabase } from "../../components/services/local-database.ts";
import { LocalGateway } from "../../components/services/local-gateway.ts";
import { CpuTriton } from "../../components/serving/cpu-triton.ts";
import type { DeployedStack } from "../outputs.ts";
import {
  encodersRepository,
  languageModelRepository,
  type RepositoryPlan,
} from "../plan/cpu-repositories.ts";
import type { DatabasePorts, LocalPlan } from "../plan/cpu-stack.ts";
import { gatewayConfig } from "../plan/gateway-config.ts";
import { planOutputs } from "../plan-outputs.ts";
import { fileSha256, sourcesSha256 } from "../project-files.ts";

const REQUIREMENTS = "containers/cpu-models/requirements.lock";

/** Registers the resources of a local stack. */
export function deployLocal(plan: LocalPlan): DeployedStack {
  const stackDirectory = `.stacks/${pulumi.getStack()}`;
  const requirementsSha256 = fileSha256(REQUIREMENTS);
  const environment = new PythonEnvironment("python", {
    directory: `${stackDirectory}/python`,
    requirements: REQUIREMENTS,
    requirementsSha256,
    ...(plan.pythonVersion === undefined ? {} : { pythonVersion: plan.pythonVersion }),
  });
  const environmentKey = `${requirementsSha256} ${plan.pythonVersion ?? "any Python"}`;
  /** The builders' own code: the repositories are made again when it changes. */
  const builderSha256 = sourcesSha256(["containers/cpu-models/engine_room_models"], /\.py$/);
  const common = { stackDirectory, python: environment.python, environmentKey };

  const encoders = new CpuTriton("encoders", {
    ...common,
    ...withHashes(encodersRepository(plan.encoders), builderSha256),
    ports: plan.encoders.ports,
  });
  const models = plan.models.map((model) => ({
    model,
    triton: new CpuTriton(model.name, {
      ...common,
      ...withHashes(languageModelRepository(model), builderSha256),
      ports: model.ports,
    }),
  }));
  const { databases } = plan;
  const mongo = databases.kind === "mock" ? mockDatabase("mongo", databases.ports, common) : undefined;
  const vector = databases.kind === "mock" ? mockDatabase("vector", databases.ports, common) : undefined;
  const gateway = new LocalGateway("gateway", {
    ...common,
    port: plan.gateway.port,
    sourceSha256: sourcesSha256(
      [
        "containers/services/gateway",
        "containers/services/service-process",
        "containers/services/triton-requests",
        "package-lock.json",
      ],
      /\.(ts|js|json|html|css|svg)$/,
    ),
    config: pulumi
      .all([
        encoders.endpoints,
        pulumi.all(models.map(({ triton }) => triton.endpoints)),
        mongo?.endpoint,
        vector?.endpoint,
      ])
      .apply(([encoder, language, mongoUri, vectorUrl]) =>
        gatewayConfig(plan, {
          encoders: encoder.http,
          models: language.map(({ http }) => http),
          ...(mongoUri === undefined ? {} : { mongo: mongoUri }),
          ...(vectorUrl === undefined ? {} : { vector: vectorUrl }),
        }),
      ),
  });

  const modelEndpoints = Object.fromEntries(
    models.map(({ model, triton }) => [
      model.name,
      triton.endpoints.apply((endpoints) => ({
        ...endpoints,
        generate: `${endpoints.http}/v2/models/ensemble/generate`,
      })),
    ]),
  );
  return planOutputs(plan, () => "host", {
    endpoints: pulumi.output({
      gateway: gateway.endpoint,
      gatewayReach: "host" as const,
      gatewayDnsName: null,
      mongo: mongo?.endpoint ?? null,
      vector: vector?.endpoint ?? (databases.kind === "external" ? databases.vector.url : null),
      encoders: encoders.endpoints,
      models: modelEndpoints,
      reach: "host" as const,
    }),
    engineStore: `${stackDirectory}/repositories`,
    notes: encoders.facts.apply((facts) => notes(facts["vision_encoder/1"])),
  });
}

/** Data of a stack outlive it: `npm run down` leaves them. */
function mockDatabase(
  kind: "mongo" | "vector",
  ports: DatabasePorts,
  { stackDirectory, python }: { readonly stackDirectory: string; readonly python: pulumi.Output<string> },
): LocalDatabase {
  return new LocalDatabase(kind, {
    kind,
    stackDirectory,
    python,
    dataDirectory: `.data/${pulumi.getStack()}/${kind}`,
    requestedPorts:
      kind === "mongo" ? { mongo: ports.mongo, metrics: ports.mongoMetrics } : { http: ports.vector },
    sourceSha256: sourcesSha256(
      [`containers/services/mock-${kind}`, "containers/services/service-process", "package-lock.json"],
      /\.(ts|json)$/,
    ),
  });
}

/** A planned repository with the hashes of what it is made from. */
function withHashes(
  plan: RepositoryPlan,
  builderSha256: string,
): { files: Record<string, RepositoryFile>; artifacts: Record<string, RepositoryArtifact> } {
  return {
    files: Object.fromEntries(
      Object.entries(plan.files).map(([path, file]) => [
        path,
        "text" in file ? file : { ...file, sha256: fileSha256(file.source) },
      ]),
    ),
    artifacts: Object.fromEntries(
      Object.entries(plan.artifacts).map(([path, spec]) => [
        path,
        { spec: spec as unknown as RepositoryArtifact["spec"], builderSha256 },
      ]),
    ),
  };
}

/** What users have to know of the image encoder's weights. */
function notes(vision: Readonly<Record<string, unknown>> | undefined): string[] {
  const weights = String(vision?.weights ?? "");
  if (weights.startsWith("hub:")) return [];
  if (vision?.meaning === false) {
    return [`Image embeddings carry no meaning: the image encoder has random weights (${weights}).`];
  }
  return [
    `Image embeddings come from ${weights}, not from CLIP: images find like images, but words do not find images.`,
  ];
}
