/** Add-ons, charts and storage that a stack installs in its cluster on EKS, from cluster-software.yaml. */
import type { AddonArgs } from "@pulumi/aws/eks/addon.js";
import type { PersistentVolumeArgs } from "@pulumi/kubernetes/core/v1/persistentVolume.js";
import type { ReleaseArgs } from "@pulumi/kubernetes/helm/v3/release.js";
import type { StorageClassArgs } from "@pulumi/kubernetes/storage/v1/storageClass.js";
import type { EksConfig } from "../../config/aws-stacks.ts";
import {
  addOnVersions,
  type ChartName,
  installedCharts,
  kubernetesVersions,
  LOG_CHART,
  publishedCharts,
} from "../catalogue/aws.ts";
import type { EksPlan } from "../gpu-stack.ts";
import { devicePluginConfigs } from "../kubernetes/capacity.ts";
import { leastReplicas } from "../kubernetes/cluster.ts";
import { eksAsCluster } from "./base-platforms.ts";
import {
  type AwsContext,
  clusterWideNames,
  containerLogGroup,
  METRICS_DISK_GIB,
  NOMINAL_STORE_GIB,
  POOL_LABEL,
  STACK_TAG,
  SYSTEM_POOL,
} from "./context.ts";
import { fileContent, filled, placeholder } from "./data-files.ts";
import { rolePlan, SYSTEM_NAMESPACE } from "./roles.ts";

export type ChartPlan = ReturnType<typeof chartPlans>[number];
export type AddOnPlan = ReturnType<typeof addOnPlans>[number];

/** Add-ons and charts of cluster-software.yaml, which says what their fields are. */
interface Software {
  readonly addOns: Readonly<
    Record<AddOnName, { configuration?: object; role?: string; isBeforeNodes?: true }>
  >;
  readonly charts: Readonly<Record<ChartName, Installation>>;
  readonly alerts: Values;
  readonly storage: { readonly storageClass: StorageClassArgs; readonly engineVolume: PersistentVolumeArgs };
}

type AddOnName = keyof typeof addOnVersions | "coredns" | "kube-proxy";

interface Installation {
  readonly release: string;
  readonly namespace?: string;
  readonly role?: string;
  readonly hasDisk?: true;
  readonly images: readonly string[];
  readonly mirrored: Values;
  readonly values: Values;
}

type Values = Readonly<Record<string, unknown>>;

/** Within which a chart is up. Several images are downloaded, and Prometheus' are large. */
export const CHART_SECONDS = 900;

const SOFTWARE_FILE = "cluster-software.yaml";

/** By name. */
export function addOnPlans({ cluster, engineStore, hub }: EksConfig, context: AwsContext) {
  const versions = { ...addOnVersions, ...kubernetesVersions[cluster.version].addOns };
  const { addOns } = fileContent<Software>(SOFTWARE_FILE);
  const { existing } = cluster;
  const isWanted = (name: AddOnName) =>
    existing === undefined
      ? name !== "aws-secrets-store-csi-driver-provider" || hub.tokenSecretArn !== undefined
      : existing.addOns.some((one) => one === name);
  const fileSystemId = engineStore.existing?.fileSystemId;
  const ownFileSystem = { StringEquals: { [`aws:ResourceTag/${STACK_TAG}`]: context.stack } };
  const roleValues = {
    fileSystemId: fileSystemId ?? "*",
    fileSystemCondition: fileSystemId === undefined ? ownFileSystem : undefined,
  };
  return (Object.keys(addOns) as AddOnName[]).filter(isWanted).map((addonName) => {
    const {
      configuration,
      role,
      isBeforeNodes = false,
    } = filled(addOns[addonName], {
      ...context,
      systemMachines: systemMachines(cluster),
    });
    return {
      args: {
        addonName,
        addonVersion: versions[addonName],
        ...(configuration === undefined ? {} : { configurationValues: JSON.stringify(configuration) }),
        // Changes by hand are reverted; add-ons that an existing cluster had before are not changed.
        resolveConflictsOnCreate: existing === undefined ? "OVERWRITE" : "NONE",
        resolveConflictsOnUpdate: "OVERWRITE",
      } satisfies Partial<AddonArgs>,
      role: role === undefined ? null : rolePlan(context, role, roleValues),
      isBeforeNodes,
    };
  });
}

