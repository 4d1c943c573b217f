/** A resource of each type of stacks on AWS, with the arguments of their components. */
import type { AwsResource } from "../harness/aws/arguments.ts";

const UNKNOWN = "[unknown]";
const tags = {
  "app.kubernetes.io/managed-by": "engine-room",
  "engine-room:stack": "dev",
  Name: "engine-room-dev",
};
const ROLE = "arn:aws:iam::123456789012:role/engine-room-dev-node";
const TARGET_GROUP =
  "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/engine-room-dev/0123456789abcdef";

function policy(statement: object): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
}

function resource(type: string, inputs: AwsResource["inputs"]): AwsResource {
  return { type: `aws:${type}`, name: "engine-room-dev", inputs };
}

export const vpc = resource("ec2/vpc:Vpc", {
  cidrBlock: "10.20.0.0/16",
  enableDnsHostnames: true,
  enableDnsSupport: true,
  tags,
});

export const rule = resource("vpc/securityGroupIngressRule:SecurityGroupIngressRule", {
  securityGroupId: UNKNOWN,
  description: "NFS from nodes",
  ipProtocol: "tcp",
  fromPort: 2049,
  toPort: 2049,
  referencedSecurityGroupId: UNKNOWN,
  tags,
});

export const cluster = resource("eks/cluster:Cluster", {
  name: "engine-room-dev",
  version: "1.36",
  roleArn: UNKNOWN,
  vpcConfig: {
    subnetIds: [UNKNOWN, UNKNOWN],
    endpointPrivateAccess: true,
    endpointPublicAccess: true,
    publicAccessCidrs: ["203.0.113.0/24"],
  },
  accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
  encryptionConfig: { provider: { keyArn: UNKNOWN }, resources: ["secrets"] },
  enabledClusterLogTypes: ["api", "audit", "authenticator", "controllerManager", "scheduler"],
  upgradePolicy: { supportType: "STANDARD" },
  bootstrapSelfManagedAddons: false,
  deletionProtection: true,
  tags,
});

export const nodeGroup = resource("eks/nodeGroup:NodeGroup", {
  clusterName: "engine-room-dev",
  nodeGroupName: "a10g",
  nodeRoleArn: ROLE,
  subnetIds: [UNKNOWN],
  amiType: "AL2023_x86_64_NVIDIA",
  capacityType: "ON_DEMAND",
  instanceTypes: ["g5.xlarge"],
  labels: { "engine-room/pool": "a10g" },
  launchTemplate: { id: UNKNOWN, version: UNKNOWN },
  scalingConfig: { minSize: 0, maxSize: 2, desiredSize: 0 },
  taints: [{ key: "nvidia.com/gpu", value: "present", effect: "NO_SCHEDULE" }],
  updateConfig: { maxUnavailable: 1 },
  version: "1.36",
  tags,
});

/** Node group of a Capacity Block with a release of its image; the template has its instance type. */
const blockGroup = resource("eks/nodeGroup:NodeGroup", {
  clusterName: "engine-room-dev",
  nodeGroupName: "h100",
  nodeRoleArn: ROLE,
  subnetIds: [UNKNOWN],
  capacityType: "CAPACITY_BLOCK",
  launchTemplate: { id: UNKNOWN, version: UNKNOWN },
  scalingConfig: { minSize: 0, maxSize: 2, desiredSize: 0 },
  version: "1.36",
  releaseVersion: "1.36.0-20260915",
  tags,
});

const blockTemplate = resource("ec2/launchTemplate:LaunchTemplate", {
  name: "engine-room-dev-h100",
  instanceType: "p5.48xlarge",
  instanceMarketOptions: { marketType: "capacity-block" },
  capacityReservationSpecification: {
    capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
  },
  blockDeviceMappings: [{ deviceName: "/dev/xvda", ebs: { volumeSize: 120, encrypted: "true" } }],
  tags,
});

export const fileSystem = resource("efs/fileSystem:FileSystem", {
  creationToken: "engine-room-dev",
  encrypted: true,
  throughputMode: "elastic",
  performanceMode: "generalPurpose",
  lifecyclePolicies: [
    { transitionToIa: "AFTER_30_DAYS" },
    { transitionToPrimaryStorageClass: "AFTER_1_ACCESS" },
  ],
  protection: { replicationOverwrite: "ENABLED" },
  tags,
});

