/** Endpoints of a stack on a Docker host, and notes for its users. All addresses are the host's own. */
import { LOOPBACK } from "../catalogue/published-ports.ts";
import { IMAGE_USER_ID } from "../containers/container.ts";
import { cpuWeightNotes } from "../cpu-stack.ts";
import { type Endpoints, tritonEndpoints } from "../endpoints.ts";
import type { TritonPorts } from "../repository/launch.ts";
import type { DockerDatabasesPlan } from "./host.ts";
import { type DockerPlan, type DockerVolume, databasesOf, tritonPorts } from "./host-objects.ts";

/** All addresses of the host. */
const ANY_ADDRESS = "0.0.0.0";

export function dockerEndpoints(plan: DockerPlan): Endpoints {
  const { gatewayAddress } = plan.host;
  const address = gatewayAddress === ANY_ADDRESS ? LOOPBACK : gatewayAddress;
  const ports = tritonPorts(plan);
  return {
    gateway: `http://${address}:${plan.gateway.port}`,
    gatewayReach: "host",
    gatewayDnsName: null,
    ...databaseEndpoints(databasesOf(plan)),
    encoders: ports.encoders === null ? null : tritonEndpoints(LOOPBACK, ports.encoders),
    models: Object.fromEntries(
      plan.models.map((model, index) => {
        const endpoints = tritonEndpoints(LOOPBACK, ports.models[index] as TritonPorts);
        const tritonModel = "repository" in model ? model.repository.clientModel : "ensemble";
        return [
          model.name,
          { ...endpoints, generate: `${endpoints.http}/v2/models/${tritonModel}/generate` },
        ];
      }),
    ),
    reach: "host",
  };
}

function databaseEndpoints(databases: DockerDatabasesPlan | null): Pick<Endpoints, "mongo" | "vector"> {
  if (databases === null) return { mongo: null, vector: null };
  if (databases.kind === "external") return { mongo: null, vector: databases.vector.url };
  const { mongo, vector } = databases.ports;
  return { mongo: `mongodb://${LOOPBACK}:${mongo}`, vector: `http://${LOOPBACK}:${vector}` };
}

/** Notes for users of a host that is theirs. */
export function dockerNotes(plan: DockerPlan, volumes: readonly DockerVolume[]): readonly string[] {
  const { gateway, host } = plan;
  const kept = volumes.filter(({ isKept }) => isKept).map(({ name }) => name);
  const notes: string[] = [];
  if (host.gatewayAddress !== LOOPBACK && gateway.apiKeys.length === 0)
    notes.push(
      `Everyone who reaches ${host.gatewayAddress}:${gateway.port} may use the models: gateway.apiKeys is empty; \`npx engine-room key\` makes a key.`,
    );
  if (plan.tier === "cpu") notes.push(...cpuWeightNotes(plan));
  else if (plan.host.storePath !== null)
    notes.push(
      `Builds write weights and engines into ${plan.host.storePath} of the host as user ${IMAGE_USER_ID}, to whom it must belong.`,
    );
  if (plan.tier === "gpu" && plan.models.some(({ spec }) => spec.engine.weights.kind === "s3"))
    notes.push(
      "Weights from S3 are fetched with the credentials of the EC2 machine: its metadata service must answer containers, which are a hop further away (HttpPutResponseHopLimit 2).",
    );
  if (kept.length > 0)
    notes.push(
      `\`npx engine-room down\` leaves what took long to make: \`docker volume rm ${kept.join(" ")}\` deletes it.`,
    );
  return notes;
}