/** Labels of the machines of controllers; undefined: any of an existing cluster. */
function systemMachines({ existing }: EksConfig["cluster"]): Readonly<Record<string, string>> | undefined {
  return existing === undefined ? { [POOL_LABEL]: SYSTEM_POOL } : undefined;
}

/** Charts that the stack installs, in the order in which they are. */
export function ownCharts(config: EksConfig): readonly ChartName[] {
  const { autoscaling, cluster, logs } = config;
  const usesKeda =
    autoscaling.mechanism === "keda" && Object.keys(leastReplicas(eksAsCluster(config))).length > 0;
  const charts = installedCharts(cluster).filter((name) => name !== "keda" || usesKeda);
  return logs.cloudwatch === undefined ? charts : [...charts, LOG_CHART];
}

export function chartPlans({ config, spec, cluster }: EksPlan, context: AwsContext) {
  const { version: kubernetes, chartValues, mirror } = config.cluster;
  const { monitoringNamespace } = cluster;
  const { charts, alerts } = fileContent<Software>(SOFTWARE_FILE);
  const topicArn = config.monitoringOptions.snsTopicArn;
  const logGroup = containerLogGroup(config, context)?.name;
  const values = {
    ...context,
    // Outputs of other resources.
    clusterName: placeholder("clusterName"),
    vpcId: placeholder("vpcId"),
    autoscalerTag:
      config.cluster.existing === undefined
        ? kubernetesVersions[kubernetes].autoscaler
        : placeholder("autoscalerTag"),
    ...clusterWideNames(config),
    systemMachines: systemMachines(config.cluster),
    devicePluginConfigs: Object.fromEntries(
      // JSON is YAML too.
      Object.entries(devicePluginConfigs(spec.pools, () => null)).map(([pool, own]) => [
        pool,
        JSON.stringify(own),
      ]),
    ),
    metricsClaimPolicy: context.isRetained ? undefined : { whenDeleted: "Delete", whenScaled: "Retain" },
    metricsDiskGiB: METRICS_DISK_GIB,
    monitoringNamespace,
    logGroup,
    alertRole: topicArn === undefined ? undefined : "alertmanager",
    alertConfig: topicArn === undefined ? undefined : filled(alerts, { ...context, topicArn }),
    mirror: mirror.images ?? "",
  };
  return ownCharts(config).map((name) => {
    const { chart, version, repository } = publishedCharts[name];
    const {
      release,
      namespace = SYSTEM_NAMESPACE,
      role,
      hasDisk = false,
      ...installation
    } = filled(charts[name], values);
    const mirrored = mirror.images === undefined ? {} : installation.mirrored;
    const own = chartValues[name];
    return {
      name,
      /** Those of its pods, if they are published. */
      images: installation.images,
      args: {
        ...{ name: release, version, namespace },
        chart: mirror.charts === undefined ? chart : `oci://${mirror.charts}/${chart}`,
        repositoryOpts: mirror.charts === undefined ? { repo: repository } : undefined,
        values: [mirrored, own ?? {}].reduce(merged, installation.values),
        // A null removes a key of the chart.
        ...(own === undefined ? {} : { allowNullValues: true }),
      } satisfies ReleaseArgs,
      role: role === undefined ? null : rolePlan(context, role, { monitoringNamespace, topicArn, logGroup }),
      hasDisk,
    };
  });
}

/** As Helm merges values: maps key by key, all else as a whole. */
function merged(values: Values, over: Values): Values {
  const isMap = (value: unknown): value is Values =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const inner = Object.entries(over).map(([key, value]) => {
    const below = values[key];
    return [key, isMap(below) && isMap(value) ? merged(below, value) : value];
  });
  return { ...values, ...Object.fromEntries(inner) };
}

/** @param values - The file system's handle, which EFS assigns, and the stack's labels. */
export function clusterStorage(
  { isRetained, kmsKeyArn }: Pick<AwsContext, "isRetained" | "kmsKeyArn">,
  names: ReturnType<typeof clusterWideNames>,
  values: Readonly<Record<"volumeHandle" | "labels", unknown>>,
) {
  return filled(fileContent<Software>(SOFTWARE_FILE).storage, {
    ...names,
    ...values,
    kmsKeyArn,
    reclaimPolicy: isRetained ? "Retain" : "Delete",
    storeGiB: NOMINAL_STORE_GIB,
  });
}