export const launchTemplate = resource("ec2/launchTemplate:LaunchTemplate", {
  name: "engine-room-dev-a10g",
  updateDefaultVersion: true,
  blockDeviceMappings: [
    {
      deviceName: "/dev/xvda",
      ebs: { volumeSize: 120, volumeType: "gp3", encrypted: "true", iops: 6000, throughput: 500 },
    },
  ],
  metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
  capacityReservationSpecification: {
    capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
  },
  tagSpecifications: [{ resourceType: "instance", tags }],
  userData: "TUlNRS1WZXJzaW9uOiAxLjA=",
  vpcSecurityGroupIds: [UNKNOWN],
  tags,
});

export const logGroup = resource("cloudwatch/logGroup:LogGroup", {
  name: "/aws/eks/engine-room-dev/cluster",
  retentionInDays: 30,
  tags,
});

export const targetGroup = resource("lb/targetGroup:TargetGroup", {
  name: "engine-room-dev",
  port: 8080,
  protocol: "HTTP",
  targetType: "ip",
  vpcId: UNKNOWN,
  deregistrationDelay: 120,
  healthCheck: { path: "/health", matcher: "200", interval: 10, timeout: 5, healthyThreshold: 2 },
  tags,
});

export const budget = resource("budgets/budget:Budget", {
  name: "engine-room-dev",
  budgetType: "COST",
  limitAmount: "500",
  limitUnit: "USD",
  timeUnit: "MONTHLY",
  costFilters: [{ name: "TagKeyValue", values: ["user:engine-room:stack$dev"] }],
  notifications: [
    {
      comparisonOperator: "GREATER_THAN",
      notificationType: "FORECASTED",
      threshold: 100,
      thresholdType: "PERCENTAGE",
      subscriberEmailAddresses: ["a@example.com", "b@example.com"],
    },
  ],
  tags,
});

export const association = resource("ssm/association:Association", {
  name: "AWS-RunShellScript",
  associationName: "engine-room-dev-services",
  parameters: { commands: "systemctl start engine-room.target", executionTimeout: "3600" },
  targets: [{ key: "InstanceIds", values: [UNKNOWN] }],
  complianceSeverity: "HIGH",
  waitForSuccessTimeoutSeconds: 3600,
  tags,
});

