/** `platform: aws`: what a stack says of the account, the network and the machines that it is to make. */
import { z } from "zod";
import {
  ADD_ON_CHOICES,
  ADDABLE_ADD_ONS,
  CHART_NAMES,
  CONTROL_PLANE_LOGS,
  DEFAULT_KUBERNETES_VERSION,
  KUBERNETES_VERSIONS,
  LOG_CHART,
  NETWORK_DEFAULTS,
  ZONE_LETTERS,
} from "../plan/catalogue/aws.ts";
import {
  cpuImages,
  dockerDatabases,
  externalBySecrets,
  formattedText,
  gpuImages,
  ipv4Cidr,
  minGateways,
  remoteGateway,
  secret,
  section,
} from "./common.ts";
import { clusterEncodersOrNone, hostEncodersOrNone } from "./encoders.ts";
import { clusterModel, clusterParts, databaseVolume, gpuMonitoringOptions } from "./kubernetes-stacks.ts";
import {
  bucketWeights,
  engines,
  gpuModels,
  hostModels,
  hourlyUsd,
  pool,
  pools,
  prePullImages,
  shared,
} from "./models.ts";

/** ARN of one service; partitions of China and GovCloud have other names. @param resource - Form of what follows the account. */
export const arn = (service: string, resource: string, rule: string, example: string) =>
  formattedText(new RegExp(`^arn:aws[a-z-]*:${service}:[a-z0-9-]*:\\d{12}:${resource}$`), rule, example);

/** Identifiers of EC2: a prefix and 8 or 17 hexadecimal digits. */
const id = (prefix: string) =>
  formattedText(
    new RegExp(`^${prefix}-([0-9a-f]{8}|[0-9a-f]{17})$`),
    `an id that begins with ${prefix}-`,
    `${prefix}-0123456789abcdef0`,
  );

/** The letter of a zone, after the region's name. */
const zone = z.enum(ZONE_LETTERS, {
  // AWS's consoles show zones by their full names.
  error: ({ input }) => {
    const letter = /^[a-z]{2}(?:-[a-z]+)+-\d([a-z])$/.exec(String(input))?.[1];
    if (letter === undefined || !ZONE_LETTERS.some((other) => other === letter)) return undefined;
    return `Use the zone letter only: ${letter}, not ${input}.\nWrite ${letter}.`;
  },
});

const subnet = z.strictObject({
  /** Id of the subnet. */
  id: id("subnet"),
  zone,
});

const existingNetwork = z.strictObject({
  /** Id of the VPC. */
  vpcId: id("vpc"),
  cidr: ipv4Cidr,
  /** Subnets of machines, one per zone, with a route to the internet. */
  privateSubnets: z.array(subnet).min(1).max(3),
  /** Subnets of a public load balancer. */
  publicSubnets: z.array(subnet).max(3).default([]),
});

const network = section({
  /** Letters of the zones. `npx engine-room preflight` checks that they offer the instance types. */
  zones: z
    .array(zone)
    .min(1)
    .max(3)
    .default([...NETWORK_DEFAULTS.zones]),
  /** CIDR block of a new VPC, /16 to /20. */
  cidr: ipv4Cidr.default(NETWORK_DEFAULTS.cidr),
  /** `one` is cheaper and fails with its zone; `perZone` survives that, and avoids traffic between zones. */
  nat: z.enum(["one", "perZone"]).default(NETWORK_DEFAULTS.nat),
  /**
   * `free`: S3, which has the layers of images, is reached without a NAT gateway. `private`: so is every service of AWS that
   * machines and controllers use, at about 0.01 US dollars an hour for each service and zone.
   */
  endpoints: z.enum(["free", "private"]).default(NETWORK_DEFAULTS.endpoints),
  /** Flow logs of the VPC, in CloudWatch. */
  flowLogs: z.boolean().default(NETWORK_DEFAULTS.flowLogs),
  /** Networks that the VPC is connected to, by peering or VPN; an internal gateway answers them too. */
  peeredCidrs: z.array(ipv4Cidr).max(20).default([]),
  /** An existing VPC, instead of a VPC of the stack. */
  existing: existingNetwork.optional(),
});

