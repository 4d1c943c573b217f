/**
 * What a stack makes in an account, as data: the components of components/aws register it. Pure, as all of the plan; the
 * words are those of AWS's own API. Ids that AWS gives are in none of it: components hand them to each other.
 */
import type { ChartName } from "../catalogue/charts.ts";
import type { ContainerRole, SecretName } from "../docker/types.ts";

/** Sorted. */
export type Tags = Readonly<Record<string, string>>;

/** What every part of a stack on AWS needs to know of it. */
export interface AwsContext {
  /** Name of the stack. */
  readonly stack: string;
  /** `engine-room-<stack>`: what is named by the stack begins with it. */
  readonly name: string;
  readonly account: string;
  readonly region: string;
  /** `aws`, `aws-us-gov`. */
  readonly partition: string;
  /** Whether the stack file names the stack in `retain`: its data and its cluster are protected. */
  readonly isRetained: boolean;
  /** Of everything that takes tags; components add none of their own. */
  readonly tags: Tags;
  /** Those of them that stay as long as the stack: of what is made anew, or whose machines are, where a tag changes. */
  readonly lastingTags: Tags;
}

export interface SubnetPlan {
  /** Letter after the region's name. */
  readonly zone: string;
  readonly cidr: string;
}

export type NetworkPlan =
  | {
      readonly kind: "create";
      readonly cidr: string;
      /** One a zone, in the order of the stack file. */
      readonly privateSubnets: readonly SubnetPlan[];
      readonly publicSubnets: readonly SubnetPlan[];
      /** Zones that have a NAT gateway; the others use the first one's. */
      readonly natZones: readonly string[];
      /** Services with an interface endpoint, sorted: `ecr.api`, `ecr.dkr`, `elasticfilesystem`, `logs`, `sts`. */
      readonly interfaceEndpoints: readonly string[];
      /** null: nobody records who connects. */
      readonly flowLogs: {
        readonly logGroup: string;
        readonly retentionDays: number;
        readonly role: RolePlan;
      } | null;
      /** Tags by which EKS' load balancer controller finds subnets, besides the stack's. */
      readonly publicSubnetTags: Tags;
      readonly privateSubnetTags: Tags;
    }
  | {
      readonly kind: "existing";
      readonly vpcId: string;
      readonly cidr: string;
      readonly privateSubnets: readonly { readonly zone: string; readonly id: string }[];
      readonly publicSubnets: readonly { readonly zone: string; readonly id: string }[];
    };

/** One statement of an IAM policy. */
export interface Statement {
  readonly sid: string;
  readonly effect: "Allow" | "Deny";
  readonly actions: readonly string[];
  /** ARNs. `${name}` stands for what is known only when it is made, and is among the inputs of the role's component. */
  readonly resources: readonly string[];
  readonly conditions?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;
  /** Why the workload needs it: docs/aws.md and the tests have it. */
  readonly why: string;
}

/** A role, and who may take it. */
export interface RolePlan {
  /** After the stack's name: `cluster`, `node`, `efs-csi`. */
  readonly subject: string;
  /** `pods.eks.amazonaws.com`, `eks.amazonaws.com`, `ec2.amazonaws.com`, … */
  readonly service: string;
  /** ARNs of AWS's own policies. */
  readonly managedPolicies: readonly string[];
  readonly statements: readonly Statement[];
  /** The one ServiceAccount whose pods take it; null: no pod does. */
  readonly serviceAccount: { readonly namespace: string; readonly name: string } | null;
}

export interface FileSystemPlan {
  readonly kind: "create" | "existing";
  /** null where it is made. */
  readonly fileSystemId: string | null;
  /** Security group of the mount targets of one that is there. */
  readonly securityGroupId: string | null;
  readonly throughput:
    | { readonly mode: "elastic" }
    | { readonly mode: "provisioned"; readonly mibps: number };
  readonly hasBackups: boolean;
  /** Of the access point: user and group of builders and servers. */
  readonly userId: number;
  /** Rights of the folder where the access point makes it: `0750`. */
  readonly permissions: string;
  /** Folder of the access point. */
  readonly path: string;
  readonly isProtected: boolean;
}

