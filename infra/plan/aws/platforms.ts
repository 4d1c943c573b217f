/** `platform: aws`: a cluster on EKS, or one machine of EC2. */

import type { AwsConfig, Ec2Config, EksConfig } from "../../config/aws-stacks.ts";
import { counted } from "../../problems.ts";
import { installedCharts, sleepsWithoutMachines } from "../catalogue/aws.ts";
import { externalDatabaseChecks, gatewayChecks, hubChecks } from "../checks/access.ts";
import { accountChecks, regionChecks } from "../checks/aws.ts";
import { createSecret, existingPartChecks, networkChecks } from "../checks/aws-network.ts";
import { checksAs } from "../checks/check.ts";
import { clusterChecks } from "../checks/cluster.ts";
import { clusterAccessChecks } from "../checks/cluster-access.ts";
import { softwareChecks } from "../checks/cluster-software.ts";
import { hostChecks } from "../checks/docker.ts";
import { ec2Checks } from "../checks/ec2.ts";
import { eksChecks } from "../checks/eks.ts";
import { scalingChecks } from "../checks/kubernetes.ts";
import { dockerGpuHost } from "../docker/host.ts";
import type { GpuPlatform } from "../gpu-platform.ts";
import type { GpuStackSpec, RentedParts } from "../spec.ts";
import { backupDays, hasDatabases } from "./backups.ts";
import { ec2AsHost, eksAsCluster, eksCluster, withoutSecrets } from "./base-platforms.ts";
import { METRICS_DISK_GIB } from "./context.ts";
import { systemPool } from "./machines.ts";
import { hasEdge, interfaceEndpoints, natZones, publicZones } from "./network.ts";

const common = {
  isRented: true,
  hasPools: true,
  store({ engineStore }: AwsConfig): GpuStackSpec["store"] {
    const { readMBPerSecond, throughput, provisionedMiBPerSecond = null, existing } = engineStore;
    // A file system that exists already is paid for elsewhere.
    const isOwn = throughput === "provisioned" && existing === undefined;
    const provisionedMiBps = isOwn ? provisionedMiBPerSecond : null;
    return { kind: "efs", readMBPerSecond, sizeGiB: null, provisionedMiBps };
  },
  region: ({ region }: AwsConfig) => region,
  rented: rentedParts,
} as const;

/** Checks of the cluster, of the machine and of their account. */
const awsChecks = {
  ...externalDatabaseChecks("mongo.uri and vector.url"),
  ...regionChecks,
  ...networkChecks,
  ...accountChecks,
  ...existingPartChecks,
  ...hubChecks<AwsConfig>(({ region }) => `hub.tokenSecretArn (\`${createSecret(region)}\` prints the ARN)`),
  ...gatewayChecks("gateway.zoneId or gateway.tls.certificateArn,"),
};

export const eksPlatform: GpuPlatform<EksConfig> = {
  ...common,
  runsOn: "cluster",
  pools: ({ pools }) =>
    pools.map(({ nodes, warm, prePullImages, ...pool }, index) => ({
      ...pool,
      // Warm machines are machines that the autoscaler may not remove; only `npx engine-room sleep` does.
      nodes: { ...nodes, min: Math.max(nodes.min, Math.min(warm, nodes.max)) },
      prePullsImages: prePullImages,
      path: `pools[${index}]`,
    })),
  gateways: ({ gateway }) => gateway.replicas,
  checks: {
    ...awsChecks,
    ...scalingChecks,
    ...eksChecks,
    ...clusterAccessChecks,
    ...softwareChecks,
    ...checksAs(eksAsCluster, clusterChecks),
  },
  plan(wanted, parts) {
    const config = withoutSecrets(wanted);
    return {
      ...parts,
      gateway: eksAsCluster(config).gateway,
      platform: "aws",
      compute: "eks",
      cluster: eksCluster(config),
      config,
    };
  },
};

export const ec2Platform: GpuPlatform<Ec2Config> = {
  ...common,
  runsOn: "host",
  pools: ({ pools }) =>
    pools.map((pool, index) => ({ ...pool, sharing: { mode: "none" }, path: `pools[${index}]` })),
  gateways: () => 1,
  checks: { ...awsChecks, ...hostChecks, ...ec2Checks },
  plan(wanted, parts) {
    const config = withoutSecrets(wanted);
    const host = ec2AsHost(config);
    return {
      ...parts,
      gateway: host.gateway,
      platform: "aws",
      compute: "ec2",
      host: dockerGpuHost(host),
      config,
    };
  },
};

