/** Where a stack on a Docker host answers, and what its users have to know. All addresses are the host's own. */
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { IMAGE_USER_ID } from "../containers/container.ts";
import { cpuWeightNotes, type DockerCpuPlan } from "../cpu-stack.ts";
import { type Endpoints, type ModelEndpoints, tritonEndpoints } from "../endpoints.ts";
import type { DockerGpuPlan } from "../gpu-stack.ts";
import type { TritonPorts } from "../repository/launch.ts";
import type { DockerDatabasesPlan } from "./host.ts";
import type { DockerVolume } from "./host-objects.ts";

type DockerPlan = DockerCpuPlan | DockerGpuPlan;

/** All addresses of the host. */
const ANY_ADDRESS = "0.0.0.0";

export function dockerEndpoints(plan: DockerPlan): Endpoints {
  const { gatewayAddress } = plan.host;
  const address = gatewayAddress === ANY_ADDRESS ? LOOPBACK : gatewayAddress;
  const encoderPorts = plan.tier === "cpu" ? plan.encoders.ports : plan.host.encoderPorts;
  return {
    gateway: `http://${address}:${plan.gateway.port}`,
    gatewayReach: "host",
    gatewayDnsName: null,
    ...databaseEndpoints(plan),
    encoders: encoderPorts === null ? null : tritonEndpoints(LOOPBACK, encoderPorts),
    models:
      plan.tier === "cpu"
        ? Object.fromEntries(plan.models.map(({ name, ports }) => [name, modelEndpoints(ports, "ensemble")]))
        : Object.fromEntries(
            plan.models.map(({ name, repository }, index) => [
              name,
              modelEndpoints(plan.host.modelPorts[index] as TritonPorts, repository.clientModel),
            ]),
          ),
    reach: "host",
  };
}

function modelEndpoints(ports: TritonPorts, tritonModel: string): ModelEndpoints {
  const endpoints = tritonEndpoints(LOOPBACK, ports);
  return { ...endpoints, generate: `${endpoints.http}/v2/models/${tritonModel}/generate` };
}

function databaseEndpoints(plan: DockerPlan): Pick<Endpoints, "mongo" | "vector"> {
  const databases = databasesOf(plan);
  if (databases === null) return { mongo: null, vector: null };
  if (databases.kind === "external") return { mongo: null, vector: databases.vector.url };
  const { mongo, vector } = databases.ports;
  return { mongo: `mongodb://${LOOPBACK}:${mongo}`, vector: `http://${LOOPBACK}:${vector}` };
}

/** Notes for users of a host that is theirs. */
export function dockerNotes(plan: DockerPlan, volumes: readonly DockerVolume[]): readonly string[] {
  return [
    ...keyNote(plan),
    ...(plan.tier === "cpu" ? cpuWeightNotes(plan) : []),
    ...storeNote(plan),
    ...bucketNote(plan),
    ...keptNote(volumes.filter(({ isKept }) => isKept)),
  ];
}

function keyNote({ gateway, host }: DockerPlan): readonly string[] {
  if (host.gatewayAddress === LOOPBACK || gateway.apiKeys.length > 0) return [];
  return [
    `Everybody who reaches ${host.gatewayAddress}:${gateway.port} may use the models: gateway.apiKeys is empty; \`npm run key\` makes a key.`,
  ];
}

function storeNote(plan: DockerPlan): readonly string[] {
  if (plan.tier === "cpu" || plan.host.storePath === null) return [];
  return [
    `Builds write weights and engines into ${plan.host.storePath} of the host as user ${IMAGE_USER_ID}, to whom it must belong.`,
  ];
}

function bucketNote(plan: DockerPlan): readonly string[] {
  if (plan.tier === "cpu" || !plan.models.some(({ spec }) => spec.engine.weights.kind === "s3")) return [];
  return [
    "Weights from S3 are fetched with the credentials of the EC2 machine: its metadata service must answer containers, which are a hop further away (HttpPutResponseHopLimit 2).",
  ];
}

function keptNote(kept: readonly DockerVolume[]): readonly string[] {
  if (kept.length === 0) return [];
  const names = kept.map(({ name }) => name).join(" ");
  return [`\`npm run down\` leaves what took long to make: \`docker volume rm ${names}\` deletes it.`];
}

/** null: the stack has no encoders, and documents are found by their vectors. */
export function databasesOf(plan: DockerPlan): DockerDatabasesPlan | null {
  return plan.tier === "cpu" ? plan.databases : plan.host.databases;
}
