/** How commands ask AWS: one region, the user's own credentials, and an answer that says why there is none. */
import { setMaxListeners } from "node:events";
import type * as acm from "@aws-sdk/client-acm";
import type * as ec2 from "@aws-sdk/client-ec2";
import type * as ecr from "@aws-sdk/client-ecr";
import type * as efs from "@aws-sdk/client-efs";
import type * as eks from "@aws-sdk/client-eks";
import type * as elb from "@aws-sdk/client-elastic-load-balancing-v2";
import type * as tag from "@aws-sdk/client-resource-groups-tagging-api";
import type * as secrets from "@aws-sdk/client-secrets-manager";
import type * as quotas from "@aws-sdk/client-service-quotas";
import type * as ssm from "@aws-sdk/client-ssm";
import type * as sts from "@aws-sdk/client-sts";
import { errorWords, UserError } from "../errors.ts";

/** Connecting takes milliseconds, and no question of this project seconds. */
const CONNECT_TIMEOUT_MILLISECONDS = 5000;
const REQUEST_TIMEOUT_MILLISECONDS = 15_000;
/** Of all tries, and of all pages, of one question. */
const ANSWER_TIMEOUT_MILLISECONDS = 60_000;
/** The first one included; between them the SDK waits, longer each time. */
const MAX_ATTEMPTS = 3;
/** To one service at a time: far below what any of them throttles. */
const MAX_SOCKETS = 6;

/**
 * Node 20 is supported here, with a version of the SDK that supports it: its notice of what later versions want is for those
 * who update the lock file.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";

/** Every operation that commands send, as IAM names it, with its input and output. */
interface Operations {
  "acm:DescribeCertificate": [acm.DescribeCertificateCommandInput, acm.DescribeCertificateCommandOutput];
  "ec2:DescribeCapacityReservations": [
    ec2.DescribeCapacityReservationsCommandInput,
    ec2.DescribeCapacityReservationsCommandOutput,
  ];
  "ec2:DescribeInstanceTypeOfferings": [
    ec2.DescribeInstanceTypeOfferingsCommandInput,
    ec2.DescribeInstanceTypeOfferingsCommandOutput,
  ];
  "ec2:DescribeInstanceTypes": [
    ec2.DescribeInstanceTypesCommandInput,
    ec2.DescribeInstanceTypesCommandOutput,
  ];
  "ec2:DescribeInstances": [ec2.DescribeInstancesCommandInput, ec2.DescribeInstancesCommandOutput];
  "ec2:DescribeSubnets": [ec2.DescribeSubnetsCommandInput, ec2.DescribeSubnetsCommandOutput];
  "ec2:DescribeVolumes": [ec2.DescribeVolumesCommandInput, ec2.DescribeVolumesCommandOutput];
  "ec2:DescribeVpcs": [ec2.DescribeVpcsCommandInput, ec2.DescribeVpcsCommandOutput];
  "ec2:StartInstances": [ec2.StartInstancesCommandInput, ec2.StartInstancesCommandOutput];
  "ec2:StopInstances": [ec2.StopInstancesCommandInput, ec2.StopInstancesCommandOutput];
  "ecr:DescribeImages": [ecr.DescribeImagesCommandInput, ecr.DescribeImagesCommandOutput];
  "ecr:DescribeRepositories": [ecr.DescribeRepositoriesCommandInput, ecr.DescribeRepositoriesCommandOutput];
  "ecr:GetAuthorizationToken": [
    ecr.GetAuthorizationTokenCommandInput,
    ecr.GetAuthorizationTokenCommandOutput,
  ];
  "eks:DescribeCluster": [eks.DescribeClusterCommandInput, eks.DescribeClusterCommandOutput];
  "eks:DescribeNodegroup": [eks.DescribeNodegroupCommandInput, eks.DescribeNodegroupCommandOutput];
  "eks:DescribeUpdate": [eks.DescribeUpdateCommandInput, eks.DescribeUpdateCommandOutput];
  "eks:ListNodegroups": [eks.ListNodegroupsCommandInput, eks.ListNodegroupsCommandOutput];
  "eks:UpdateNodegroupConfig": [
    eks.UpdateNodegroupConfigCommandInput,
    eks.UpdateNodegroupConfigCommandOutput,
  ];
  "elasticfilesystem:DescribeMountTargets": [
    efs.DescribeMountTargetsCommandInput,
    efs.DescribeMountTargetsCommandOutput,
  ];
  "elasticloadbalancing:DescribeTargetGroups": [
    elb.DescribeTargetGroupsCommandInput,
    elb.DescribeTargetGroupsCommandOutput,
  ];
  "elasticloadbalancing:DescribeTargetHealth": [
    elb.DescribeTargetHealthCommandInput,
    elb.DescribeTargetHealthCommandOutput,
  ];
  "secretsmanager:DescribeSecret": [secrets.DescribeSecretCommandInput, secrets.DescribeSecretCommandOutput];
  "secretsmanager:GetSecretValue": [secrets.GetSecretValueCommandInput, secrets.GetSecretValueCommandOutput];
  "servicequotas:GetAWSDefaultServiceQuota": [
    quotas.GetAWSDefaultServiceQuotaCommandInput,
    quotas.GetAWSDefaultServiceQuotaCommandOutput,
  ];
  "servicequotas:GetServiceQuota": [quotas.GetServiceQuotaCommandInput, quotas.GetServiceQuotaCommandOutput];
  "ssm:DescribeInstanceAssociationsStatus": [
    ssm.DescribeInstanceAssociationsStatusCommandInput,
    ssm.DescribeInstanceAssociationsStatusCommandOutput,
  ];
  "sts:GetCallerIdentity": [sts.GetCallerIdentityCommandInput, sts.GetCallerIdentityCommandOutput];
  "tag:GetResources": [tag.GetResourcesCommandInput, tag.GetResourcesCommandOutput];
}

