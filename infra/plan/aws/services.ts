/** What of a stack on AWS is billed by the hour, besides the pools of its stack file and the engine store. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { installedCharts, isInstalled } from "../catalogue/charts.ts";
import type { RentedParts } from "../spec.ts";
import { METRICS_DISK_GIB } from "./chart-values.ts";
import { SYSTEM_POOL } from "./names.ts";
import { networkParts, publicZones } from "./network.ts";
import { SYSTEM_DISK_GIB, SYSTEM_MACHINES } from "./node-pools.ts";

/** MongoDB's and Qdrant's, which have a claim each in a cluster. */
const DATABASES = 2;

/** What the stack makes; what is there already is somebody else's bill. */
export function rentedParts(config: AwsConfig): RentedParts {
  const services: RentedParts["services"] = [
    { service: "EKS control plane", count: config.compute === "eks" ? 1 : 0 },
    ...networkServices(config),
    { service: "public IPv4 address", count: publicAddresses(config) },
    { service: "application load balancer", count: hasEdge(config) ? 1 : 0 },
  ];
  return {
    services: services.filter(({ count }) => count > 0),
    machines: systemMachines(config),
    disks: dataDisks(config),
    otherHourlyUsd: config.otherHourlyUsd,
  };
}

/** Whether a load balancer of the stack stands before the gateway: on EKS a controller puts pods behind it. */
export function hasEdge(config: AwsConfig): boolean {
  return config.compute === "ec2" || isInstalled("load-balancer-controller", config.cluster.charts);
}

function networkServices(config: AwsConfig): RentedParts["services"] {
  const { natGateways, interfaceEndpoints, endpointZones } = networkParts(config);
  return [
    { service: "NAT gateway", count: natGateways },
    {
      service: "interface endpoints",
      count: interfaceEndpoints * endpointZones,
      words: `${interfaceEndpoints} in ${endpointZones} ${endpointZones === 1 ? "zone" : "zones"}`,
    },
  ];
}

/** One of each NAT gateway, and one in each zone of a public load balancer. */
function publicAddresses(config: AwsConfig): number {
  const isPublic = hasEdge(config) && config.gateway.exposure === "public";
  return networkParts(config).natGateways + (isPublic ? publicZones(config.network).length : 0);
}

/** Controllers run whatever sleeps. */
function systemMachines({ compute }: AwsConfig): RentedParts["machines"] {
  if (compute !== "eks") return [];
  const { instanceType, count } = SYSTEM_MACHINES;
  return [{ what: `pool ${SYSTEM_POOL}`, instanceType, count, diskGiB: SYSTEM_DISK_GIB }];
}

/** Disks of claims; one machine has one disk for its databases, whether they are its own or not. */
function dataDisks(config: AwsConfig): RentedParts["disks"] {
  if (config.compute === "ec2")
    return [{ what: "disk of databases", count: 1, sizeGiB: config.databaseStorage.sizeGiB }];
  const hasDatabases = config.encoders !== false && config.databases !== "external";
  const hasMetrics = installedCharts(config.cluster.charts).includes("kube-prometheus-stack");
  return [
    ...(hasDatabases
      ? [{ what: "disks of databases", count: DATABASES, sizeGiB: config.databaseStorage.sizeGiB }]
      : []),
    ...(hasMetrics ? [{ what: "disk of Prometheus", count: 1, sizeGiB: METRICS_DISK_GIB }] : []),
  ];
}