export const goodResources: readonly AwsResource[] = [
  vpc,
  resource("ec2/subnet:Subnet", {
    vpcId: UNKNOWN,
    cidrBlock: "10.20.0.0/20",
    availabilityZone: "eu-central-1a",
    mapPublicIpOnLaunch: false,
    tags: { ...tags, "kubernetes.io/role/internal-elb": "1" },
  }),
  resource("ec2/internetGateway:InternetGateway", { vpcId: UNKNOWN, tags }),
  resource("ec2/eip:Eip", { domain: "vpc", tags }),
  resource("ec2/natGateway:NatGateway", { allocationId: UNKNOWN, subnetId: UNKNOWN, tags }),
  resource("ec2/routeTable:RouteTable", { vpcId: UNKNOWN, tags }),
  resource("ec2/route:Route", {
    routeTableId: UNKNOWN,
    destinationCidrBlock: "0.0.0.0/0",
    natGatewayId: UNKNOWN,
  }),
  resource("ec2/routeTableAssociation:RouteTableAssociation", { routeTableId: UNKNOWN, subnetId: UNKNOWN }),
  resource("ec2/vpcEndpoint:VpcEndpoint", {
    vpcId: UNKNOWN,
    serviceName: "com.amazonaws.eu-central-1.ecr.api",
    vpcEndpointType: "Interface",
    subnetIds: [UNKNOWN],
    securityGroupIds: [UNKNOWN],
    privateDnsEnabled: true,
    policy: policy({ Effect: "Allow", Principal: "*", Action: "ecr:*", Resource: "*" }),
    tags,
  }),
  resource("ec2/securityGroup:SecurityGroup", { name: "engine-room-dev-store", vpcId: UNKNOWN, tags }),
  resource("ec2/defaultSecurityGroup:DefaultSecurityGroup", { vpcId: UNKNOWN, tags }),
  rule,
  resource("vpc/securityGroupEgressRule:SecurityGroupEgressRule", {
    securityGroupId: UNKNOWN,
    ipProtocol: "-1",
    cidrIpv4: "0.0.0.0/0",
    tags,
  }),
  resource("ec2/flowLog:FlowLog", {
    vpcId: UNKNOWN,
    trafficType: "REJECT",
    logDestinationType: "cloud-watch-logs",
    logDestination: UNKNOWN,
    iamRoleArn: ROLE,
    maxAggregationInterval: 600,
    tags,
  }),
  launchTemplate,
  blockTemplate,
  resource("ec2/instance:Instance", {
    ami: "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
    instanceType: "p4d.24xlarge",
    subnetId: UNKNOWN,
    vpcSecurityGroupIds: [UNKNOWN],
    iamInstanceProfile: "engine-room-dev-machine",
    metadataOptions: { httpTokens: "required", httpPutResponseHopLimit: 2 },
    monitoring: true,
    rootBlockDevice: { volumeSize: 300, volumeType: "gp3", encrypted: true, tags },
    instanceMarketOptions: { marketType: "spot", spotOptions: { spotInstanceType: "persistent" } },
    userData: "#cloud-config\n",
    userDataReplaceOnChange: false,
    tags,
  }),
  fileSystem,
  resource("efs/mountTarget:MountTarget", {
    fileSystemId: UNKNOWN,
    subnetId: UNKNOWN,
    securityGroups: [UNKNOWN],
  }),
  resource("efs/accessPoint:AccessPoint", {
    fileSystemId: UNKNOWN,
    posixUser: { uid: 1000, gid: 1000 },
    rootDirectory: {
      path: "/engine-room",
      creationInfo: { ownerUid: 1000, ownerGid: 1000, permissions: "0750" },
    },
    tags,
  }),
  resource("ebs/volume:Volume", {
    availabilityZone: "us-east-1a",
    type: "gp3",
    size: 20,
    encrypted: true,
    finalSnapshot: false,
    tags,
  }),
  resource("ec2/volumeAttachment:VolumeAttachment", {
    deviceName: "/dev/sdf",
    instanceId: UNKNOWN,
    volumeId: UNKNOWN,
    skipDestroy: true,
  }),
  resource("backup/vault:Vault", {
    kmsKeyArn: "arn:aws:kms:eu-central-1:123456789012:key/12345678-1234-1234-1234-123456789012",
    tags,
  }),
  resource("backup/plan:Plan", {
    name: "engine-room-dev",
    rules: [
      {
        ruleName: "daily",
        targetVaultName: UNKNOWN,
        schedule: "cron(0 3 * * ? *)",
        lifecycle: { deleteAfter: 35 },
        recoveryPointTags: tags,
      },
    ],
    tags,
  }),
  resource("backup/selection:Selection", {
    name: "documents",
    planId: UNKNOWN,
    iamRoleArn: UNKNOWN,
    resources: ["arn:aws:ec2:eu-central-1:123456789012:volume/*"],
    conditions: [{ stringEquals: [{ key: "aws:ResourceTag/engine-room:stack", value: "dev" }] }],
  }),
  resource("efs/backupPolicy:BackupPolicy", { fileSystemId: UNKNOWN, backupPolicy: { status: "ENABLED" } }),
  resource("efs/fileSystemPolicy:FileSystemPolicy", {
    fileSystemId: UNKNOWN,
    policy: policy({ Effect: "Deny", Principal: "*", Action: "*", Resource: "*" }),
  }),
  resource("ecr/repository:Repository", {
    name: "engine-room-dev/services",
    imageTagMutability: "IMMUTABLE",
    imageScanningConfiguration: { scanOnPush: true },
    encryptionConfigurations: [{ encryptionType: "AES256" }],
    forceDelete: true,
    tags,
  }),
  resource("ecr/lifecyclePolicy:LifecyclePolicy", {
    repository: "engine-room-dev/services",
    policy: JSON.stringify({ rules: [{ rulePriority: 1 }], padding: " ".repeat(80) }),
  }),
  resource("iam/role:Role", {
    name: "engine-room-dev-node",
    assumeRolePolicy: policy({
      Effect: "Allow",
      Principal: { Service: "ec2.amazonaws.com" },
      Action: "sts:AssumeRole",
    }),
    description: "Machines of engine-room-dev",
    tags,
  }),
  resource("iam/rolePolicy:RolePolicy", {
    name: "engine-room-dev-node",
    role: "engine-room-dev-node",
    policy: policy({ Effect: "Allow", Action: "ecr:GetAuthorizationToken", Resource: "*" }),
  }),
  resource("iam/rolePolicyAttachment:RolePolicyAttachment", {
    role: "engine-room-dev-node",
    policyArn: "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
  }),
  resource("iam/instanceProfile:InstanceProfile", {
    name: "engine-room-dev-machine",
    role: "engine-room-dev-machine",
    tags,
  }),
  resource("kms/key:Key", { description: "Secrets", deletionWindowInDays: 7, enableKeyRotation: true, tags }),
  resource("s3/bucket:Bucket", { bucket: "engine-room-state-123456789012-eu-central-1", tags }),
  resource("s3/bucketPolicy:BucketPolicy", { bucket: UNKNOWN, policy: policy({ Effect: "Deny" }) }),
  resource("s3/bucketPublicAccessBlock:BucketPublicAccessBlock", {
    bucket: UNKNOWN,
    blockPublicAcls: true,
    blockPublicPolicy: true,
    ignorePublicAcls: true,
    restrictPublicBuckets: true,
  }),
  resource("s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration", {
    bucket: UNKNOWN,
    rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: "AES256" } }],
  }),
  resource("s3/bucketVersioning:BucketVersioning", {
    bucket: UNKNOWN,
    versioningConfiguration: { status: "Enabled" },
  }),
  resource("iam/openIdConnectProvider:OpenIdConnectProvider", {
    url: "https://token.actions.githubusercontent.com",
    clientIdLists: ["sts.amazonaws.com"],
    tags,
  }),
  resource("iam/policy:Policy", {
    name: "engine-room.deploy-dev",
    policy: policy({ Effect: "Allow", Action: "s3:GetObject", Resource: "*" }),
    tags,
  }),
  logGroup,
  cluster,
  nodeGroup,
  blockGroup,
  resource("eks/addon:Addon", {
    clusterName: "engine-room-dev",
    addonName: "vpc-cni",
    addonVersion: "v1.20.4-eksbuild.1",
    configurationValues: JSON.stringify({ enableNetworkPolicy: "true" }),
    podIdentityAssociations: [{ roleArn: UNKNOWN, serviceAccount: "aws-node" }],
    resolveConflictsOnCreate: "OVERWRITE",
    resolveConflictsOnUpdate: "PRESERVE",
    tags,
  }),
  resource("eks/accessEntry:AccessEntry", {
    clusterName: "engine-room-dev",
    principalArn: "arn:aws:iam::123456789012:role/admins",
    type: "STANDARD",
    tags,
  }),
  resource("eks/accessPolicyAssociation:AccessPolicyAssociation", {
    clusterName: "engine-room-dev",
    principalArn: "arn:aws:iam::123456789012:role/admins",
    policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
    accessScope: { type: "cluster" },
  }),
  resource("eks/podIdentityAssociation:PodIdentityAssociation", {
    clusterName: "engine-room-dev",
    namespace: "engine-room",
    serviceAccount: "builder",
    roleArn: UNKNOWN,
    tags,
  }),
  resource("autoscaling/tag:Tag", {
    autoscalingGroupName: UNKNOWN,
    tag: {
      key: "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu",
      value: "1",
      propagateAtLaunch: false,
    },
  }),
  resource("lb/loadBalancer:LoadBalancer", {
    name: "engine-room-dev",
    internal: true,
    loadBalancerType: "application",
    subnets: [UNKNOWN, UNKNOWN],
    securityGroups: [UNKNOWN],
    idleTimeout: 600,
    dropInvalidHeaderFields: true,
    accessLogs: { bucket: "example-access-logs", prefix: "engine-room-dev", enabled: true },
    tags,
  }),
  resource("wafv2/webAclAssociation:WebAclAssociation", {
    resourceArn: UNKNOWN,
    webAclArn: "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/models/0123456789abcdef",
  }),
  resource("acm/certificate:Certificate", {
    domainName: "models.example.com",
    validationMethod: "DNS",
    tags,
  }),
  resource("acm/certificateValidation:CertificateValidation", {
    certificateArn: UNKNOWN,
    validationRecordFqdns: [UNKNOWN],
  }),
  targetGroup,
  resource("lb/listener:Listener", {
    loadBalancerArn: UNKNOWN,
    port: 443,
    protocol: "HTTPS",
    sslPolicy: "ELBSecurityPolicy-TLS13-1-2-2021-06",
    certificateArn: "arn:aws:acm:eu-central-1:123456789012:certificate/0",
    defaultActions: [{ type: "forward", targetGroupArn: UNKNOWN }],
    tags,
  }),
  resource("lb/targetGroupAttachment:TargetGroupAttachment", {
    targetGroupArn: TARGET_GROUP,
    targetId: UNKNOWN,
    port: 8080,
  }),
  resource("route53/record:Record", {
    zoneId: "Z0123456789ABCDEFGHIJ",
    name: "models.example.com",
    type: "A",
    aliases: [{ name: UNKNOWN, zoneId: UNKNOWN, evaluateTargetHealth: true }],
  }),
  budget,
  resource("ssm/document:Document", {
    name: "engine-room-dev-services",
    documentType: "Command",
    documentFormat: "JSON",
    content: JSON.stringify({ schemaVersion: "2.2" }),
    tags,
  }),
  association,
  resource("secretsmanager/secret:Secret", {
    name: "engine-room-dev/hub-token",
    recoveryWindowInDays: 7,
    tags,
  }),
  resource("secretsmanager/secretVersion:SecretVersion", { secretId: UNKNOWN, secretString: "[secret]" }),
];
