/**
 * Calls that AWS refuses because of their order: a resource must exist before another, or be gone. Deletions are
 * stricter than AWS's: a resource that another refers to is never deleted. Sources: "Errors" of each action in AWS's
 * API references.
 */
import { type LiveResource, type Properties, texts } from "./account.ts";
import { isLive, type Live, machinesOf, mountTargets, ofType, vpcOf, zoneOf } from "./account-queries.ts";

/** Ids that EC2 and EFS give. */
const OWN_ID = /^(vpc|subnet|sg|igw|nat|eipalloc|rtb|lt|fs|fsap|i|vol)-[0-9a-f]{17}$/;
const ATTACHMENT = "aws:ec2/volumeAttachment:VolumeAttachment";
const INSTANCE = "aws:ec2/instance:Instance";
const ROLE_ARN = /^arn:aws:iam::\d{12}:role\/(.+)$/;

/** Properties that together are unique in an account, a VPC or a cluster. */
const UNIQUE: Readonly<Record<string, readonly string[]>> = {
  "aws:cloudwatch/logGroup:LogGroup": ["name"],
  "aws:ec2/launchTemplate:LaunchTemplate": ["name"],
  "aws:ec2/route:Route": ["routeTableId", "destinationCidrBlock"],
  "aws:ec2/routeTableAssociation:RouteTableAssociation": ["subnetId"],
  "aws:ec2/securityGroup:SecurityGroup": ["vpcId", "name"],
  "aws:ec2/subnet:Subnet": ["vpcId", "cidrBlock"],
  // A disk that only one machine at a time can have.
  [ATTACHMENT]: ["volumeId"],
  "aws:ecr/repository:Repository": ["name"],
  "aws:eks/accessEntry:AccessEntry": ["clusterName", "principalArn"],
  "aws:eks/addon:Addon": ["clusterName", "addonName"],
  "aws:eks/cluster:Cluster": ["name"],
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": ["clusterName", "namespace", "serviceAccount"],
  "aws:iam/instanceProfile:InstanceProfile": ["name"],
  "aws:iam/openIdConnectProvider:OpenIdConnectProvider": ["url"],
  "aws:iam/policy:Policy": ["name"],
  "aws:iam/role:Role": ["name"],
  "aws:lb/listener:Listener": ["loadBalancerArn", "port"],
  "aws:lb/loadBalancer:LoadBalancer": ["name"],
  "aws:lb/targetGroup:TargetGroup": ["name"],
  "aws:s3/bucket:Bucket": ["bucket"],
  "aws:secretsmanager/secret:Secret": ["name"],
  "aws:ssm/document:Document": ["name"],
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": [
    ...["securityGroupId", "cidrIpv4", "referencedSecurityGroupId", "ipProtocol", "fromPort", "toPort"],
  ],
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": [
    ...["securityGroupId", "cidrIpv4", "referencedSecurityGroupId", "ipProtocol", "fromPort", "toPort"],
  ],
  // AWS treats a second association as the first, and deleting either removes both.
  "aws:wafv2/webAclAssociation:WebAclAssociation": ["resourceArn"],
};

/** @returns Why AWS would not make it; null if it would. */
export function refusedCreation(live: Live, type: string, inputs: Properties): string | null {
  return (
    missingReference(live, inputs) ?? duplicate(live, type, inputs) ?? CREATIONS[type]?.(live, inputs) ?? null
  );
}

function missingReference(live: Live, inputs: Properties): string | null {
  // Answers contain further ids: a cluster's its security group.
  const known = new Set(live.flatMap(({ id, outputs }) => [id, ...texts(outputs)]));
  // A cluster's administrator exists before, or is not this test's concern.
  const { principalArn: _owner, ...named } = inputs;
  const missing = texts(named).find((one) => {
    const role = ROLE_ARN.exec(one)?.[1];
    return OWN_ID.test(one)
      ? !known.has(one)
      : role !== undefined && !isLive(live, "aws:iam/role:Role", role);
  });
  if (missing !== undefined) return `NotFound: ${missing} does not exist`;
  const { clusterName } = inputs;
  if (typeof clusterName === "string" && !isLive(live, "aws:eks/cluster:Cluster", clusterName))
    return `ResourceNotFoundException: No cluster found for name: ${clusterName}`;
  return null;
}

function duplicate(live: Live, type: string, inputs: Properties): string | null {
  const keys = UNIQUE[type];
  if (keys === undefined) return null;
  const key = (of: Properties) => JSON.stringify(keys.map((name) => of[name] ?? null));
  return ofType(live, type).some((other) => key(other.inputs) === key(inputs))
    ? `AlreadyExists: there is one with ${keys.join(", ")} ${key(inputs)}`
    : null;
}

