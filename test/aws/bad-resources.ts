/** Resources of stacks with one mistake each, and the expected error. */
import type { AwsResource } from "../harness/aws/arguments.ts";
import {
  association,
  budget,
  cluster,
  fileSystem,
  launchTemplate,
  logGroup,
  nodeGroup,
  rule,
  targetGroup,
  vpc,
} from "./good-resources.ts";

interface Bad {
  readonly what: string;
  readonly resource: AwsResource;
  readonly problem: RegExp;
}

function bad(what: string, good: AwsResource, change: AwsResource["inputs"], problem: RegExp): Bad {
  return { what, resource: { ...good, inputs: { ...good.inputs, ...change } }, problem };
}

const vpcConfig = cluster.inputs.vpcConfig as object;

export const badResources: readonly Bad[] = [
  bad("a type without a row", { ...vpc, type: "aws:sqs/queue:Queue" }, {}, /no row of the table/),
  bad(
    "a property without a parameter",
    vpc,
    { colour: "blue" },
    /colour is mapped to no parameter of ec2:CreateVpc/,
  ),
  bad(
    "a structure's property without a parameter",
    cluster,
    { vpcConfig: { ...vpcConfig, endpointAccess: true } },
    /vpcConfig\.endpointAccess is mapped to no parameter/,
  ),
  bad(
    "an unknown value of a closed list",
    vpc,
    { instanceTenancy: "spot" },
    /InstanceTenancy is "spot", and AWS takes default/,
  ),
  bad(
    "an unknown value in a structure",
    cluster,
    { accessConfig: { authenticationMode: "IAM" } },
    /accessConfig\.authenticationMode is "IAM", and AWS takes API/,
  ),
  bad(
    "an unknown value in a list",
    cluster,
    { enabledClusterLogTypes: ["api", "etcd"] },
    /logging\.clusterLogging\.types is "etcd"/,
  ),
  bad(
    "an unknown value of a second call",
    fileSystem,
    { protection: { replicationOverwrite: "ON" } },
    /UpdateFileSystemProtection: .*"ON"/,
  ),
  bad(
    "an AMI type that does not exist",
    nodeGroup,
    { amiType: "AL2023_x86_64_GPU" },
    /amiType is "AL2023_x86_64_GPU"/,
  ),
  bad(
    "a prefix that leaves no room for what the provider adds",
    nodeGroup,
    { nodeGroupName: undefined, nodeGroupNamePrefix: `${"n".repeat(37)}-` },
    /nodegroupName is n+-, and AWS takes 37 characters at most/,
  ),
  bad(
    "an instance type that does not exist",
    nodeGroup,
    { instanceTypes: ["g5.3xlarge"] },
    /instanceTypes is "g5\.3xlarge", which does not exist/,
  ),
  bad(
    "an instance type that the model's closed list lacks",
    launchTemplate,
    { instanceType: "p4d.12xlarge" },
    /LaunchTemplateData\.InstanceType is "p4d\.12xlarge"/,
  ),
  bad(
    "a name of wrong characters",
    cluster,
    { name: "engine room" },
    /name is "engine room", which does not match/,
  ),
  bad(
    "a name that is too long",
    cluster,
    { name: "e".repeat(101) },
    /name has 101 characters, and AWS takes 100 at most/,
  ),
  bad("a number that is too small", targetGroup, { port: 0 }, /Port is 0, and AWS takes 1 at least/),
  bad(
    "a number that is too large",
    targetGroup,
    { healthCheck: { interval: 301 } },
    /HealthCheckIntervalSeconds is 301, and AWS takes 300 at most/,
  ),
  bad("a fraction", targetGroup, { port: 80.5 }, /Port is 80\.5, and no integer/),
  bad(
    "too many elements",
    fileSystem,
    { lifecyclePolicies: Array.from({ length: 5 }, () => ({ transitionToIa: "AFTER_1_DAY" })) },
    /LifecyclePolicies has 5 elements/,
  ),
  bad("a text for a number", targetGroup, { port: "8080" }, /Port is "8080", and no integer/),
  bad(
    "a text for a boolean",
    cluster,
    { deletionProtection: "yes" },
    /deletionProtection is "yes", and no boolean/,
  ),
  bad("a text for a structure", cluster, { accessConfig: "API" }, /accessConfig is "API", and no structure/),
  bad("a missing required argument", cluster, { roleArn: undefined }, /roleArn is required and not there/),
  bad(
    "a missing member of a required structure",
    association,
    { targets: undefined, name: undefined },
    /: Name is required/,
  ),
  bad(
    "a missing member in an element of a list",
    association,
    { targets: [{ key: "", values: [] }] },
    /Targets\.Key has 0 characters/,
  ),
  bad(
    "a retention that CloudWatch does not offer",
    logGroup,
    { retentionInDays: 45 },
    /retentionInDays is 45, which does not exist/,
  ),
  bad(
    "a tag whose key is too long",
    cluster,
    { tags: { ["k".repeat(129)]: "" } },
    /the key k+ of tags has 129 characters/,
  ),
  bad(
    "a subscriber without an address",
    budget,
    { notifications: [{ ...(budget.inputs.notifications as object[])[0], subscriberEmailAddresses: [""] }] },
    /Subscribers\.Address has 0 characters/,
  ),
  bad(
    "a rule's port of the wrong kind",
    rule,
    { toPort: "2049" },
    /IpPermissions\.ToPort is "2049", and no integer/,
  ),
];