export type Action = keyof Operations;
export type Output<A extends Action> = Operations[A][1];

/** Clients by the prefix of actions. Each loads with its first question. */
const CLIENTS: Readonly<Record<string, readonly [load: () => Promise<object>, name: string]>> = {
  acm: [() => import("@aws-sdk/client-acm"), "ACMClient"],
  ec2: [() => import("@aws-sdk/client-ec2"), "EC2Client"],
  ecr: [() => import("@aws-sdk/client-ecr"), "ECRClient"],
  eks: [() => import("@aws-sdk/client-eks"), "EKSClient"],
  elasticfilesystem: [() => import("@aws-sdk/client-efs"), "EFSClient"],
  elasticloadbalancing: [
    () => import("@aws-sdk/client-elastic-load-balancing-v2"),
    "ElasticLoadBalancingV2Client",
  ],
  secretsmanager: [() => import("@aws-sdk/client-secrets-manager"), "SecretsManagerClient"],
  servicequotas: [() => import("@aws-sdk/client-service-quotas"), "ServiceQuotasClient"],
  ssm: [() => import("@aws-sdk/client-ssm"), "SSMClient"],
  sts: [() => import("@aws-sdk/client-sts"), "STSClient"],
  tag: [() => import("@aws-sdk/client-resource-groups-tagging-api"), "ResourceGroupsTaggingAPIClient"],
};

/** What a service says to one question. */
export type Answer<T> =
  | { readonly kind: "answer"; readonly value: T }
  /** It has no such thing. */
  | { readonly kind: "absent" }
  /** The credentials may not ask. */
  | { readonly kind: "denied"; readonly action: string; readonly words: string }
  /** No service answers, or not as AWS does. */
  | { readonly kind: "silent"; readonly action: string; readonly words: string };

/** As services name it: `RepositoryNotFoundException`, `InvalidVpcID.NotFound`, `NoSuchResourceException`. */
const ABSENT = /NotFound|NoSuch/;
const DENIED = /AccessDenied|UnauthorizedOperation|NotAuthorized|Forbidden/;