const engineStore = section({
  /** Throughput mode of the file system: `elastic` is billed by bytes read, `provisioned` by the hour. */
  throughput: z.enum(["elastic", "provisioned"]).default("elastic"),
  /** Only with `throughput: provisioned`. */
  provisionedMiBPerSecond: z.int().min(1).max(3414).optional(),
  /** Read throughput of a single client. */
  readMBPerSecond: z.int().min(1).max(100_000).default(500),
  /** An existing file system, and the security group of its mount targets, to which the stack adds a rule for its machines. */
  existing: z
    .strictObject({
      /** Id of the file system. */
      fileSystemId: id("fs"),
      /** Id of the security group of its mount targets. */
      securityGroupId: id("sg"),
    })
    .optional(),
  /** Daily copies by AWS Backup, for 35 days. Engines are built again without them, and weights downloaded. */
  backups: z.boolean().optional(),
});

/** A network of any length, as EKS and security groups take it. */
const apiCidr = formattedText(
  /^(25[0-5]|2[0-4]\d|[01]?\d?\d)(\.(25[0-5]|2[0-4]\d|[01]?\d?\d)){3}\/(3[0-2]|[0-2]?\d)$/,
  "a CIDR",
  "203.0.113.7/32",
  (value) =>
    /^\d{1,3}(\.\d{1,3}){3}\/\d{1,2}$/.test(String(value))
      ? "Each of the four numbers is 0 to 255, and the length 0 to 32.\nWrite a CIDR such as 203.0.113.7/32."
      : undefined,
);

/** Retention of backups of the databases' disks. */
const backupDays = {
  /** Days for which AWS Backup keeps a daily copy of the documents; 0: no copies. Absent: 35 for a stack of `retain`, else 0. */
  backupDays: z.int().min(0).max(3650).optional(),
};

/** `internal`: a load balancer within the VPC. `public`: a load balancer on the internet, with certificate and keys. */
const gateway = remoteGateway.extend({
  /** `internal`: a load balancer within the VPC. `public`: a load balancer on the internet, with certificate and keys. */
  exposure: z.enum(["internal", "public"]).default("internal"),
  /** Certificate of `hostname`; absent for a public gateway with `zoneId`: the stack makes one, which AWS renews. */
  tls: z
    .strictObject({
      /** A certificate of AWS Certificate Manager, in the region of the stack. */
      certificateArn: arn(
        "acm",
        "\\S+",
        "the ARN of a certificate in ACM",
        "arn:aws:acm:us-east-1:111122223333:certificate/12345678-1234-1234-1234-123456789012",
      ),
    })
    .optional(),
  /** Route 53 zone for the record of `hostname`, and of the certificate that the stack makes; absent: the record is yours to create. */
  zoneId: formattedText(/^Z[A-Z0-9]{1,31}$/, "the id of a hosted zone", "Z0123456789ABCDEFGHIJ").optional(),
  /**
   * Networks whose clients a public load balancer answers; absent: everyone. An internal load balancer answers the VPC and
   * `network.peeredCidrs`.
   */
  allowedCidrs: z.array(apiCidr).min(1).max(40).optional(),
  /** A web ACL of AWS WAF, in the region of the stack, which looks at all requests first. */
  wafAclArn: arn(
    "wafv2",
    "regional/webacl/\\S+",
    "the ARN of a regional web ACL",
    "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/models/12345678-1234-1234-1234-123456789012",
  ).optional(),
  /** An S3 bucket, in the region of the stack, for the load balancer's access logs. docs/platforms/aws-options.md has the policy that it needs. */
  accessLogsBucket: formattedText(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    "only the name of a bucket, without s3:// and folders",
    "example-access-logs",
  ).optional(),
});

const awsPool = pool.extend({
  /** `spot` machines cost less, and AWS may take them back at any time. */
  capacity: z.enum(["onDemand", "spot"]).default("onDemand"),
  /** On-Demand Capacity Reservation, or Capacity Block, in one zone. */
  capacityReservationId: id("cr").optional(),
});

