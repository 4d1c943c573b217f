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
import { formatPath, type Problem, secretCommand, showValue } from "../problems.ts";
import { remoteDatabaseProblems } from "./database-problems.ts";
import { at, type Path } from "./schema-problems.ts";

type Values = Readonly<Record<string, unknown>>;

export function kubernetesProblems(values: Values): Problem[] {
  return [
    ...remoteDatabaseProblems(values, "mongo.uri or mongo.uriSecret, and vector.url"),
    ...namespaceProblems(values),
    ...prePullProblems(values),
    ...addressProblems(values),
    ...oneOf(values, ["engineStore", "existingClaim"], ["engineStore", "existingVolume"]),
    ...autoscalingProblems(values),
    ...scheduleProblems(values),
    ...routeProblems(values),
  ];
}

/** Kubernetes' own, and names of which it keeps those of priority classes for itself. */
const RESERVED_NAMESPACES = /^(default|kube-.*|openshift-.*|system-.*)$/;

/** A namespace that the stack makes gets its labels and a quota, whoever else is in it. */
function namespaceProblems({ namespace, createNamespace }: Values): Problem[] {
  if (typeof namespace !== "string" || !RESERVED_NAMESPACES.test(namespace)) return [];
  if (createNamespace === false && !namespace.startsWith("system-")) return [];
  return [
    {
      path: "namespace",
      value: showValue(namespace),
      reason: "The stack would put Pod Security labels and a quota on a namespace that is the cluster's own.",
      fix: "Give the stack a namespace of its own, such as engine-room.",
    },
  ];
}

/** A DaemonSet without a selector runs on every machine that takes pods. */
function prePullProblems({ pools }: Values): Problem[] {
  if (!Array.isArray(pools)) return [];
  return pools.flatMap((pool: unknown, index) => {
    const selector = at(pool, ["nodeSelector"]);
    if (at(pool, ["prePullImages"]) !== true || Object.keys(selector ?? {}).length > 0) return [];
    return [
      {
        path: `pools[${index}].prePullImages`,
        value: "true",
        reason:
          "The pool has no nodeSelector, so that its images, of 20 GB and more, would be pulled to every machine of the cluster.",
        fix: "Write the labels of the pool's machines in nodeSelector, such as { nvidia.com/gpu.product: NVIDIA-A10G }.",
      },
    ];
  });
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
            fix: `Set it with ${secretCommand("externalDatabases.mongo.uri")}, or name a Secret of the namespace.`,
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
