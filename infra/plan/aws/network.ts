/** The network of a stack: a new one over two or three zones, or an existing one. */
import type { LogGroupArgs } from "@pulumi/aws/cloudwatch/logGroup.js";
import type { SubnetArgs } from "@pulumi/aws/ec2/subnet.js";
import type { VpcArgs } from "@pulumi/aws/ec2/vpc.js";
import type { AwsConfig, Ec2Config } from "../../config/aws-stacks.ts";
import { flowLogRole } from "./roles.ts";
import { zoneCidrs } from "./subnets.ts";
import type { AwsContext } from "./types.ts";

export type NetworkPlan = ReturnType<typeof networkPlan>;

/** Services that machines use all the time: images, credentials, mount targets, logs. Their endpoints save traffic of a NAT gateway. */
const INTERFACE_ENDPOINTS = ["ecr.api", "ecr.dkr", "elasticfilesystem", "logs", "sts"];

/** Where the stack file has no `cluster.logRetentionDays`. */
const LOG_RETENTION_DAYS = 30;

export function networkPlan(config: AwsConfig, context: AwsContext) {
  const { network } = config;
  if (network.existing !== undefined) return { kind: "existing", ...network.existing } as const;
  const subnets = network.zones.map((zone) => ({ zone, ...zoneCidrs(network.cidr, zone) }));
  // EKS' load balancer controller finds subnets by these: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
  const tags = (role: string) => (config.compute === "eks" ? { [`kubernetes.io/role/${role}`]: "1" } : {});
  const subnet = (zone: string, cidrBlock: string, tags: Readonly<Record<string, string>>) => ({
    zone,
    args: {
      cidrBlock,
      availabilityZone: `${context.region}${zone}`,
      // A NAT gateway has an address of its own, and load balancers get theirs from AWS.
      mapPublicIpOnLaunch: false,
      tags,
    } satisfies Partial<SubnetArgs>,
  });
  return {
    kind: "create" as const,
    // Both together resolve names of interface endpoints, mount targets and machines within the VPC.
    vpc: {
      cidrBlock: network.cidr,
      enableDnsSupport: true,
      enableDnsHostnames: true,
    } satisfies VpcArgs,
    privateSubnets: subnets.map(({ zone, privateCidr }) => subnet(zone, privateCidr, tags("internal-elb"))),
    publicSubnets: subnets.map(({ zone, publicCidr }) => subnet(zone, publicCidr, tags("elb"))),
    /** Zones with a NAT gateway; the others use the first one. */
    natZones: natZones(config),
    interfaceEndpoints: interfaceEndpoints(config),
    flowLogs: network.flowLogs ? flowLogs(config, context) : null,
  };
}

function flowLogs(config: AwsConfig, context: AwsContext) {
  const logGroup = {
    name: `${context.name}/flow-logs`,
    retentionInDays: config.compute === "eks" ? config.cluster.logRetentionDays : LOG_RETENTION_DAYS,
  } satisfies LogGroupArgs;
  return { logGroup, role: flowLogRole(context, logGroup.name) };
}

/** Zones, by letter, with a NAT gateway of the stack. */
export function natZones(config: AwsConfig): readonly string[] {
  const { existing, nat, zones } = config.network;
  if (existing !== undefined) return [];
  if (nat === "perZone") return zones;
  return [config.compute === "ec2" ? instanceZone(config) : firstZone(config)];
}

/** Services with an interface endpoint of the stack. */
export function interfaceEndpoints({ network: { existing, endpoints } }: AwsConfig): readonly string[] {
  return existing === undefined && endpoints === "all" ? INTERFACE_ENDPOINTS : [];
}

/** Zones, by letter, with a public subnet. */
export function publicZones({ existing, zones }: AwsConfig["network"]): readonly string[] {
  return existing === undefined ? zones : existing.publicSubnets.map(({ zone }) => zone);
}

/** Zones, by letter, of machines. */
export function machineZones({ existing, zones }: AwsConfig["network"]): readonly string[] {
  return existing === undefined ? zones : existing.privateSubnets.map(({ zone }) => zone);
}

/** Zone of the machine of a stack on EC2; the order of zones in the stack file does not matter. */
export function instanceZone(config: Ec2Config): string {
  return config.pools[0]?.zone ?? firstZone(config);
}

function firstZone({ network }: AwsConfig): string {
  const [first] = machineZones(network).toSorted();
  if (first === undefined) throw new Error("A network has a zone for machines.");
  return first;
}

/** Addresses of the VPC. */
export function vpcCidr({ existing, cidr }: AwsConfig["network"]): string {
  return existing?.cidr ?? cidr;
}