const clusterPool = awsPool.extend({
  /**
   * `spot` machines cost less, and AWS may take them back at any time. `capacityBlock`: machines of the Capacity Block for ML that
   * `capacityReservationId` names, which are paid for beforehand and end with it.
   */
  capacity: z.enum(["onDemand", "spot", "capacityBlock"]).default("onDemand"),
  /**
   * Further instance types, with the same GPU and as many of them, and at least as large as `instanceType`: AWS starts them in this order
   * if it lacks the types before. Room is computed for `instanceType`, cost for the dearest.
   */
  otherInstanceTypes: z.array(z.string().min(1).max(30)).max(10).default([]),
  prePullImages,
  /** Letters of the network's zones that it uses; absent: all. Large GPUs are often available in one zone only. */
  zones: z.array(zone).min(1).max(3).optional(),
  /** Idle machines that the pool keeps, so that the next server starts without waiting for one. */
  warm: z.int().min(0).max(100).default(0),
});

const machinePool = awsPool.omit({ sharing: true }).extend({
  /** Letter of the zone of the machine and its NAT gateway; absent: the first of the network in the alphabet. */
  zone: zone.optional(),
});

/** EKS gives access only to users and roles: https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html */
const principals = z
  .array(
    arn(
      "iam",
      "(user|role)/\\S+",
      "the ARN of an IAM user or of an IAM role",
      "arn:aws:iam::111122223333:role/platform-team",
    ),
  )
  .max(20)
  .default([]);

/** Characters that every AWS service accepts: https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html */
const tagText = (longest: number, others: string) =>
  formattedText(
    new RegExp(`^[\\p{L}\\p{N} _.:/+@${others}-]{1,${longest}}$`, "u"),
    `1 to ${longest} letters, digits, spaces and _ . : / + @ ${others} -`.replace("  ", " "),
    "cost-center",
  );

/** YAML reads `011122223333` as a number, which has no leading zeros. */
function shortAccount(value: unknown): string | undefined {
  const digits = /^\d{1,11}$/.exec(String(value))?.[0];
  if (digits === undefined) return undefined;
  return `An account has twelve digits, and this has ${digits.length}: without quotes YAML reads a number and drops its leading zeros.
Write all twelve digits in quotes: "${digits.padStart(12, "0")}", if only leading zeros are missing.`;
}

const logRetentionDays = z.literal([1, 3, 5, 7, 14, 30, 60, 90, 180, 365]).default(30);

/** A registry, with a path if it needs one. */
const mirror = cpuImages.shape.registry;

/** Values of a chart, as its `values.yaml` has them. */
const chartValues = z.record(z.string(), z.unknown());

export const account = formattedText(
  /^\d{12}$/,
  "the twelve digits of an account, in quotes",
  '"111122223333"',
  shortAccount,
);

export const region = formattedText(/^[a-z]{2}(-[a-z]+)+-\d$/, "an AWS region", "us-east-1");

