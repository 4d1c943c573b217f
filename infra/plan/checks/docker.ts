/** Stacks whose containers all run on one machine: ports, address, replicas. */

import type { StackConfig } from "../../config/config.ts";
import { showValue, valueAt } from "../../problems.ts";
import { LOOPBACK, PUBLISHED_PORTS, publishedModelPorts } from "../catalogue/published-ports.ts";
import type { CheckedFile, Checks } from "./check.ts";

/** Above all defaults of a stack of usual size. */
const FIRST_SUGGESTED_PORT = 9000;

type DockerFile = CheckedFile<Extract<StackConfig, { platform: "docker" }>>;

/** Checks of `platform: docker`, on both tiers. */
export const dockerChecks = {
  portsDiffer: (file) => {
    const published = publishedPorts(file);
    const ports = published.map(({ port }) => port);
    const repeated = published.filter(({ port }, index) => ports.indexOf(port) !== index);
    const free = Array.from({ length: 2 * ports.length }, (_, index) => FIRST_SUGGESTED_PORT + index).filter(
      (port) => !ports.includes(port),
    );
    return repeated.map(({ path, port, isDefault }, index) => {
      const first = published[ports.indexOf(port)];
      return {
        path,
        value: isDefault ? "(absent)" : showValue(port),
        reason: `Port ${port} of the host${isDefault ? " (the default)" : ""} is taken by ${first?.path}${first?.isDefault ? " (its default)" : ""}.`,
        fix: `Use another port, such as ${free[index]}.`,
      };
    });
  },

  addressIsOfNetwork: ({ config, written }) => {
    const isInternal = config.gateway.exposure === "internal";
    if (isInternal === (config.host.address !== LOOPBACK)) return [];
    return {
      path: "host.address",
      value: showValue(valueAt(written, ["host", "address"])),
      reason: isInternal
        ? `gateway.exposure: internal binds the gateway to this address, and only the host itself reaches ${LOOPBACK}.`
        : "Only gateway.exposure: internal uses this address.",
      fix: isInternal
        ? "Write the host's address in your network, such as 10.0.0.5, or exposure: host."
        : "Write exposure: internal under gateway, or remove it.",
    };
  },
} satisfies Checks<DockerFile>;

/** A port that a container of the stack is published on. */
interface PublishedPort {
  readonly path: string;
  readonly port: number;
  readonly isDefault: boolean;
}

/** Ports in the order in which they are assigned: written values before defaults. */
function publishedPorts({ config, written }: DockerFile): readonly PublishedPort[] {
  const { models, encoders, databases, databasePorts } = config;
  const { gateway, mongo, vector } = PUBLISHED_PORTS;
  const all = [
    ...portsOf("gateway", { port: valueAt(written, ["gateway", "port"]) }, { port: gateway }),
    ...models.flatMap(({ ports }, index) =>
      portsOf(`models[${index}].ports`, ports, publishedModelPorts(index)),
    ),
    ...(encoders === false ? [] : portsOf("encoders.ports", encoders.ports, PUBLISHED_PORTS.encoders)),
    ...(encoders === false || databases === "external"
      ? []
      : portsOf("databasePorts", databasePorts, { mongo, vector })),
  ];
  return [...all.filter(({ isDefault }) => !isDefault), ...all.filter(({ isDefault }) => isDefault)];
}

function portsOf(
  path: string,
  chosen: Readonly<Record<string, unknown>>,
  defaults: Readonly<Record<string, number>>,
): readonly PublishedPort[] {
  return Object.entries(defaults).map(([name, port]) => ({
    path: `${path}.${name}`,
    port: typeof chosen[name] === "number" ? chosen[name] : port,
    isDefault: chosen[name] === undefined,
  }));
}

/** By the key whose `replicas` are too many. */
const REPLICA_FIXES = {
  models: "Write 1; if a GPU is free, add a second model under another name.",
  encoders: "Write 1; a larger encoders.maxBatchSize serves more requests at a time.",
  gateway: "Write 1; the models limit the throughput, not the gateway.",
};

/** Checks of stacks with GPUs on a Docker host or on one EC2 instance. */
export const hostChecks = {
  // The gateway asks one address for each model, and Docker spreads no requests over containers.
  hostsHaveNoReplicas: ({ config: { models, encoders, gateway } }) => {
    const tooMany = (path: string, kind: keyof typeof REPLICA_FIXES, replicas: number) =>
      replicas > 1 && {
        path: `${path}.replicas`,
        reason: `A single machine has no load balancer for ${replicas} servers of one name.`,
        fix: REPLICA_FIXES[kind],
      };
    return [
      models.map(({ replicas }, index) => tooMany(`models[${index}]`, "models", replicas)),
      encoders !== false && tooMany("encoders", "encoders", encoders.replicas),
      "replicas" in gateway && tooMany("gateway", "gateway", gateway.replicas),
    ];
  },
} satisfies Checks;
