/** The network of a stack: its own over two or three zones, or one that is there. */
import type { AwsConfig } from "../../config/aws-stacks.ts";
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
    natZones: natZones(network),
    interfaceEndpoints: interfaceEndpoints(network),
    flowLogs: network.flowLogs ? flowLogs(config, context) : null,
    publicSubnetTags: isCluster ? SUBNET_TAGS.public : {},
    privateSubnetTags: isCluster ? SUBNET_TAGS.private : {},
  };
}

/** Zones with a NAT gateway, in a network that is made. */
export function natZones({ nat, zones }: AwsConfig["network"]): readonly string[] {
  return nat === "perZone" ? zones : zones.slice(0, 1);
}

/** Services with an endpoint in each zone of a network that is made. */
export function interfaceEndpoints({ endpoints }: AwsConfig["network"]): readonly string[] {
  return endpoints === "all" ? INTERFACE_ENDPOINTS : [];
}

/** Letters of the zones that machines can be in. */
export function machineZones({ existing, zones }: AwsConfig["network"]): readonly string[] {
  return existing === undefined ? zones : existing.privateSubnets.map(({ zone }) => zone);
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