const common = {
  platform: z.literal("aws"),
  ...shared,
  /** Account of the stack; with credentials of another one nothing is changed. */
  account,
  /** Region of the stack. */
  region,
  network,
  /**
   * Key of KMS for all that the stack stores: disks, engine store, Secrets of the cluster, secrets, logs and backups. docs/platforms/aws-options.md
   * says what its policy has to allow. Absent: AWS's own keys, and another key for Secrets of the cluster. It stays as it was at
   * the first `up`.
   */
  kmsKeyArn: arn(
    "kms",
    "key/[A-Za-z0-9-]+",
    "the ARN of a key, not of an alias",
    "arn:aws:kms:us-east-1:111122223333:key/12345678-1234-1234-1234-123456789012",
  ).optional(),
  access: section({
    /** `public`: the networks of `apiCidrs` reach the cluster's API from the internet. `private`: only the VPC and `privateCidrs` reach it. */
    endpoint: z.enum(["public", "private"]).default("public"),
    /** Networks of the internet that may reach the cluster's API; the gateway's clients are not limited by it. */
    apiCidrs: z.array(apiCidr).max(40).default([]),
    /** Networks of the VPC, or connected to it, from which runners and people reach the cluster's API at its private addresses. */
    privateCidrs: z.array(ipv4Cidr).max(20).default([]),
    /** Whether the creator of the cluster administers it. `false`: only `admins` do. Another value later changes nothing. */
    creatorIsAdmin: z.boolean().default(true),
    /** IAM roles or users that administer the cluster. */
    admins: principals,
    /** IAM roles or users that read objects in the cluster's namespaces, except Secrets. */
    viewers: principals,
  }),
  iam: section({
    /** Policy that limits what every role of the stack may do, if an account requires it for new roles. */
    permissionsBoundaryArn: formattedText(
      /^arn:aws[a-z-]*:iam::(\d{12}|aws):policy\/\S+$/,
      "the ARN of a policy of IAM",
      "arn:aws:iam::111122223333:policy/boundary",
    ).optional(),
    /**
     * Path of the stack's roles and its instance profile. It stays as it was at the first `up`, because EKS does not change the role of
     * a cluster.
     */
    path: formattedText(/^\/([\w+=,.@-]+\/)+$/, "a path that begins and ends with a slash", "/engine-room/")
      .max(512)
      .optional(),
  }),
  /** Tags of all resources, in addition to the project's own. A changed value replaces the machines of a cluster, one after the other. */
  tags: z.record(tagText(128, ""), tagText(256, "=")).default({}),
  engineStore,
  logs: section({
    /** Sends what containers print to CloudWatch; absent: it stays on the machines. */
    cloudwatch: z
      .strictObject({
        /** Days until CloudWatch deletes a line. */
        retentionDays: logRetentionDays,
      })
      .optional(),
  }),
  hub: section({
    token: secret.optional(),
    /** A secret of Secrets Manager whose value is the token. */
    tokenSecretArn: arn(
      "secretsmanager",
      // Secrets Manager finds a secret without the end of its ARN, but IAM compares the whole ARN with the role's policy.
      // https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html
      "secret:\\S+-[A-Za-z0-9]{6}",
      "the ARN of a secret with the hyphen and the six characters that AWS ends it with",
      "arn:aws:secretsmanager:us-east-1:111122223333:secret:engine-room-dev/hub-token-AbCdEf",
    ).optional(),
  }),
  images: gpuImages.prefault({}),
  guard: section({
    /** Only with `emails`. AWS sends a mail at 80 % of it, and when it forecasts more; absent: 1.2 times the planned cost. */
    monthlyUsd: z.number().min(1).max(10_000_000).optional(),
    /**
     * The costs that the budget adds up. `stack`: costs with the tag `engine-room:stack`, once it is active as a cost allocation tag; in an
     * organisation only the management account activates it, and before that the budget sees nothing. `account`: all costs of the
     * account.
     */
    scope: z.enum(["stack", "account"]).default("stack"),
    /** Recipients of the mail; without any the stack has no budget. */
    emails: z
      .array(formattedText(/^[^@\s]+@[^@\s]+\.[^@\s]+$/, "an e-mail address", "ops@example.org"))
      .max(10)
      .default([]),
    /** For preview stacks: hours after the last `up` until `npx engine-room expire --down` destroys it. */
    ttlHours: z.int().min(1).max(8760).optional(),
  }),
  /**
   * Cost of an hour of everything without a price in the region, except pools, which have `hourlyUsd`: control plane, NAT
   * gateways, endpoints, load balancer, disks and engine store.
   */
  otherHourlyUsd: hourlyUsd.optional(),
  /** Names of stacks that `down` refuses to delete: cluster, engine store and databases are protected until the name is removed and `up` ran. */
  retain: z.array(z.string().min(1).max(100)).max(50).default([]),
};