type Creation = (live: Live, inputs: Properties) => string | null;

/** Add-ons whose pods EKS does not wait for if there is no machine: each is a DaemonSet. */
const WITHOUT_MACHINES: ReadonlySet<unknown> = new Set(["vpc-cni", "kube-proxy", "eks-pod-identity-agent"]);

/** ServiceAccounts of add-ons whose pods call AWS from their first minute. */
const ADD_ON_ACCOUNTS: Readonly<Record<string, string>> = {
  "aws-ebs-csi-driver": "ebs-csi-controller-sa",
  "aws-efs-csi-driver": "efs-csi-node-sa",
  "vpc-cni": "aws-node",
};

const CREATIONS: Readonly<Record<string, Creation>> = {
  "aws:acm/certificateValidation:CertificateValidation": (live, { certificateArn }) => {
    const certificate = live.find(({ id }) => id === certificateArn);
    const [option] = (certificate?.outputs.domainValidationOptions ?? []) as readonly {
      readonly resourceRecordName: string;
    }[];
    return ofType(live, "aws:route53/record:Record").some(
      ({ inputs }) => inputs.name === option?.resourceRecordName,
    )
      ? null
      : `timeout while waiting for state to become 'ISSUED': ${certificateArn} has no record`;
  },
  "aws:lb/listener:Listener": (live, { certificateArn }) => {
    const isOwn = live.some(({ id }) => id === certificateArn);
    const issued = ofType(live, "aws:acm/certificateValidation:CertificateValidation");
    return isOwn && !issued.some(({ inputs }) => inputs.certificateArn === certificateArn)
      ? `UnsupportedCertificate: The certificate ${certificateArn} must be issued`
      : null;
  },
  "aws:backup/selection:Selection": (live, { iamRoleArn }) => withoutPolicy(live, iamRoleArn),
  "aws:autoscaling/tag:Tag": (live, { autoscalingGroupName }) =>
    ofType(live, "aws:eks/nodeGroup:NodeGroup").some(({ outputs }) =>
      JSON.stringify(outputs.resources).includes(`"${autoscalingGroupName}"`),
    )
      ? null
      : `ValidationError: AutoScalingGroup ${autoscalingGroupName} not found`,
  "aws:ec2/flowLog:FlowLog": (live, { iamRoleArn }) => withoutPolicy(live, iamRoleArn),
  [INSTANCE]: (live, { subnetId, iamInstanceProfile, userData }) =>
    withoutInternet(live, [subnetId]) ??
    withoutProfile(live, iamInstanceProfile) ??
    withoutMountTarget(live, subnetId, userData),
  "aws:ec2/natGateway:NatGateway": (live, { subnetId }) => withoutGateway(live, [subnetId]),
  [ATTACHMENT]: (live, { volumeId, instanceId }) => {
    const machine = ofType(live, INSTANCE).find(({ id }) => id === instanceId);
    const volume = ofType(live, "aws:ebs/volume:Volume").find(({ id }) => id === volumeId);
    return volume?.inputs.availabilityZone === zoneOf(live, machine?.inputs.subnetId)
      ? null
      : `InvalidVolume.ZoneMismatch: ${volumeId} is not in the zone of ${instanceId}`;
  },
  "aws:efs/mountTarget:MountTarget": (live, { fileSystemId, subnetId }) =>
    mountTargets(live, fileSystemId).some((one) => zoneOf(live, one.subnetId) === zoneOf(live, subnetId))
      ? `MountTargetConflict: ${fileSystemId} has a mount target in ${zoneOf(live, subnetId)}`
      : null,
  "aws:eks/addon:Addon": (live, { addonName, clusterName, podIdentityAssociations }) =>
    (WITHOUT_MACHINES.has(addonName) || machinesOf(live, clusterName) > 0
      ? null
      : `The add-on ${addonName} is DEGRADED: no machine takes its pods`) ??
    (texts(podIdentityAssociations).includes("efs-csi-node-sa")
      ? "InvalidParameterException: the add-on takes no association for efs-csi-node-sa"
      : null) ??
    withoutAssociation(live, clusterName, ADD_ON_ACCOUNTS[String(addonName)]),
  "aws:eks/cluster:Cluster": (live, { name, roleArn, vpcConfig }) => {
    const { subnetIds } = vpcConfig as { readonly subnetIds: readonly string[] };
    if (new Set(subnetIds.map((id) => zoneOf(live, id))).size < 2)
      return "UnsupportedAvailabilityZoneException: subnets must be in two zones at least";
    // EKS creates it otherwise, and no one deletes it.
    if (!isLive(live, "aws:cloudwatch/logGroup:LogGroup", `/aws/eks/${name}/cluster`))
      return `The stack does not create the log group of ${name}`;
    return withoutManagedPolicy(live, roleArn, "AmazonEKSClusterPolicy");
  },
  "aws:eks/nodeGroup:NodeGroup": (live, { clusterName, subnetIds, nodeRoleArn }) =>
    withoutInternet(live, subnetIds as readonly unknown[]) ??
    withoutManagedPolicy(live, nodeRoleArn, "AmazonEKSWorkerNodePolicy") ??
    first(["vpc-cni", "kube-proxy"], (addOn) =>
      isLive(live, "aws:eks/addon:Addon", `${clusterName}:${addOn}`)
        ? null
        : `NodeCreationFailure: machines of ${clusterName} have no ${addOn} and don't become ready`,
    ),
  "aws:lb/loadBalancer:LoadBalancer": (live, { internal, subnets }) => {
    const ids = subnets as readonly string[];
    if (new Set(ids.map((id) => zoneOf(live, id))).size < 2)
      return "ValidationError: At least two subnets in two different Availability Zones must be specified";
    return internal === true ? null : withoutGateway(live, ids);
  },
  "aws:ssm/association:Association": (live, { name, targets }) =>
    isLive(live, "aws:ssm/document:Document", String(name))
      ? first(
          texts(targets).filter((one) => OWN_ID.test(one)),
          (id) => withoutProfile(live, live.find((one) => one.id === id)?.inputs.iamInstanceProfile),
        )
      : `InvalidDocument: ${name}`,
};

