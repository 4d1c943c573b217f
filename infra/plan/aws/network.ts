/** Zones, networks and subnets that a stack file on AWS asks for. A zone has the same addresses whatever other zones there are. */
import type { AwsConfig, Ec2Config } from "../../config/aws-stacks.ts";
import { isInstalled, ZONE_LETTERS, type ZoneLetter } from "../catalogue/aws.ts";

/**
 * Services that machines, controllers and pods use, except S3. For a cluster: https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html;
 * for Systems Manager's agent: https://docs.aws.amazon.com/systems-manager/latest/userguide/setup-create-vpc.html
 */
const INTERFACE_ENDPOINTS: Readonly<Record<AwsConfig["compute"], readonly string[]>> = {
  eks: [
    "autoscaling",
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticfilesystem",
    "elasticloadbalancing",
    "logs",
    "secretsmanager",
    "sts",
  ],
  ec2: [
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "elasticfilesystem",
    "secretsmanager",
    "ssm",
    "ssmmessages",
    "sts",
  ],
};

/** Zones, by letter, with a NAT gateway of the stack. */
export function natZones(config: AwsConfig): readonly string[] {
  const { existing, nat, zones } = config.network;
  if (existing !== undefined) return [];
  if (nat === "perZone") return zones;
  return [config.compute === "ec2" ? instanceZone(config) : firstZone(config)];
}

/** Services with an interface endpoint of the stack. */
export function interfaceEndpoints(config: AwsConfig): readonly string[] {
  const { compute, network, logs } = config;
  if (network.existing !== undefined || network.endpoints !== "private") return [];
  const wanted = [
    ...INTERFACE_ENDPOINTS[compute],
    ...(logs.cloudwatch === undefined ? [] : ["logs"]),
    ...(compute === "eks" && config.monitoringOptions.snsTopicArn !== undefined ? ["sns"] : []),
  ];
  return [...new Set(wanted)].sort();
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

/** The alphabetically first zone of machines; the schema requires a zone. */
function firstZone({ network }: AwsConfig): string {
  return machineZones(network).toSorted()[0] as string;
}

/** Addresses of the VPC. */
export function vpcCidr({ existing, cidr }: AwsConfig["network"]): string {
  return existing?.cidr ?? cidr;
}

/** Whether the stack has a load balancer in front of the gateway: on EKS a controller registers pods with it. */
export function hasEdge(config: AwsConfig): boolean {
  return config.compute === "ec2" || isInstalled("load-balancer-controller", config.cluster.charts);
}

/** An IPv4 network: its first address as a number of 32 bits, how many addresses it has, and the bits of its prefix. */
type Cidr = Readonly<Record<"first" | "size" | "length", number>>;

/** With a longer prefix a zone's pods and machines would have fewer than 512 addresses. */
export const LONGEST_VPC_PREFIX = 20;
/** AWS's limit: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html */
export const SHORTEST_VPC_PREFIX = 16;

/**
 * Subnets of one zone, in a VPC of a /16 to a /20: an eighth of the network for machines, since every pod takes an address of it. The
 * seventh eighth, divided in eight again, is for load balancers and NAT gateways; the last eighth is free.
 */
export function zoneCidrs(vpc: string, zone: ZoneLetter) {
  const { first, size, length } = parseCidr(vpc);
  const slot = ZONE_LETTERS.indexOf(zone);
  return {
    privateCidr: formatCidr({ first: first + (slot * size) / 8, length: length + 3 }),
    publicCidr: formatCidr({ first: first + ((48 + slot) * size) / 64, length: length + 6 }),
  };
}

/** @param text - `10.64.0.0/16`; bits after the length are dropped, as routers drop them. */
export function parseCidr(text: string): Cidr {
  const [address = "", prefix = ""] = text.split("/");
  const length = Number(prefix);
  const size = 2 ** (32 - length);
  const number = address.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  return { first: number - (number % size), size, length };
}

export function formatCidr({ first, length }: Pick<Cidr, "first" | "length">): string {
  const octets = [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256);
  return `${octets.join(".")}/${length}`;
}

export function overlap(a: string, b: string): boolean {
  const [one, other] = [parseCidr(a), parseCidr(b)];
  return one.first < other.first + other.size && other.first < one.first + one.size;
}
