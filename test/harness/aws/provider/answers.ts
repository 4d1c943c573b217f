/** Properties that AWS adds to a created resource: ids, ARNs, names, addresses. */
import { randomBytes } from "node:crypto";
import type { Properties } from "./account.ts";

/** Account and region of the stand-in, and connection of the clusters that its EKS creates. */
export interface Place {
  readonly account: string;
  readonly region: string;
  /** Connection of every cluster; absent if no test connects. */
  readonly cluster?: {
    /** `https://127.0.0.1:PORT`. */
    readonly endpoint: string;
    /** PEM of the CA of the server's certificate. */
    readonly certificateAuthority: string;
  };
}

interface Made {
  readonly id: string;
  /** Properties by Pulumi's names; parts of objects are merged into those of the inputs. */
  readonly computed: Properties;
}

type Maker = (inputs: Properties, place: Place) => Made;

/** An id in EC2's form: a prefix and 17 hexadecimal digits. */
const random = (prefix: string) => `${prefix}-${randomBytes(9).toString("hex").slice(1)}`;
const text = (value: unknown) => String(value);

/** Its id begins with a prefix; its ARN, if it has one, ends with it. */
const withId =
  (prefix: string, service?: string, kind?: string): Maker =>
  (_inputs, { account, region }) => {
    const id = random(prefix);
    return {
      id,
      computed: service === undefined ? {} : { arn: `arn:aws:${service}:${region}:${account}:${kind}/${id}` },
    };
  };

/** Its name is its id. @param arn - Part of the ARN behind the account. */
const withName =
  (service: string, arn: (name: string) => string, isGlobal = false): Maker =>
  ({ name }, { account, region }) => ({
    id: text(name),
    computed: { arn: `arn:aws:${service}:${isGlobal ? "" : region}:${account}:${arn(text(name))}` },
  });

/** Its ARN is its id. */
const withArn =
  (service: string, path: (inputs: Properties) => string): Maker =>
  (inputs, { account, region }) => {
    const arn = `arn:aws:${service}:${region}:${account}:${path(inputs)}`;
    return { id: arn, computed: { arn } };
  };

/** Something that belongs to something else, and has no ARN that anybody uses. */
const withParts =
  (...keys: readonly string[]): Maker =>
  (inputs) => ({ id: keys.map((key) => text(inputs[key])).join(":"), computed: {} });

const digits = (count: number) => randomBytes(count).toString("hex").slice(0, count);