/** `compute: eks`: a cluster, and in it everything of `platform: kubernetes`. */
export const eksStack = z.strictObject({
  ...common,
  compute: z.literal("eks").default("eks"),
  ...clusterParts,
  /** Volume of each of the stack's two own databases. */
  databaseStorage: section({ ...databaseVolume, ...backupDays }),
  monitoringOptions: gpuMonitoringOptions
    .unwrap()
    .extend({
      /** SNS topic, in the region of the stack, to which Alertmanager sends alerts; absent: alerts are only in Prometheus. */
      snsTopicArn: arn(
        "sns",
        "[A-Za-z0-9_-]{1,256}",
        "the ARN of a standard topic of SNS",
        "arn:aws:sns:us-east-1:111122223333:alerts",
      ).optional(),
    })
    .prefault({}),
  /** Language and vision-language models that the stack serves. */
  models: gpuModels(clusterModel.extend({ weights: bucketWeights })),
  encoders: clusterEncodersOrNone,
  /** Groups of machines of one instance type. */
  pools: pools(clusterPool),
  gateway: gateway.extend({ minReplicas: minGateways }).prefault({}),
  cluster: section({
    /**
     * An existing cluster, in the network that `network.existing` names, instead of a cluster of the stack. Its version, address, access and
     * add-ons stay as they are. Its stacks have a `namespace` each.
     */
    existing: z
      .strictObject({
        /** Name of the cluster. */
        name: formattedText(
          /^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$/,
          "the name of a cluster: letters, digits, hyphens and underscores",
          "platform",
        ),
        /** Add-ons of EKS that the cluster lacks, and the stack installs. */
        addOns: z.array(z.enum(ADDABLE_ADD_ONS)).max(ADDABLE_ADD_ONS.length).default([]),
      })
      .optional(),
    /** Kubernetes version of the control plane. */
    version: z.enum(KUBERNETES_VERSIONS).default(DEFAULT_KUBERNETES_VERSION),
    /**
     * Release of EKS's machine images that node groups have, such as `1.36.0-20260915`; another one replaces their machines in the next
     * `up`. Absent: the newest when a group is made, until you renew it. `npx engine-room preflight` says which is the newest.
     */
    machineImageRelease: formattedText(
      /^1\.\d+\.\d+-20\d{6}$/,
      "a release of EKS's machine images",
      "1.36.0-20260915",
    ).optional(),
    /** Logs of the control plane, and flow logs of the VPC. */
    logRetentionDays,
    /**
     * Logs of the control plane in CloudWatch, billed by the GB. By default those that can't be restored later: who did what
     * (`audit`), and whom AWS let in (`authenticator`). The others are for faults of the control plane, which AWS runs.
     */
    controlPlaneLogs: z
      .array(z.enum(CONTROL_PLANE_LOGS))
      .max(CONTROL_PLANE_LOGS.length)
      .default(["audit", "authenticator"]),
    /** `existing`: the cluster has the chart already. `none`: the stack leaves out objects that need it. Absent: `install`, and `keda` only if a server scales by it; with `cluster.existing`: `existing`. */
    charts: z.partialRecord(z.enum(CHART_NAMES), z.enum(ADD_ON_CHOICES)).default({}),
    /**
     * Values of charts that the stack installs, merged over its own: maps key by key, other values as a whole, and `null` removes
     * a key. They are in the state as plain text.
     */
    chartValues: z.partialRecord(z.enum([...CHART_NAMES, LOG_CHART]), chartValues).default({}),
    /** For networks without the internet. Images of EKS' add-ons come from ECR of the region in any case. */
    mirror: section({
      /**
       * Registry of copies of the charts' images, each under the name of its own registry: `MIRROR/quay.io/prometheus/prometheus`, as
       * pull-through caches of ECR have them. `npx engine-room images --charts` prints them.
       */
      images: mirror,
      /** OCI registry of copies of the charts, for who runs `up` without the internet: `oci://MIRROR/keda`. */
      charts: mirror,
    }),
  }),
});

/** `compute: ec2`: one machine that runs the containers of `platform: docker`. */
export const ec2Stack = z.strictObject({
  ...common,
  compute: z.literal("ec2"),
  models: hostModels,
  encoders: hostEncodersOrNone,
  // A machine with a single GPU cannot serve the model while a new engine is built.
  engines: engines("stopServer"),
  /** Groups of machines of one instance type; the stack uses one machine. */
  pools: pools(machinePool),
  gateway: gateway.prefault({}),
  ...dockerDatabases,
  /** Only with `databases: external`. */
  externalDatabases: externalBySecrets
    .extend({
      /** A MongoDB server. */
      mongo: externalBySecrets.shape.mongo.extend({
        // The machine's security group has to know where it may go.
        /** Port of all its servers. */
        port: z.int().min(1).max(65535).default(27_017),
      }),
    })
    .optional(),
  /**
   * Disk of both databases. It grows with the next `up`, and never shrinks; at most what gp3 offers in every region
   * (https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html).
   */
  databaseStorage: section({
    /** Size of the disk. */
    sizeGiB: z.int().min(1).max(16_384).default(20),
    ...backupDays,
  }),
});

export type EksConfig = Readonly<z.infer<typeof eksStack>>;
export type Ec2Config = Readonly<z.infer<typeof ec2Stack>>;
export type AwsConfig = EksConfig | Ec2Config;
