/** Values of charts, and where alerts of a cluster go. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import { isSecure } from "../../problems.ts";
import { ownCharts } from "../aws/cluster-software.ts";
import { type ChartName, isInstalled } from "../catalogue/aws.ts";
import type { CheckedStack, Checks } from "./check.ts";
import { oneOf } from "./shared-messages.ts";

/** Last words of keys whose text is a secret in charts; `existingSecret` and `passwordKey` name where one is. */
const SECRET_KEY = /(password|passwd|token|api_?key|private_?key|secret_?key|access_?key|credentials)$/i;

export const softwareChecks = {
  valuesReachCharts: ({ config }) => {
    const own = ownCharts(config);
    return (Object.keys(config.cluster.chartValues) as ChartName[])
      .filter((name) => !own.includes(name))
      .map((name) => ({
        path: `cluster.chartValues.${name}`,
        reason: `The stack does not install ${name}, so its values would have no effect. It installs ${oneOf(own)}.`,
        fix:
          name === "fluent-bit"
            ? "Write `logs: { cloudwatch: {} }`, or remove it."
            : "Remove it, or the line of cluster.charts.",
      }));
  },

  valuesHaveNoSecrets: ({ config: { cluster } }) =>
    secretPaths(cluster.chartValues, "cluster.chartValues").map((path) => ({
      path,
      // Not shown.
      value: "a secret",
      reason: "Values of charts are in the state and in the cluster's release as plain text.",
      fix: "Create a Secret in the chart's namespace, and name it by the key that the chart has for it (existingSecret, secretName, valueFrom).",
    })),

  alertsAreOfPrometheus: ({ config: { cluster, monitoringOptions } }) => {
    if (monitoringOptions.snsTopicArn === undefined) return [];
    const { charts } = cluster;
    const path = "monitoringOptions.snsTopicArn";
    if ((charts["kube-prometheus-stack"] ?? "install") === "install") return [];
    return {
      path,
      reason: `Alertmanager sends alerts, and the stack ${isInstalled("kube-prometheus-stack", charts) ? "does not configure one that exists already" : "has no Alertmanager without kube-prometheus-stack"}.`,
      fix: "Remove it, or cluster.charts.kube-prometheus-stack.",
    };
  },

  // https://docs.aws.amazon.com/sns/latest/dg/sns-cross-region-delivery.html is about subscriptions: a topic is asked in its region.
  topicIsOfRegion: ({ config: { monitoringOptions, region } }) => {
    const ofRegion = monitoringOptions.snsTopicArn?.split(":")[3] ?? region;
    if (ofRegion === region) return [];
    return {
      path: "monitoringOptions.snsTopicArn",
      reason: `The topic is in ${ofRegion === "" ? "no region" : ofRegion}, and Alertmanager asks SNS of ${region}, the stack's region.`,
      fix: `Create a topic in ${region}, and write its ARN.`,
    };
  },
} satisfies Checks<CheckedStack<EksConfig>>;

/** Paths of values that are secrets, by their keys or because the stack file has them encrypted. */
function secretPaths(value: unknown, path: string): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const own = Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`;
    const isText = typeof inner === "string" && inner !== "";
    return isSecure(inner) || (isText && SECRET_KEY.test(key)) ? [own] : secretPaths(inner, own);
  });
}
