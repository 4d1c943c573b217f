/** Everything that a stack makes says whose it is: to find it, to bill it, and to delete what was left behind. */
import { type CheckedResource, type ResourceFinding, type Rule, UNKNOWN, undecided } from "../rule.ts";
import { at, isMapping, listAt } from "../values.ts";

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/ */
const KUBERNETES_LABELS = [
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/name",
];

const DOCKER_LABEL = "engine-room.stack";

const AWS_TAG = "engine-room:stack";

/** Docker resources that have labels; an image has those of its Dockerfile. */
const DOCKER_TYPES = new Set([
  "docker:index/container:Container",
  "docker:index/network:Network",
  "docker:index/volume:Volume",
]);

/** Types of @pulumi/aws 7.48 without `tags`; every other one is expected to have them. */
const AWS_WITHOUT_TAGS = new Set([
  "aws:autoscaling/attachment:Attachment",
  "aws:autoscaling/lifecycleHook:LifecycleHook",
  "aws:autoscaling/policy:Policy",
  "aws:autoscaling/schedule:Schedule",
  "aws:autoscaling/tag:Tag",
  "aws:acm/certificateValidation:CertificateValidation",
  "aws:cloudwatch/dashboard:Dashboard",
  "aws:cloudwatch/eventTarget:EventTarget",
  "aws:cloudwatch/logMetricFilter:LogMetricFilter",
  "aws:ebs/encryptionByDefault:EncryptionByDefault",
  "aws:ec2/eipAssociation:EipAssociation",
  "aws:ec2/internetGatewayAttachment:InternetGatewayAttachment",
  "aws:ec2/mainRouteTableAssociation:MainRouteTableAssociation",
  "aws:ec2/route:Route",
  "aws:ec2/routeTableAssociation:RouteTableAssociation",
  "aws:ec2/securityGroupAssociation:SecurityGroupAssociation",
  "aws:ec2/securityGroupRule:SecurityGroupRule",
  "aws:ec2/tag:Tag",
  "aws:ec2/volumeAttachment:VolumeAttachment",
  "aws:ec2/vpcDhcpOptionsAssociation:VpcDhcpOptionsAssociation",
  "aws:ec2/vpcEndpointRouteTableAssociation:VpcEndpointRouteTableAssociation",
  "aws:ec2/vpcEndpointSubnetAssociation:VpcEndpointSubnetAssociation",
  "aws:ecr/lifecyclePolicy:LifecyclePolicy",
  "aws:ecr/pullThroughCacheRule:PullThroughCacheRule",
  "aws:ecr/registryScanningConfiguration:RegistryScanningConfiguration",
  "aws:ecr/repositoryPolicy:RepositoryPolicy",
  "aws:efs/backupPolicy:BackupPolicy",
  "aws:efs/fileSystemPolicy:FileSystemPolicy",
  "aws:efs/mountTarget:MountTarget",
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
  "aws:iam/groupPolicy:GroupPolicy",
  "aws:iam/policyAttachment:PolicyAttachment",
  "aws:iam/rolePolicy:RolePolicy",
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
  "aws:iam/userPolicy:UserPolicy",
  "aws:iam/userPolicyAttachment:UserPolicyAttachment",
  "aws:kms/alias:Alias",
  "aws:kms/grant:Grant",
  "aws:kms/keyPolicy:KeyPolicy",
  "aws:lb/listenerCertificate:ListenerCertificate",
  "aws:lb/targetGroupAttachment:TargetGroupAttachment",
  "aws:route53/record:Record",
  "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
  "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
  "aws:s3/bucketPolicy:BucketPolicy",
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
  "aws:s3/bucketVersioning:BucketVersioning",
  "aws:secretsmanager/secretPolicy:SecretPolicy",
  "aws:secretsmanager/secretVersion:SecretVersion",
  "aws:sqs/queuePolicy:QueuePolicy",
]);

/** What labels a resource has, under which name it has them, and which it must have. */
interface Labels {
  readonly key: string;
  readonly value: unknown;
  readonly wanted: readonly string[];
}

function labelsOf({ type, inputs }: CheckedResource): Labels | null {
  // Charts and other trees of objects have labels of their own.
  if (type.startsWith("kubernetes:") && !type.startsWith("kubernetes:helm.sh/"))
    return { key: "metadata.labels", value: labelsOfObject(inputs), wanted: KUBERNETES_LABELS };
  if (DOCKER_TYPES.has(type))
    return { key: "labels", value: fromPairs(inputs.labels, "label"), wanted: [DOCKER_LABEL] };
  if (type.startsWith("aws:") && !AWS_WITHOUT_TAGS.has(type))
    return { key: "tags", value: fromPairs(inputs.tags, "key"), wanted: [AWS_TAG] };
  return null;
}

function labelsOfObject(inputs: CheckedResource["inputs"]): unknown {
  return inputs.metadata === UNKNOWN ? UNKNOWN : at(inputs, "metadata", "labels");
}

/** Lists of names and values, as Docker and auto-scaling groups have them. */
function fromPairs(value: unknown, key: string): unknown {
  if (!Array.isArray(value)) return value;
  return Object.fromEntries(
    listAt({ value }, "value").map((pair) => [String(at(pair, key)), at(pair, "value")]),
  );
}

export const resourcesAreLabelled: Rule = {
  description: "Objects, containers and cloud resources say which stack they belong to.",
  scope: "resource",
  check(resource): readonly ResourceFinding[] {
    const labels = labelsOf(resource);
    if (labels === null) return [];
    const { key, value, wanted } = labels;
    if (value === UNKNOWN) return [undecided(key)];
    const missing = wanted.filter(
      (name) => !isMapping(value) || value[name] === undefined || value[name] === "",
    );
    if (missing.length === 0) return [];
    return [
      {
        reason: `${key} lacks ${missing.join(", ")}: nobody sees which stack it belongs to.`,
        fix: resource.type.startsWith("aws:")
          ? "Give it the tags of the one function that makes them; a type that takes none is a row of policy/rules/labels.ts."
          : "Give it the labels that the plan makes for every object.",
      },
    ];
  },
};