function makesCluster(config: AwsConfig): config is EksConfig {
  return config.compute === "eks" && config.cluster.existing === undefined;
}

/** Claims of MongoDB and Qdrant in a cluster. */
const DATABASES = 2;

/** Resources that are billed by the hour, except the pools of the stack file and the engine store. */
function rentedParts(config: AwsConfig): RentedParts {
  const { zones } = config.network;
  const hasCluster = makesCluster(config);
  const natGateways = natZones(config).length;
  const endpoints = interfaceEndpoints(config).length;
  const addresses = config.gateway.exposure === "public" ? publicZones(config.network).length : 0;
  const services: RentedParts["services"] = [
    { service: "EKS control plane", count: hasCluster ? 1 : 0 },
    { service: "NAT gateway", count: natGateways },
    {
      service: "interface endpoints",
      count: endpoints * zones.length,
      words: `${endpoints} in ${counted(zones.length, "zone")}`,
    },
    // One for each NAT gateway, and one for each zone of a public load balancer.
    { service: "public IPv4 address", count: natGateways + (hasEdge(config) ? addresses : 0) },
    { service: "application load balancer", count: hasEdge(config) ? 1 : 0 },
  ];
  const { name, instanceType, nodes, diskGiB } = systemPool;
  const isEmptyAsleep = config.compute === "eks" && sleepsWithoutMachines(config.cluster);
  const count = nodes.min;
  const asleepCount = isEmptyAsleep ? 0 : count;
  return {
    services: services.filter(({ count }) => count > 0),
    machines: hasCluster ? [{ what: `pool ${name}`, instanceType, count, asleepCount, diskGiB }] : [],
    disks: dataDisks(config),
    logs: cloudwatchLogs(config),
    // The name of the stack is not known here: the file belongs to the stacks that `retain` names.
    copies:
      backupDays(config, config.retain.length > 0) > 0
        ? [{ what: "copies of documents", sizeGiB: config.databaseStorage.sizeGiB }]
        : [],
    notIncluded: [
      "data transfer, and what load balancers, NAT gateways and endpoints handle",
      "flow logs, and requests to the engine store",
      "images in ECR, copies of AWS Backup and keys of KMS",
    ],
    otherHourlyUsd: config.otherHourlyUsd,
    sleepsWithoutMachines: isEmptyAsleep,
  };
}

/**
 * GB of a month, assumed: of a quiet cluster, whose five logs of the control plane are some hundreds of MB a day together, and where the
 * audit log is the most of it. https://abd-ulbasit.github.io/bookstore-kubernetes-guide/14-eks-in-production-a-to-z/05-logging-and-metrics-cost
 */
const CONTROL_PLANE_GB = { audit: 6, other: 1 };
/** Some 30 lines of 130 bytes a second, all containers together. */
const CONTAINER_LOG_GB = 10;

function cloudwatchLogs(config: AwsConfig): RentedParts["logs"] {
  const types = new Set(makesCluster(config) ? config.cluster.controlPlaneLogs : []);
  const { audit, other } = CONTROL_PLANE_GB;
  const controlPlaneGB = [...types].reduce((sum, type) => sum + (type === "audit" ? audit : other), 0);
  const logs = [
    { what: "logs of the control plane", gbPerMonth: controlPlaneGB },
    { what: "logs of containers", gbPerMonth: config.logs.cloudwatch === undefined ? 0 : CONTAINER_LOG_GB },
  ];
  return logs.filter(({ gbPerMonth }) => gbPerMonth > 0);
}

/** Disks of claims; one machine has a disk for databases, even if it runs none. */
function dataDisks(config: AwsConfig): RentedParts["disks"] {
  const { sizeGiB } = config.databaseStorage;
  if (config.compute === "ec2") return [{ what: "disk of databases", count: 1, sizeGiB }];
  const hasMetrics = installedCharts(config.cluster).includes("kube-prometheus-stack");
  return [
    ...(hasDatabases(config) ? [{ what: "disks of databases", count: DATABASES, sizeGiB }] : []),
    ...(hasMetrics ? [{ what: "disk of Prometheus", count: 1, sizeGiB: METRICS_DISK_GIB }] : []),
  ];
}
