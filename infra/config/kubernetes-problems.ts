/**
 * What the schema of `platform: kubernetes` can't say: checks that look at several fields at once. They look at raw values,
 * so that they are reported beside wrong types elsewhere.
 */
import {
  publicHasKeys,
  publicHasTls,
  type RemoteGateway,
  tlsHasHostname,
  tlsHasOneCertificate,
} from "../gateway-access.ts";
import { formatPath, type Problem, showValue } from "../problems.ts";
import { remoteDatabaseProblems } from "./database-problems.ts";
import { at, type Path } from "./schema-problems.ts";

type Values = Readonly<Record<string, unknown>>;

export function kubernetesProblems(values: Values): Problem[] {
  return [
    ...remoteDatabaseProblems(values, "mongo.uri or mongo.uriSecret, and vector.url"),
    ...addressProblems(values),
    ...autoscalingProblems(values),
    ...scheduleProblems(values),
    ...routeProblems(values),
  ];
}

/** Least and most numbers of servers, and who can do zero. */
function autoscalingProblems(values: Values): Problem[] {
  const models = Array.isArray(values.models) ? values.models : [];
  const isHorizontal = at(values, ["autoscaling", "mechanism"]) === "hpa";
  const owners: readonly Path[] = [...models.map((_, index) => ["models", index]), ["encoders"], ["gateway"]];
  return owners.flatMap((owner) => {
    const path = [...owner, "minReplicas"];
    const [min, most = 1] = [at(values, path), at(values, [...owner, "replicas"])];
    if (typeof min !== "number" || typeof most !== "number") return [];
    const problem = { path: formatPath(path), value: showValue(min) };
    return [
      ...(min > most
        ? [
            {
              ...problem,
              reason: `replicas is ${most}, which is the most, and ${min} is more.`,
              fix: `Write ${most} or less, or raise replicas.`,
            },
          ]
        : []),
      ...(min === 0 && isHorizontal
        ? [
            {
              ...problem,
              reason: "A HorizontalPodAutoscaler has one pod at least.",
              fix: "Write 1, or autoscaling: { mechanism: keda } with KEDA in the cluster.",
            },
          ]
        : []),
    ];
  });
}

const GATEWAY_RULES = [publicHasKeys, publicHasTls, tlsHasHostname, tlsHasOneCertificate] as const;

/** Of `tier: cpu`, whose plan has no checks of its own. @param gateway - As the schema has read it. */
export function cpuGatewayProblems(gateway: RemoteGateway): Problem[] {
  return GATEWAY_RULES.flatMap((rule) =>
    rule(gateway, "kubernetes").map(({ path, reason, fix }) => ({
      path,
      value: showValue(at({ gateway }, path.split("."))),
      reason,
      fix,
    })),
  );
}

/** A schedule is one more thing that autoscalers of models look at. */
function scheduleProblems(values: Values): Problem[] {
  if (values.schedule === undefined) return [];
  const models = Array.isArray(values.models) ? values.models : [];
  const problem = { path: "schedule", value: "(set)" };
  if (models.every((model) => at(model, ["minReplicas"]) === undefined))
    return [
      {
        ...problem,
        reason: "No model has minReplicas, so that all of them always have their servers.",
        fix: "Write minReplicas: 0 for the models that may sleep, or remove schedule.",
      },
    ];
  if (at(values, ["autoscaling", "mechanism"]) !== "hpa") return [];
  return [
    {
      ...problem,
      reason: "A HorizontalPodAutoscaler knows no time of the day.",
      fix: "Write autoscaling: { mechanism: keda } with KEDA in the cluster, or remove schedule.",
    },
  ];
}

/** A Gateway has the certificate and the class that an Ingress names. */
function routeProblems(values: Values): Problem[] {
  if (at(values, ["gateway", "route"]) === undefined) return [];
  const without = (["tls", "ingressClass"] as const).filter(
    (key) => at(values, ["gateway", key]) !== undefined,
  );
  return [
    ...without.map((key) => ({
      path: `gateway.${key}`,
      value: "(set)",
      reason: "It is of the Ingress, and gateway.route makes an HTTPRoute instead.",
      fix: "Remove it: the listener of the Gateway has it.",
    })),
    ...(at(values, ["gateway", "hostname"]) === undefined
      ? [
          {
            path: "gateway.hostname",
            value: "(absent)",
            reason: "A route is for a name, and none is given.",
            fix: "Set the name by which clients reach the gateway.",
          },
        ]
      : []),
  ];
}

/** A value and a Secret that holds it: one of them, of the address at least one. */
function addressProblems(values: Values): Problem[] {
  const [mongo, vector] = [["externalDatabases", "mongo"] as const, ["externalDatabases", "vector"] as const];
  if (typeof at(values, ["externalDatabases"]) !== "object") return [];
  return [
    ...oneOf(values, [...mongo, "uri"], [...mongo, "uriSecret"]),
    ...oneOf(values, [...vector, "apiKey"], [...vector, "apiKeySecret"]),
    ...(at(values, [...mongo, "uri"]) === undefined && at(values, [...mongo, "uriSecret"]) === undefined
      ? [
          {
            path: formatPath([...mongo, "uri"]),
            value: "(absent)",
            reason: "The address of the document database is in neither mongo.uri nor mongo.uriSecret.",
            fix: "Set it with `pulumi config set --secret --path engine-room:externalDatabases.mongo.uri`, or name a Secret of the namespace.",
          },
        ]
      : []),
  ];
}

function oneOf(values: Values, value: Path, secret: Path): Problem[] {
  if (at(values, value) === undefined || at(values, secret) === undefined) return [];
  return [
    {
      path: formatPath(secret),
      value: "(set)",
      reason: `${formatPath(value)} and ${formatPath(secret)} both give it, and only one can be used.`,
      fix: "Keep one of them.",
    },
  ];
}
