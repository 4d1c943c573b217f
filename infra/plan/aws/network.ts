/** The network of a stack: its own over two or three zones, or one that is there. */
import type { AwsConfig, Ec2Config } from "../../config/aws-stacks.ts";
import { FLOW_LOGS } from "./roles.ts";
import { zoneCidrs } from "./subnets.ts";
import type { AwsContext, NetworkPlan, RolePlan, Tags } from "./types.ts";

/** What machines ask all the time: images, credentials, the file system's addresses, logs. They save a NAT's traffic. */
const INTERFACE_ENDPOINTS = ["ecr.api", "ecr.dkr", "elasticfilesystem", "logs", "sts"] as const;

/** Where the stack file has no `cluster.logRetentionDays`. */
const LOG_RETENTION_DAYS = 30;

/** By which EKS' load balancer controller finds subnets. https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html */
const SUBNET_TAGS: Readonly<Record<"public" | "private", Tags>> = {
  public: { "kubernetes.io/role/elb": "1" },
  private: { "kubernetes.io/role/internal-elb": "1" },
};

export function networkPlan(config: AwsConfig, context: AwsContext): NetworkPlan {
  const { network } = config;
  if (network.existing !== undefined) return { kind: "existing", ...network.existing };
  const { cidr } = network;
  const subnets = network.zones.map((zone) => ({ zone, ...zoneCidrs(cidr, zone) }));
  const isCluster = config.compute === "eks";
  return {
    kind: "create",
    cidr,
    privateSubnets: subnets.map(({ zone, privateCidr }) => ({ zone, cidr: privateCidr })),
    publicSubnets: subnets.map(({ zone, publicCidr }) => ({ zone, cidr: publicCidr })),
    natZones: natZones(config),
    interfaceEndpoints: interfaceEndpoints(network),
    flowLogs: network.flowLogs ? flowLogs(config, context) : null,
    publicSubnetTags: isCluster ? SUBNET_TAGS.public : {},
    privateSubnetTags: isCluster ? SUBNET_TAGS.private : {},
  };
}

/** How many there are of what a network of the stack's own is billed for by the hour; none in one that is there. */
export function networkParts(config: AwsConfig): {
  readonly natGateways: number;
  readonly interfaceEndpoints: number;
  /** Each endpoint is in each of them. */
  readonly endpointZones: number;
} {
  const { network } = config;
  if (network.existing !== undefined) return { natGateways: 0, interfaceEndpoints: 0, endpointZones: 0 };
  return {
    natGateways: natZones(config).length,
    interfaceEndpoints: interfaceEndpoints(network).length,
    endpointZones: network.zones.length,
  };
}

/** Letters of the zones that NAT gateways of a network of the stack's own are in. */
export function natZones(config: AwsConfig): readonly string[] {
  if (config.network.nat === "perZone") return config.network.zones;
  return [config.compute === "ec2" ? instanceZone(config) : firstZone(config)];
}

function interfaceEndpoints({ endpoints }: AwsConfig["network"]): readonly string[] {
  return endpoints === "all" ? INTERFACE_ENDPOINTS : [];
}

/** Letters of the zones that have a public subnet. */
export function publicZones({ existing, zones }: AwsConfig["network"]): readonly string[] {
  return existing === undefined ? zones : existing.publicSubnets.map(({ zone }) => zone);
}

/** Letters of the zones that machines can be in. */
export function machineZones({ existing, zones }: AwsConfig["network"]): readonly string[] {
  return existing === undefined ? zones : existing.privateSubnets.map(({ zone }) => zone);
}

/** Letter of the zone that the machine of a stack without a cluster is in. The order in which zones are named decides nothing. */
export function instanceZone(config: Ec2Config): string {
  return config.pools[0]?.zone ?? firstZone(config);
}

function firstZone({ network }: AwsConfig): string {
  const [first] = machineZones(network).toSorted();
  if (first === undefined) throw new Error("A network has a zone for machines.");
  return first;
}

/** Addresses of the VPC, be it made or there. */
export function vpcCidr({ existing, cidr }: AwsConfig["network"]): string {
  return existing?.cidr ?? cidr;
}

function flowLogs(config: AwsConfig, context: AwsContext) {
  const logGroup = `${context.name}/flow-logs`;
  return {
    logGroup,
    retentionDays: config.compute === "eks" ? config.cluster.logRetentionDays : LOG_RETENTION_DAYS,
    role: flowLogRole(logGroup, context),
  };
}

/** https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html, without the making of log groups. */
function flowLogRole(logGroup: string, { partition, region, account }: AwsContext): RolePlan {
  const groups = `arn:${partition}:logs:${region}:${account}:log-group`;
  return {
    subject: "flow-logs",
    service: FLOW_LOGS,
    managedPolicies: [],
    statements: [
      {
        sid: "WriteFlowLogs",
        effect: "Allow",
        actions: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        resources: [`${groups}:${logGroup}`, `${groups}:${logGroup}:*`],
        why: "Flow logs of the VPC go into the stack's own log group, one stream a network interface.",
      },
      {
        sid: "FindLogGroup",
        effect: "Allow",
        actions: ["logs:DescribeLogGroups"],
        resources: ["*"],
        why: "The service looks the log group up before it writes. The action has no resource.",
      },
    ],
    serviceAccount: null,
  };
}
