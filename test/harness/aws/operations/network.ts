/** Networks, and the services at their edge. */
import { by, type OperationRow, own } from "./row.ts";

/** Calls of EC2 take tags with the type of the tagged resource. */
const EC2_TAGS = { tags: "TagSpecifications[].Tags" } as const;

/** One rule is one permission with one source. */
const RULE = {
  ...EC2_TAGS,
  securityGroupId: "GroupId",
  ipProtocol: "IpPermissions[].IpProtocol",
  fromPort: "IpPermissions[].FromPort",
  toPort: "IpPermissions[].ToPort",
  cidrIpv4: "IpPermissions[].IpRanges[].CidrIp",
  cidrIpv6: "IpPermissions[].Ipv6Ranges[].CidrIpv6",
  prefixListId: "IpPermissions[].PrefixListIds[].PrefixListId",
  referencedSecurityGroupId: "IpPermissions[].UserIdGroupPairs[].GroupId",
  // The provider sends it with the rule's source, of whichever kind; all kinds accept the same texts.
  description: "IpPermissions[].IpRanges[].Description",
} as const;

const ATTRIBUTE = own("an attribute of the load balancer: AWS's model takes any text as its value");

export const networkOperations: Readonly<Record<string, OperationRow>> = {
  "aws:ec2/vpc:Vpc": {
    operation: "ec2:CreateVpc",
    properties: {
      ...EC2_TAGS,
      enableDnsHostnames: by("ec2:ModifyVpcAttribute", "EnableDnsHostnames.Value"),
      enableDnsSupport: by("ec2:ModifyVpcAttribute", "EnableDnsSupport.Value"),
    },
  },
  "aws:ec2/subnet:Subnet": {
    operation: "ec2:CreateSubnet",
    properties: {
      ...EC2_TAGS,
      mapPublicIpOnLaunch: by("ec2:ModifySubnetAttribute", "MapPublicIpOnLaunch.Value"),
    },
  },
  "aws:ec2/internetGateway:InternetGateway": {
    operation: "ec2:CreateInternetGateway",
    properties: { ...EC2_TAGS, vpcId: by("ec2:AttachInternetGateway", "VpcId") },
  },
  "aws:ec2/natGateway:NatGateway": { operation: "ec2:CreateNatGateway", properties: EC2_TAGS },
  "aws:ec2/eip:Eip": { operation: "ec2:AllocateAddress", properties: EC2_TAGS },
  "aws:ec2/routeTable:RouteTable": { operation: "ec2:CreateRouteTable", properties: EC2_TAGS },
  "aws:ec2/route:Route": { operation: "ec2:CreateRoute" },
  "aws:ec2/routeTableAssociation:RouteTableAssociation": { operation: "ec2:AssociateRouteTable" },
  "aws:ec2/vpcEndpoint:VpcEndpoint": {
    operation: "ec2:CreateVpcEndpoint",
    properties: { ...EC2_TAGS, policy: "PolicyDocument" },
  },
  "aws:ec2/securityGroup:SecurityGroup": {
    operation: "ec2:CreateSecurityGroup",
    properties: {
      ...EC2_TAGS,
      name: "GroupName",
      revokeRulesOnDelete: own("whether rules go before the group"),
    },
    // "Managed by Pulumi".
    filled: ["Description"],
  },
  "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": {
    operation: "ec2:CreateTags",
    properties: {
      tags: "Tags",
      vpcId: own("by which the group is found that every network has"),
      ingress: own("empty: all of its rules are taken away"),
      egress: own("empty: all of its rules are taken away"),
    },
    filled: ["Resources", "Tags"],
  },
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": {
    operation: "ec2:AuthorizeSecurityGroupIngress",
    properties: RULE,
  },
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": {
    operation: "ec2:AuthorizeSecurityGroupEgress",
    properties: RULE,
  },
  "aws:ec2/flowLog:FlowLog": {
    operation: "ec2:CreateFlowLogs",
    properties: { ...EC2_TAGS, vpcId: "ResourceIds[]", iamRoleArn: "DeliverLogsPermissionArn" },
    filled: ["ResourceType"],
    // https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFlowLogs.html
    allowed: { MaxAggregationInterval: [60, 600] },
  },
  "aws:lb/loadBalancer:LoadBalancer": {
    operation: "elbv2:CreateLoadBalancer",
    properties: {
      loadBalancerType: "Type",
      internal: own("true is the scheme `internal`, false `internet-facing`"),
      accessLogs: ATTRIBUTE,
      clientKeepAlive: ATTRIBUTE,
      dropInvalidHeaderFields: ATTRIBUTE,
      enableDeletionProtection: ATTRIBUTE,
      enableHttp2: ATTRIBUTE,
      idleTimeout: ATTRIBUTE,
      preserveHostHeader: ATTRIBUTE,
    },
  },
  "aws:lb/targetGroup:TargetGroup": {
    operation: "elbv2:CreateTargetGroup",
    properties: {
      deregistrationDelay: ATTRIBUTE,
      loadBalancingAlgorithmType: ATTRIBUTE,
      slowStart: ATTRIBUTE,
      "healthCheck.enabled": "HealthCheckEnabled",
      "healthCheck.healthyThreshold": "HealthyThresholdCount",
      "healthCheck.interval": "HealthCheckIntervalSeconds",
      "healthCheck.matcher": "Matcher.HttpCode",
      "healthCheck.path": "HealthCheckPath",
      "healthCheck.port": "HealthCheckPort",
      "healthCheck.protocol": "HealthCheckProtocol",
      "healthCheck.timeout": "HealthCheckTimeoutSeconds",
      "healthCheck.unhealthyThreshold": "UnhealthyThresholdCount",
      healthCheck: "",
    },
  },
  "aws:lb/listener:Listener": {
    operation: "elbv2:CreateListener",
    properties: {
      certificateArn: "Certificates[].CertificateArn",
      "defaultActions.redirect": "RedirectConfig",
      "defaultActions.fixedResponse": "FixedResponseConfig",
      "defaultActions.forward": "ForwardConfig",
    },
  },
  "aws:lb/targetGroupAttachment:TargetGroupAttachment": {
    operation: "elbv2:RegisterTargets",
    properties: {
      targetId: "Targets[].Id",
      port: "Targets[].Port",
      availabilityZone: "Targets[].AvailabilityZone",
    },
  },
  "aws:wafv2/webAclAssociation:WebAclAssociation": { operation: "wafv2:AssociateWebACL" },
  "aws:acm/certificate:Certificate": { operation: "acm:RequestCertificate" },
  "aws:acm/certificateValidation:CertificateValidation": {
    operation: "acm:DescribeCertificate",
    properties: {
      validationRecordFqdns: own("which records the provider compares with those that ACM names"),
    },
  },
  "aws:route53/record:Record": {
    operation: "route53:ChangeResourceRecordSets",
    properties: {
      zoneId: "HostedZoneId",
      name: "ChangeBatch.Changes[].ResourceRecordSet.Name",
      type: "ChangeBatch.Changes[].ResourceRecordSet.Type",
      ttl: "ChangeBatch.Changes[].ResourceRecordSet.TTL",
      records: "ChangeBatch.Changes[].ResourceRecordSet.ResourceRecords[*].Value",
      aliases: "ChangeBatch.Changes[].ResourceRecordSet.AliasTarget",
      "aliases.name": "DNSName",
      "aliases.zoneId": "HostedZoneId",
      allowOverwrite: own("whether a record that is there is taken over"),
    },
    filled: ["ChangeBatch.Changes.Action"],
  },
};
