/** Resources of a stack on AWS that are billed by the hour, besides the pools of its stack file and the engine store. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { installedCharts, isInstalled } from "../catalogue/aws.ts";
import type { RentedParts } from "../spec.ts";
import { METRICS_DISK_GIB } from "./charts.ts";
import { interfaceEndpoints, natZones, publicZones } from "./network.ts";
import { systemPool } from "./node-pools.ts";

/** Claims of MongoDB and Qdrant in a cluster. */
const DATABASES = 2;

export function rentedParts(config: AwsConfig): RentedParts {
  const { zones } = config.network;
  const isEks = config.compute === "eks";
  const natGateways = natZones(config).length;
  const endpoints = interfaceEndpoints(config).length;
  const addresses = config.gateway.exposure === "public" ? publicZones(config.network).length : 0;
  const services: RentedParts["services"] = [
    { service: "EKS control plane", count: isEks ? 1 : 0 },
    { service: "NAT gateway", count: natGateways },
    {
      service: "interface endpoints",
      count: endpoints * zones.length,
      words: `${endpoints} in ${zones.length} ${zones.length === 1 ? "zone" : "zones"}`,
    },
    // One for each NAT gateway, and one for each zone of a public load balancer.
    { service: "public IPv4 address", count: natGateways + (hasEdge(config) ? addresses : 0) },
    { service: "application load balancer", count: hasEdge(config) ? 1 : 0 },
  ];
  const { name, instanceType, nodes, diskGiB } = systemPool;
  return {
    services: services.filter(({ count }) => count > 0),
    // Controllers run while all models sleep.
    machines: isEks ? [{ what: `pool ${name}`, instanceType, count: nodes.min, diskGiB }] : [],
    disks: dataDisks(config),
    besides: [
      "data transfer, and what load balancers, NAT gateways and endpoints handle",
      "logs, and requests to the engine store",
      "images in ECR, copies of AWS Backup and keys of KMS",
    ],
    otherHourlyUsd: config.otherHourlyUsd,
  };
}

/** Whether the stack has a load balancer in front of the gateway: on EKS a controller registers pods with it. */
export function hasEdge(config: AwsConfig): boolean {
  return config.compute === "ec2" || isInstalled("load-balancer-controller", config.cluster.charts);
}

/** Disks of claims; one machine has a disk for databases, even where it runs none. */
function dataDisks(config: AwsConfig): RentedParts["disks"] {
  const { sizeGiB } = config.databaseStorage;
  if (config.compute === "ec2") return [{ what: "disk of databases", count: 1, sizeGiB }];
  const hasDatabases = config.encoders !== false && config.databases !== "external";
  const hasMetrics = installedCharts(config.cluster.charts).includes("kube-prometheus-stack");
  return [
    ...(hasDatabases ? [{ what: "disks of databases", count: DATABASES, sizeGiB }] : []),
    ...(hasMetrics ? [{ what: "disk of Prometheus", count: 1, sizeGiB: METRICS_DISK_GIB }] : []),
  ];
}