/**
 * What every client of the SDK is made with. Credentials, profile and AWS_ENDPOINT_URL are the environment's, read by the
 * SDK itself.
 */
export function clientSettings(region: string) {
  return {
    region,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MILLISECONDS,
      requestTimeout: REQUEST_TIMEOUT_MILLISECONDS,
      throwOnRequestTimeout: true,
      httpAgent: { maxSockets: MAX_SOCKETS },
      httpsAgent: { maxSockets: MAX_SOCKETS },
    },
  } as const;
}

/** The parts of every client's package. */
interface AnySdk {
  readonly [name: string]: unknown;
}
type Pages = (config: object, input: object, options: object) => AsyncIterable<object>;
type AnyClient = new (settings: object) => { send(command: object, options: object): Promise<object> };

/** Sends one operation, and reads all pages of a list. Never throws an error of the service or of the network. */
export async function ask<A extends Action>(
  action: A,
  region: string,
  input: Operations[A][0],
): Promise<Answer<Output<A>>> {
  const [service = "", operation = ""] = action.split(":");
  const [load, name] = CLIENTS[service] ?? [];
  const sdk = (await load?.()) as AnySdk;
  const abortSignal = AbortSignal.timeout(ANSWER_TIMEOUT_MILLISECONDS);
  // Every call of a question listens to it, and Node warns of a leak from the eleventh on.
  setMaxListeners(0, abortSignal);
  try {
    const connected = new (sdk[name ?? ""] as AnyClient)(clientSettings(region));
    const paginate = sdk[`paginate${operation}`] as Pages | undefined;
    const command = sdk[`${operation}Command`] as new (input: object) => object;
    const value =
      paginate === undefined
        ? await connected.send(new command(input), { abortSignal })
        : await allPages(paginate({ client: connected }, input, { abortSignal }));
    return { kind: "answer", value: value as Output<A> };
  } catch (error) {
    if (ABSENT.test((error as Error).name)) return { kind: "absent" };
    const kind = DENIED.test((error as Error).name) ? "denied" : "silent";
    return { kind, action, words: refusalWords(error as Error) };
  }
}

/** Pages as one: their lists one after the other. */
async function allPages(pages: AsyncIterable<object>): Promise<object> {
  const all: Record<string, unknown> = {};
  for await (const page of pages)
    for (const [key, value] of Object.entries(page))
      all[key] = Array.isArray(value) ? [...((all[key] as unknown[] | undefined) ?? []), ...value] : value;
  return all;
}

/** One line. An answer that is not the service's, such as the page of a proxy, is told by its status. */
function refusalWords(error: Error): string {
  const { $response } = error as { readonly $response?: { readonly statusCode?: number } };
  if (error instanceof SyntaxError && $response?.statusCode !== undefined)
    return `It answers with status ${$response.statusCode}, and not as AWS does`;
  return `${error.name}: ${errorWords(error)}`.replace(/\s*\n\s*/g, " ");
}

/** The same answer with another value. */
export function mapAnswer<T, U>(answer: Answer<T>, of: (value: T) => U): Answer<U> {
  return answer.kind === "answer" ? { kind: "answer", value: of(answer.value) } : answer;
}

/** The value of an answer. @throws UserError with AWS's own words where there is none. */
export function required<T>(answer: Answer<T>, absent: string): T {
  if (answer.kind === "answer") return answer.value;
  if (answer.kind === "absent") throw new UserError(absent);
  throw new UserError(
    answer.kind === "denied"
      ? `Your credentials may not ask ${answer.action} (${answer.words}).`
      : `${answer.action} failed: ${answer.words}`,
  );
}

type Tag = { readonly Key?: string | undefined; readonly Value?: string | undefined };

/** Values by key. */
export function tagMap(tags: readonly Tag[] = []): ReadonlyMap<string, string> {
  return new Map(tags.map(({ Key = "", Value = "" }) => [Key, Value]));
}
