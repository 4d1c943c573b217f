/** What of a stack on AWS is billed by the hour, besides machines and disks. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
import { isInstalled } from "../catalogue/charts.ts";
import type { RentedService } from "../spec.ts";
import { awsContext } from "./context.ts";
import { networkPlan } from "./network.ts";

/** Those that the stack makes; what is there already is somebody else's bill. */
export function rentedServices(config: AwsConfig): readonly RentedService[] {
  const services: readonly RentedService[] = [
    { service: "EKS control plane", count: config.compute === "eks" ? 1 : 0 },
    ...networkServices(config),
    { service: "application load balancer", count: hasEdge(config) ? 1 : 0 },
  ];
  return services.filter(({ count }) => count > 0);
}

/** Whether a load balancer of the stack stands before the gateway: on EKS a controller puts pods behind it. */
export function hasEdge(config: AwsConfig): boolean {
  return config.compute === "ec2" || isInstalled("load-balancer-controller", config.cluster.charts);
}

function networkServices(config: AwsConfig): readonly RentedService[] {
  // Which stack it is changes names only.
  const network = networkPlan(config, awsContext(config, ""));
  if (network.kind === "existing") return [];
  return [
    { service: "NAT gateway", count: network.natZones.length },
    {
      service: "interface endpoint, a zone",
      count: network.interfaceEndpoints.length * network.privateSubnets.length,
    },
  ];
}
