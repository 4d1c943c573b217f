/** The gateway's container. */

import { SPEC_FILES } from "../container-specs.ts";
import { gatewayConfig } from "../gateway-config.ts";
import { canonicalJson } from "../plain-data.ts";
import { plannedDatabases, type StackPlan } from "../stack-plan.ts";
import { type Container, type ContainerSettings, container } from "./container.ts";
import { DATABASE_PORTS } from "./databases.ts";
import { ENCODERS, tritonAddress } from "./servers.ts";

/** Listened on in the container. */
export const GATEWAY_PORT = 8080;

/** A small image and a fast program. */
const START_SECONDS = 30;

/** Running answers end first; later ones are cut off. */
const STOP_SECONDS = 30;
/** After the last answer, if all of them are waited for. */
const END_SECONDS = 10;

/** The gateway, with its configuration in a file. */
export function gatewayContainer(plan: StackPlan, settings: ContainerSettings): Container {
  const { limits } = plan.gateway;
  // Not /readyz, which checks the gateway's upstreams: it serves one model while another loads.
  const check = { kind: "http", path: "/healthz", port: GATEWAY_PORT } as const;
  return container({
    role: "gateway",
    name: "gateway",
    image: "services",
    arguments: ["gateway", "--config", SPEC_FILES.gateway],
    files: { [SPEC_FILES.gateway]: canonicalJson(configuration(plan, settings)) },
    secretFiles: databaseSecrets(plan),
    ports: { http: GATEWAY_PORT },
    readiness: check,
    liveness: check,
    startSeconds: START_SECONDS,
    stopSeconds: settings.answersBeforeEnd ? limits.requestSeconds + END_SECONDS : STOP_SECONDS,
  });
}

function configuration(plan: StackPlan, { apiKeysFile }: ContainerSettings): Record<string, unknown> {
  const { apiKeys, ...config } = gatewayConfig(plan, {
    ...(plan.encoders === null ? {} : { encoders: tritonAddress(ENCODERS) }),
    models: plan.models.map(({ name }) => tritonAddress(name)),
    mongo: `mongodb://mongo:${DATABASE_PORTS.mongo}`,
    vector: `http://vector:${DATABASE_PORTS.vector}`,
  });
  return {
    host: "0.0.0.0",
    port: GATEWAY_PORT,
    ...config,
    ...(apiKeysFile === null || plan.gateway.apiKeys.length === 0 ? { apiKeys } : { apiKeysFile }),
  };
}

/** Address and key of databases elsewhere, in the files that the configuration names. */
function databaseSecrets(plan: StackPlan): Container["secretFiles"] {
  const databases = plannedDatabases(plan);
  if (databases?.kind !== "external") return {};
  const { apiKeyFile } = databases.vector;
  return {
    [databases.mongo.uriFile]: "mongoUri",
    ...(apiKeyFile === undefined ? {} : { [apiKeyFile]: "vectorApiKey" }),
  };
}