/** @returns Why AWS would not change it into that; null if it would. */
export function refusedUpdate(
  live: Live,
  { type, inputs }: LiveResource,
  changed: Properties,
): string | null {
  // It is taken off its VPC first.
  return type === "aws:ec2/internetGateway:InternetGateway" && inputs.vpcId !== changed.vpcId
    ? (DELETIONS[type]?.(live, inputs) ?? null)
    : null;
}

/** @returns Why AWS would not delete it; null if it would. */
export function refusedDeletion(live: Live, resource: LiveResource): string | null {
  const { id, type, inputs } = resource;
  for (const protection of ["deletionProtection", "enableDeletionProtection", "disableApiTermination"])
    if (inputs[protection] === true) return `OperationNotPermitted: ${id} has ${protection}`;
  // Users of an account have pushed images and keep stacks.
  if (type === "aws:s3/bucket:Bucket" && inputs.forceDestroy !== true)
    return `BucketNotEmpty: ${id} has objects`;
  if (type === "aws:ecr/repository:Repository" && inputs.forceDelete !== true)
    return `RepositoryNotEmptyException: ${id} has images`;
  if (SETTINGS.has(type)) return null;
  const ending = endingWith(live, resource);
  const dependent = live.find(
    (other) => !isSame(other, resource) && !ending.includes(other) && isNaming(other, resource),
  );
  if (dependent !== undefined)
    return `DependencyViolation: ${id} has a dependent object, ${dependent.name} (${dependent.type})`;
  return DELETIONS[type]?.(live, inputs) ?? null;
}

/** Resources that end with another: EC2 detaches the disks of a machine that ends. */
export function endingWith(live: Live, { id, type }: LiveResource): Live {
  return type === INSTANCE ? ofType(live, ATTACHMENT).filter(({ inputs }) => inputs.instanceId === id) : [];
}

/** Settings have the id of the resource that they belong to; a reference to that id is not a reference to them. */
const SETTINGS: ReadonlySet<string> = new Set([
  "aws:ecr/lifecyclePolicy:LifecyclePolicy",
  "aws:efs/backupPolicy:BackupPolicy",
  "aws:efs/fileSystemPolicy:FileSystemPolicy",
  "aws:s3/bucketPolicy:BucketPolicy",
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
  "aws:s3/bucketVersioning:BucketVersioning",
]);

function isSame(one: LiveResource, other: LiveResource): boolean {
  return one.type === other.type && one.id === other.id;
}

/** Whether a resource refers to another. If AWS has names in place of ids, two types may share a name. */
function isNaming({ inputs, type }: LiveResource, of: LiveResource): boolean {
  const arn = of.outputs.arn;
  switch (of.type) {
    case "aws:iam/instanceProfile:InstanceProfile":
      return inputs.iamInstanceProfile === of.id;
    case "aws:iam/role:Role":
      return inputs.role === of.id || texts(inputs).includes(String(arn));
    case "aws:ssm/document:Document":
      return type === "aws:ssm/association:Association" && inputs.name === of.id;
    default:
      return texts(inputs).some((one) => one === of.id || one === arn);
  }
}

