/** Networks of AWS, and what stands at their doors; `aws-row.ts` says where the rows come from. */
import { awsRow } from "./aws-row.ts";
import type { ReplacementContext, ReplacementRow } from "./types.ts";

const RULE_SOURCES = ["cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId"];

/** `ModifyPlan` of the rules: a source may change, its kind may not. */
function hasOtherKindOfSource({ before, after }: ReplacementContext): boolean {
  return RULE_SOURCES.some((source) => (before[source] === undefined) !== (after[source] === undefined));
}

const securityGroupRule = awsRow(["securityGroupId"], ["description", "fromPort", "ipProtocol", "toPort"], {
  replacesWhen: { paths: RULE_SOURCES, is: hasOtherKindOfSource },
});

export const awsNetworkRows: Readonly<Record<string, ReplacementRow>> = {
  "aws:ec2/vpc:Vpc": awsRow(["cidrBlock"], ["enableDnsHostnames", "enableDnsSupport"]),
  "aws:ec2/subnet:Subnet": awsRow(["availabilityZone", "cidrBlock", "vpcId"], ["mapPublicIpOnLaunch"]),
  // It is taken off the one network and put onto the other.
  "aws:ec2/internetGateway:InternetGateway": awsRow([], ["vpcId"]),
  "aws:ec2/natGateway:NatGateway": awsRow(["allocationId", "connectivityType", "privateIp", "subnetId"], []),
  "aws:ec2/eip:Eip": awsRow(["domain", "networkBorderGroup", "publicIpv4Pool"], []),
  "aws:ec2/routeTable:RouteTable": awsRow(["vpcId"], ["routes"]),
  "aws:ec2/route:Route": awsRow(
    ["destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId", "routeTableId"],
    ["gatewayId", "natGatewayId"],
  ),
  "aws:ec2/routeTableAssociation:RouteTableAssociation": awsRow(["gatewayId", "subnetId"], ["routeTableId"]),
  "aws:ec2/vpcEndpoint:VpcEndpoint": awsRow(
    ["serviceName", "serviceRegion", "vpcEndpointType", "vpcId"],
    ["policy", "routeTableIds", "securityGroupIds", "subnetIds"],
    {
      replacesWhen: {
        paths: ["privateDnsEnabled"],
        is: ({ after }) => after.vpcEndpointType !== "Interface",
      },
    },
  ),
  "aws:ec2/securityGroup:SecurityGroup": awsRow(
    ["description", "name", "vpcId"],
    ["egress", "ingress", "revokeRulesOnDelete"],
  ),
  "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": awsRow(["vpcId"], ["egress", "ingress"]),
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": securityGroupRule,
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": securityGroupRule,
  "aws:ec2/flowLog:FlowLog": awsRow(
    [
      "iamRoleArn",
      "logDestination",
      "logDestinationType",
      "logFormat",
      "maxAggregationInterval",
      "subnetId",
      "trafficType",
      "vpcId",
    ],
    [],
  ),
  "aws:lb/loadBalancer:LoadBalancer": awsRow(
    ["internal", "loadBalancerType", "name"],
    [
      "clientKeepAlive",
      "dropInvalidHeaderFields",
      "enableDeletionProtection",
      "enableHttp2",
      "idleTimeout",
      "preserveHostHeader",
      "securityGroups",
      "xffHeaderProcessingMode",
    ],
  ),
  "aws:lb/targetGroup:TargetGroup": awsRow(
    ["ipAddressType", "name", "port", "protocol", "protocolVersion", "targetType", "vpcId"],
    ["deregistrationDelay", "healthCheck", "loadBalancingAlgorithmType", "slowStart"],
  ),
  "aws:lb/listener:Listener": awsRow(
    ["loadBalancerArn"],
    ["certificateArn", "defaultActions", "port", "protocol", "sslPolicy"],
  ),
  "aws:lb/targetGroupAttachment:TargetGroupAttachment": awsRow(
    ["availabilityZone", "port", "targetGroupArn", "targetId"],
    [],
  ),
  // Its name is the host's: Pulumi fills none in, and does not look at it.
  "aws:route53/record:Record": awsRow(["name", "zoneId"], ["aliases", "records", "ttl"], {
    deletesFirst: () => false,
  }),
};