export interface RepositoryPlan {
  /** `engine-room/services`: stacks of an account share them. */
  readonly name: string;
  readonly image: string;
  /** Images that are kept, the newest. */
  readonly keptImages: number;
}

export interface AddOnPlan {
  /** As EKS names it: `vpc-cni`. */
  readonly name: string;
  readonly version: string;
  /** JSON text that EKS hands to it; null: its defaults. */
  readonly configuration: Readonly<Record<string, unknown>> | null;
  /** Its role by pod identity; null: it needs none. */
  readonly role: RolePlan | null;
  /** Whether it must be there before the first machine joins. */
  readonly isBeforeNodes: boolean;
}

export interface ChartPlan {
  readonly name: ChartName;
  readonly chart: string;
  readonly version: string;
  readonly repository: string;
  /** Name of the release: resources that have a name of the chart's choosing begin with it. */
  readonly release: string;
  readonly namespace: string;
  /** `${clusterName}`, `${vpcId}` in texts stand for what is known later. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly role: RolePlan | null;
  /** Whether it claims a disk, which nobody deletes where the cluster goes first. */
  readonly hasDisk: boolean;
}

export interface NodePoolPlan {
  /** Pool of the stack file, or `system`. */
  readonly name: string;
  readonly instanceTypes: readonly string[];
  readonly amiType: "AL2023_x86_64_NVIDIA" | "AL2023_x86_64_STANDARD";
  readonly capacityType: "ON_DEMAND" | "SPOT";
  /** Machines that stay. This and the next two are what a group begins with; `npm run up` changes them of one that is there. */
  readonly min: number;
  readonly max: number;
  readonly desired: number;
  /** Of the group, besides the stack's: its size in words, which nothing else in a preview would show to be another one. */
  readonly sizeTags: Tags;
  /** Zones by letter. */
  readonly zones: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly {
    readonly key: string;
    readonly value: string;
    readonly effect: "NO_SCHEDULE" | "PREFER_NO_SCHEDULE" | "NO_EXECUTE";
  }[];
  readonly rootDisk: { readonly sizeGiB: number; readonly iops: number; readonly throughputMiBps: number };
  /** MIME document of nodeadm, without base64. */
  readonly userData: string;
  readonly capacityReservationId: string | null;
  /** `MINIMAL`: an update ends a machine before it starts the next one. `DEFAULT`: the other way round, in every zone at once. */
  readonly updateStrategy: "DEFAULT" | "MINIMAL";
  /** Of the Auto Scaling group, by which the autoscaler knows what a machine of an empty pool would have. */
  readonly scalingTags: Tags;
}

export interface ClusterPlan {
  readonly version: string;
  readonly publicCidrs: readonly string[];
  /** ARNs of principals that administer it. */
  readonly admins: readonly string[];
  readonly logRetentionDays: number;
  readonly role: RolePlan;
  readonly nodeRole: RolePlan;
  readonly addOns: readonly AddOnPlan[];
  readonly charts: readonly ChartPlan[];
  readonly pools: readonly NodePoolPlan[];
  /** Roles of the stack's own pods. */
  readonly podRoles: readonly RolePlan[];
}

/** The door for clients: a load balancer, with what it hands requests to. */
export interface EdgePlan {
  /** Of the load balancer, 32 characters at most. Another one where a change of the plan replaces it. */
  readonly loadBalancerName: string;
  readonly targetGroupName: string;
  readonly isPublic: boolean;
  /** Who may connect: networks. Everybody where it is public, who then needs a key of the gateway's. */
  readonly cidrs: readonly string[];
  readonly hostname: string | null;
  readonly zoneId: string | null;
  /** null: HTTP, only where it is internal. */
  readonly certificateArn: string | null;
  /** Of the gateway's pods or container. */
  readonly targetPort: number;
  readonly targetType: "ip" | "instance";
  readonly healthPath: string;
  /** Longer than the longest answer, of which nothing may come before its end. */
  readonly idleTimeoutSeconds: number;
  /** How long a target that is to go may still answer. */
  readonly drainSeconds: number;
  /** null: by the name that AWS gives the load balancer. */
  readonly url: string | null;
}