const DELETIONS: Readonly<Record<string, Creation>> = {
  "aws:ec2/internetGateway:InternetGateway": (live, { vpcId }) => {
    const addressed = live.find(
      ({ type, inputs }) =>
        (type === "aws:ec2/natGateway:NatGateway" && vpcOf(live, inputs.subnetId) === vpcId) ||
        (type === "aws:lb/loadBalancer:LoadBalancer" &&
          inputs.internal !== true &&
          (inputs.subnets as readonly unknown[]).some((subnet) => vpcOf(live, subnet) === vpcId)),
    );
    return addressed === undefined
      ? null
      : `DependencyViolation: Network ${vpcId} has some mapped public address(es): ${addressed.name}`;
  },
};

function first<T>(items: readonly T[], refusal: (item: T) => string | null): string | null {
  for (const item of items) {
    const found = refusal(item);
    if (found !== null) return found;
  }
  return null;
}

/** A machine that joins, or installs something, reaches the internet by its subnet's routes. */
function withoutInternet(live: Live, subnetIds: readonly unknown[]): string | null {
  return first(subnetIds, (subnetId) => {
    const tables = ofType(live, "aws:ec2/routeTableAssociation:RouteTableAssociation")
      .filter(({ inputs }) => inputs.subnetId === subnetId)
      .map(({ inputs }) => inputs.routeTableId);
    const routes = ofType(live, "aws:ec2/route:Route").filter(({ inputs }) =>
      tables.includes(inputs.routeTableId),
    );
    return routes.some(({ inputs }) => inputs.natGatewayId !== undefined)
      ? null
      : `NodeCreationFailure: machines in ${subnetId} have no way to the internet`;
  });
}

function withoutGateway(live: Live, subnetIds: readonly unknown[]): string | null {
  const gateways = ofType(live, "aws:ec2/internetGateway:InternetGateway");
  return first(subnetIds, (subnetId) => {
    const vpc = vpcOf(live, subnetId);
    return gateways.some(({ inputs }) => inputs.vpcId === vpc)
      ? null
      : `Gateway.NotAttached: Network ${vpc} has no Internet gateway attached`;
  });
}

function withoutMountTarget(live: Live, subnetId: unknown, userData: unknown): string | null {
  const mounted = ofType(live, "aws:efs/fileSystem:FileSystem").filter(({ id }) =>
    String(userData).includes(id),
  );
  return first(mounted, ({ id }) =>
    mountTargets(live, id).some((one) => zoneOf(live, one.subnetId) === zoneOf(live, subnetId))
      ? null
      : `The machine mounts ${id}, which has no mount target in its zone`,
  );
}

function withoutProfile(live: Live, name: unknown): string | null {
  const profile = ofType(live, "aws:iam/instanceProfile:InstanceProfile").find(({ id }) => id === name);
  if (profile === undefined) return `InvalidParameterValue: no instance profile ${name}`;
  return withoutPolicy(live, `arn:aws:iam::000000000000:role/${profile.inputs.role}`);
}

/** A role must have its permissions when it is assumed. */
function withoutPolicy(live: Live, roleArn: unknown): string | null {
  const role = ROLE_ARN.exec(String(roleArn))?.[1];
  const kinds = ["aws:iam/rolePolicy:RolePolicy", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"];
  return live.some(({ type, inputs }) => kinds.includes(type) && inputs.role === role)
    ? null
    : `AccessDenied: the role ${role} allows nothing`;
}

/** Pods get credentials if their account has a role when they start. */
function withoutAssociation(live: Live, clusterName: unknown, account: string | undefined): string | null {
  if (account === undefined) return null;
  const association = ofType(live, "aws:eks/podIdentityAssociation:PodIdentityAssociation").find(
    ({ inputs }) => inputs.clusterName === clusterName && inputs.serviceAccount === account,
  );
  if (association === undefined) return `AccessDenied: pods of ${account} have no role`;
  return withoutPolicy(live, association.inputs.roleArn);
}

function withoutManagedPolicy(live: Live, roleArn: unknown, policy: string): string | null {
  const role = ROLE_ARN.exec(String(roleArn))?.[1];
  return ofType(live, "aws:iam/rolePolicyAttachment:RolePolicyAttachment").some(
    ({ inputs }) => inputs.role === role && String(inputs.policyArn).endsWith(`/${policy}`),
  )
    ? null
    : `InvalidRequestException: the role ${role} has no ${policy}`;
}
