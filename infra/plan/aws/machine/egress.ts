/** What the machine may connect to. Pure. */
import type { Ec2Config } from "../../../config/aws-stacks.ts";
import { pulledFrom } from "../context.ts";

/** A model hub, registries and AWS itself answer on 443, mount targets of EFS on 2049. */
const ALWAYS = { https: 443, nfs: 2049 } as const;

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** TCP ports, each once, by what is first reached there. */
export function egressPorts(config: Ec2Config): Readonly<Record<string, number>> {
  const { databases, externalDatabases } = config;
  const registry = new URL(`https://${pulledFrom(config).registry}`);
  const external =
    databases === "external" && externalDatabases !== undefined
      ? { mongo: externalDatabases.mongo.port, vector: urlPort(new URL(externalDatabases.vector.url)) }
      : {};
  const ports = Object.entries({ ...ALWAYS, ...external, registry: urlPort(registry) });
  return Object.fromEntries(
    ports.filter(([, port], index) => ports.findIndex(([, other]) => other === port) === index),
  );
}

function urlPort({ port, protocol }: URL): number {
  return port === "" ? (DEFAULT_PORTS[protocol] as number) : Number(port);
}