export interface GuardPlan {
  /** null: nobody is told. */
  readonly budget: {
    readonly monthlyUsd: number;
    readonly emails: readonly string[];
    /** `user:engine-room:stack$dev`. */
    readonly tagFilter: string;
  } | null;
}

/** A unit of systemd, with the files that it needs. */
export interface UnitPlan {
  /** `engine-room-gateway.service`. */
  readonly name: string;
  readonly role: ContainerRole | "setup";
  readonly text: string;
  /** By absolute path on the instance, with their mode as text: `0644`. */
  readonly files: Readonly<Record<string, { readonly text: string; readonly mode: string }>>;
}

/** A command that runs on the instance through Systems Manager, and that `up` waits for. */
export interface InstanceTaskPlan {
  /** `setup`, `build-gpt2-medium-0123456789ab`, `services`. */
  readonly name: string;
  /** Units that it writes. */
  readonly units: readonly UnitPlan[];
  /** Shell text of the association: idempotent, ends with exit code 0 when what it starts has ended or answers. */
  readonly script: string;
  /** With a hash of its content in the name: another content is another document, which runs again. */
  readonly document: { readonly name: string; readonly content: string };
  /** How long the script may take. */
  readonly timeoutSeconds: number;
  /** How long `up` waits for its success: the agent has to come for it, and may be busy with the one before. */
  readonly waitSeconds: number;
  /** Tasks before it. */
  readonly after: readonly string[];
  /** Whether it has to run again when the value of a secret is another one. */
  readonly readsSecrets: boolean;
}

/** A secret that containers of the instance read. */
export interface InstanceSecretPlan {
  readonly name: SecretName;
  /** Of the one that the stack makes; null: it is there already. */
  readonly secretName: string | null;
  /** As a policy may name it; of one that the stack makes with `??????` for what only Secrets Manager knows. */
  readonly arn: string;
  /** On the instance, in memory. */
  readonly file: string;
}

export interface InstancePlan {
  readonly instanceType: string;
  readonly zone: string;
  /** SSM public parameter of the deep-learning AMI. */
  readonly amiParameter: string;
  readonly rootDiskGiB: number;
  /** A volume of its own, which another machine of the stack gets with all documents. */
  readonly databaseDisk: { readonly sizeGiB: number; readonly deviceName: string };
  readonly isSpot: boolean;
  readonly capacityReservationId: string | null;
  /** Whether neither the console nor a command ends it by accident, and the databases' disk outlives the stack. */
  readonly isProtected: boolean;
  /** TCP ports that it may connect to, wherever they are, by what answers there. */
  readonly egressPorts: Readonly<Record<string, number>>;
  /** Under 16 KiB; `${fileSystemId}`, `${accessPointId}` and `${databaseVolumeSerial}` stand for what is known later. */
  readonly userData: string;
  readonly role: RolePlan;
  /** Each behind all that it comes after. */
  readonly tasks: readonly InstanceTaskPlan[];
  readonly secrets: readonly InstanceSecretPlan[];
  /** Secrets whose values the stack file has. */
  readonly stackSecrets: readonly SecretName[];
}

interface AwsParts {
  readonly context: AwsContext;
  readonly network: NetworkPlan;
  readonly fileSystem: FileSystemPlan;
  /** None where images come from a registry of the stack file. */
  readonly repositories: readonly RepositoryPlan[];
  readonly edge: EdgePlan;
  readonly guard: GuardPlan;
}
export interface EksStack extends AwsParts {
  readonly compute: "eks";
  readonly cluster: ClusterPlan;
}
export interface Ec2Stack extends AwsParts {
  readonly compute: "ec2";
  readonly instance: InstancePlan;
}
export type AwsStack = EksStack | Ec2Stack;
