/**
 * What the schemas of `platform: docker` can't say, on both tiers: checks that look at several fields at once. They look at
 * raw values, so that they are reported beside wrong types elsewhere.
 */
import { LOOPBACK, PUBLISHED_PORTS, publishedModelPorts } from "../plan/catalogue/published-ports.ts";
import { formatPath, type Problem, showValue } from "../problems.ts";
import { publishedPort } from "./common.ts";
import { remoteDatabaseProblems } from "./database-problems.ts";
import { at, type Path } from "./schema-problems.ts";

type Values = Readonly<Record<string, unknown>>;

export function dockerProblems(values: Values): Problem[] {
  return [
    ...portProblems(values),
    ...addressProblems(values),
    ...remoteDatabaseProblems(values, "mongo.uri and vector.url"),
  ];
}

/** A port that a container of the stack is published on. */
interface PublishedPort {
  readonly path: Path;
  readonly port: number;
  readonly isDefault: boolean;
}

function portProblems(values: Values): Problem[] {
  const published = publishedPorts(values);
  const taken = new Map<number, PublishedPort>();
  const free = freePorts(published);
  return published.flatMap((one) => {
    const first = taken.get(one.port);
    if (first === undefined) {
      taken.set(one.port, one);
      return [];
    }
    return [
      {
        path: formatPath(one.path),
        value: showValue(at(values, one.path)),
        reason: `Port ${one.port} of the host${one.isDefault ? ", which it has by default," : ""} is that of ${formatPath(first.path)}${first.isDefault ? " by default" : ""}.`,
        fix: `Write another one, such as ${free.next().value}.`,
      },
    ];
  });
}

/** Published ports in the order in which they are given out: what a person chose comes before what is a default. */
function publishedPorts(values: Values): readonly PublishedPort[] {
  const models = Array.isArray(values.models) ? values.models : [];
  const all = [
    portAt(values, ["gateway", "port"], PUBLISHED_PORTS.gateway),
    ...models.flatMap((_, index) => tritonPorts(values, ["models", index], publishedModelPorts(index))),
    ...(values.encoders === false ? [] : tritonPorts(values, ["encoders"], PUBLISHED_PORTS.encoders)),
    ...(values.encoders === false || values.databases === "external"
      ? []
      : (["mongo", "vector"] as const).map((name) =>
          portAt(values, ["databasePorts", name], PUBLISHED_PORTS[name]),
        )),
  ].flatMap((one) => (one === null ? [] : [one]));
  return [...all.filter(({ isDefault }) => !isDefault), ...all.filter(({ isDefault }) => isDefault)];
}

function tritonPorts(values: Values, path: Path, defaults: Readonly<Record<string, number>>) {
  return Object.entries(defaults).map(([name, port]) => portAt(values, [...path, "ports", name], port));
}

/** null for a value that the schema refuses. */
function portAt(values: Values, path: Path, byDefault: number): PublishedPort | null {
  const value = at(values, path) ?? byDefault;
  const { success, data } = publishedPort.safeParse(value);
  return success ? { path, port: data, isDefault: at(values, path) === undefined } : null;
}

/** Above all defaults of a stack of usual size, each given once. */
const FIRST_SUGGESTED_PORT = 9000;

function* freePorts(published: readonly PublishedPort[]): Generator<number, never> {
  const taken = new Set(published.map(({ port }) => port));
  for (let port = FIRST_SUGGESTED_PORT; ; port += 1) if (!taken.has(port)) yield port;
}

function addressProblems(values: Values): Problem[] {
  const address = at(values, ["host", "address"]);
  const isInternal = at(values, ["gateway", "exposure"]) === "internal";
  if (isInternal && (address === undefined || address === LOOPBACK)) {
    return [
      {
        path: "host.address",
        value: showValue(address),
        reason: `gateway.exposure: internal binds the gateway to it, and nobody but the host itself reaches ${LOOPBACK}.`,
        fix: "Write the host's address in your network, such as 10.0.0.5, or exposure: host.",
      },
    ];
  }
  if (!isInternal && address !== undefined && address !== LOOPBACK) {
    return [
      {
        path: "host.address",
        value: showValue(address),
        reason: "Only gateway.exposure: internal binds anything to it.",
        fix: "Write exposure: internal under gateway, or remove it.",
      },
    ];
  }
  return [];
}