const MAKERS: Readonly<Record<string, Maker>> = {
  "aws:acm/certificate:Certificate": (inputs, place) => {
    const { id, computed } = withArn("acm", () => `certificate/${crypto.randomUUID()}`)(inputs, place);
    const domainName = text(inputs.domainName);
    const record = {
      domainName,
      resourceRecordName: `_${digits(32)}.${domainName}.`,
      resourceRecordType: "CNAME",
      resourceRecordValue: `_${digits(32)}.acm-validations.aws.`,
    };
    return { id, computed: { ...computed, domainValidationOptions: [record] } };
  },
  // Its id is when ACM issued the certificate.
  "aws:acm/certificateValidation:CertificateValidation": () => ({
    id: `${digits(16)} UTC`,
    computed: {},
  }),
  "aws:autoscaling/tag:Tag": ({ autoscalingGroupName, tag }) => ({
    id: `${text(autoscalingGroupName)},${(tag as { key: string }).key}`,
    computed: {},
  }),
  "aws:backup/plan:Plan": (_inputs, { account, region }) => {
    const id = crypto.randomUUID();
    return { id, computed: { arn: `arn:aws:backup:${region}:${account}:backup-plan:${id}` } };
  },
  "aws:backup/selection:Selection": () => ({ id: crypto.randomUUID(), computed: {} }),
  // Amazon's provider gives it the resource's name with a random end.
  "aws:backup/vault:Vault": (_inputs, { account, region }) => {
    const name = `backups-vault-${digits(7)}`;
    const arn = `arn:aws:backup:${region}:${account}:backup-vault:${name}`;
    return { id: name, computed: { name, arn } };
  },
  "aws:budgets/budget:Budget": ({ name }, { account }) => ({
    id: `${account}:${text(name)}`,
    computed: { arn: `arn:aws:budgets::${account}:budget/${text(name)}` },
  }),
  "aws:cloudwatch/logGroup:LogGroup": withName("logs", (name) => `log-group:${name}`),
  "aws:ebs/volume:Volume": withId("vol", "ec2", "volume"),
  "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": withId("sg", "ec2", "security-group"),
  "aws:ec2/eip:Eip": () => {
    const id = random("eipalloc");
    return { id, computed: { allocationId: id, publicIp: "198.51.100.7" } };
  },
  "aws:ec2/flowLog:FlowLog": withId("fl", "ec2", "vpc-flow-log"),
  "aws:ec2/instance:Instance": (inputs, place) => {
    const { id, computed } = withId("i", "ec2", "instance")(inputs, place);
    return { id, computed: { ...computed, privateIp: "10.64.0.10", instanceState: "running" } };
  },
  "aws:ec2/internetGateway:InternetGateway": withId("igw", "ec2", "internet-gateway"),
  "aws:ec2/launchTemplate:LaunchTemplate": (inputs, place) => {
    const { id, computed } = withId("lt", "ec2", "launch-template")(inputs, place);
    return { id, computed: { ...computed, latestVersion: 1, defaultVersion: 1 } };
  },
  "aws:ec2/natGateway:NatGateway": withId("nat"),
  "aws:ec2/route:Route": withParts("routeTableId", "destinationCidrBlock"),
  "aws:ec2/routeTable:RouteTable": withId("rtb", "ec2", "route-table"),
  "aws:ec2/routeTableAssociation:RouteTableAssociation": withId("rtbassoc"),
  "aws:ec2/securityGroup:SecurityGroup": withId("sg", "ec2", "security-group"),
  "aws:ec2/subnet:Subnet": withId("subnet", "ec2", "subnet"),
  "aws:ec2/vpc:Vpc": withId("vpc", "ec2", "vpc"),
  "aws:ec2/vpcEndpoint:VpcEndpoint": withId("vpce", "ec2", "vpc-endpoint"),
  "aws:ec2/volumeAttachment:VolumeAttachment": withParts("volumeId", "instanceId", "deviceName"),
  "aws:ecr/lifecyclePolicy:LifecyclePolicy": withParts("repository"),
  "aws:ecr/repository:Repository": (inputs, place) => {
    const { id, computed } = withName("ecr", (name) => `repository/${name}`)(inputs, place);
    const host = `${place.account}.dkr.ecr.${place.region}.amazonaws.com`;
    return { id, computed: { ...computed, registryId: place.account, repositoryUrl: `${host}/${id}` } };
  },
  "aws:efs/accessPoint:AccessPoint": withId("fsap", "elasticfilesystem", "access-point"),
  "aws:efs/backupPolicy:BackupPolicy": withParts("fileSystemId"),
  "aws:efs/fileSystem:FileSystem": (inputs, place) => {
    const { id, computed } = withId("fs", "elasticfilesystem", "file-system")(inputs, place);
    return { id, computed: { ...computed, dnsName: `${id}.efs.${place.region}.amazonaws.com` } };
  },
  "aws:efs/fileSystemPolicy:FileSystemPolicy": withParts("fileSystemId"),
  "aws:efs/mountTarget:MountTarget": withId("fsmt", "elasticfilesystem", "mount-target"),
  "aws:eks/accessEntry:AccessEntry": withParts("clusterName", "principalArn"),
  "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": withParts(
    "clusterName",
    "principalArn",
    "policyArn",
  ),
  "aws:eks/addon:Addon": withParts("clusterName", "addonName"),
  "aws:eks/cluster:Cluster": (inputs, place) => {
    const { id, computed } = withName("eks", (name) => `cluster/${name}`)(inputs, place);
    const { endpoint, certificateAuthority } = place.cluster ?? {
      endpoint: `https://${digits(32).toUpperCase()}.gr7.${place.region}.eks.amazonaws.com`,
      certificateAuthority: "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    };
    return {
      id,
      computed: {
        ...computed,
        endpoint,
        certificateAuthority: { data: Buffer.from(certificateAuthority).toString("base64") },
        status: "ACTIVE",
        vpcConfig: { clusterSecurityGroupId: random("sg") },
      },
    };
  },
  "aws:eks/nodeGroup:NodeGroup": ({ clusterName, nodeGroupNamePrefix }, { account, region }) => {
    // The provider appends the time and a counter, 26 digits in all.
    const nodeGroupName = `${text(nodeGroupNamePrefix)}${digits(26)}`;
    return {
      id: `${text(clusterName)}:${nodeGroupName}`,
      computed: {
        nodeGroupName,
        arn: `arn:aws:eks:${region}:${account}:nodegroup/${text(clusterName)}/${nodeGroupName}/${crypto.randomUUID()}`,
        status: "ACTIVE",
        resources: [{ autoscalingGroups: [{ name: `eks-${nodeGroupName}` }] }],
      },
    };
  },
  "aws:eks/podIdentityAssociation:PodIdentityAssociation": () => {
    const associationId = `a-${digits(17)}`;
    return { id: associationId, computed: { associationId } };
  },
  "aws:iam/instanceProfile:InstanceProfile": withName("iam", (name) => `instance-profile/${name}`, true),
  "aws:iam/openIdConnectProvider:OpenIdConnectProvider": ({ url }, { account }) => {
    const arn = `arn:aws:iam::${account}:oidc-provider/${text(url).replace("https://", "")}`;
    return { id: arn, computed: { arn } };
  },
  "aws:iam/policy:Policy": ({ name }, { account }) => {
    const arn = `arn:aws:iam::${account}:policy/${text(name)}`;
    return { id: arn, computed: { arn } };
  },
  "aws:iam/role:Role": withName("iam", (name) => `role/${name}`, true),
  "aws:iam/rolePolicy:RolePolicy": withParts("role", "name"),
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment": withParts("role", "policyArn"),
  "aws:kms/key:Key": (_inputs, { account, region }) => {
    const keyId = crypto.randomUUID();
    return { id: keyId, computed: { keyId, arn: `arn:aws:kms:${region}:${account}:key/${keyId}` } };
  },
  "aws:lb/listener:Listener": withArn("elasticloadbalancing", () => `listener/app/${digits(16)}`),
  "aws:lb/loadBalancer:LoadBalancer": (inputs, place) => {
    const name = text(inputs.name);
    const { id, computed } = withArn("elasticloadbalancing", () => `loadbalancer/app/${name}/${digits(16)}`)(
      inputs,
      place,
    );
    return {
      id,
      computed: {
        ...computed,
        dnsName: `internal-${name}.${place.region}.elb.amazonaws.com`,
        zoneId: "Z35SXDOTRQ7X7K",
      },
    };
  },
  "aws:lb/targetGroup:TargetGroup": withArn(
    "elasticloadbalancing",
    ({ name }) => `targetgroup/${text(name)}/${digits(16)}`,
  ),
  "aws:lb/targetGroupAttachment:TargetGroupAttachment": withParts("targetGroupArn", "targetId"),
  "aws:route53/record:Record": (inputs, place) => {
    const { id } = withParts("zoneId", "name", "type")(inputs, place);
    return { id, computed: { fqdn: text(inputs.name).replace(/\.$/, "") } };
  },
  "aws:s3/bucket:Bucket": ({ bucket }) => ({
    id: text(bucket),
    computed: { arn: `arn:aws:s3:::${text(bucket)}` },
  }),
  "aws:s3/bucketPolicy:BucketPolicy": withParts("bucket"),
  "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": withParts("bucket"),
  "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration":
    withParts("bucket"),
  "aws:s3/bucketVersioning:BucketVersioning": withParts("bucket"),
  "aws:secretsmanager/secret:Secret": withArn(
    "secretsmanager",
    ({ name }) => `secret:${text(name)}-${digits(6)}`,
  ),
  "aws:secretsmanager/secretVersion:SecretVersion": ({ secretId }) => {
    const versionId = crypto.randomUUID();
    return { id: `${text(secretId)}|${versionId}`, computed: { versionId } };
  },
  "aws:ssm/association:Association": () => {
    const associationId = crypto.randomUUID();
    return { id: associationId, computed: { associationId } };
  },
  "aws:ssm/document:Document": withName("ssm", (name) => `document/${name}`),
  "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": withId("sgr", "ec2", "security-group-rule"),
  "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": withId("sgr", "ec2", "security-group-rule"),
  // AWS has no id of it; both ARNs together are longer than the name of a file.
  "aws:wafv2/webAclAssociation:WebAclAssociation": withId("acl"),
};

/** @throws Error if the stand-in has no such type: the test that creates it adds it here. */
export function made(type: string, inputs: Properties, place: Place): Made {
  const maker = MAKERS[type];
  if (maker === undefined) throw new Error(`The stand-in for AWS makes no ${type}; add it to answers.ts.`);
  return maker(inputs, place);
}

/** Answers put into inputs: objects are joined, everything else of an answer stands for itself. */
export function merged(inputs: Properties, computed: Properties): Properties {
  const joined = Object.entries(computed).map(([key, value]) => {
    const before = inputs[key];
    return [key, isObject(before) && isObject(value) ? merged(before, value) : value];
  });
  return { ...inputs, ...Object.fromEntries(joined) };
}

function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
