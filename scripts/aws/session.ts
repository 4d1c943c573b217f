/** Requests of commands to AWS: one region, the user's own credentials, and errors in AWS's own words. */
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { errorWords, UserError } from "../errors.ts";

/** A connection takes milliseconds, and a request of this project less than seconds. */
const CONNECT_TIMEOUT_MILLISECONDS = 5000;
const REQUEST_TIMEOUT_MILLISECONDS = 15_000;
/** Limit of all attempts, and of all pages, of a request. */
const ANSWER_TIMEOUT_MILLISECONDS = 60_000;
/** The first attempt included; between them the SDK waits, longer each time. */
const MAX_ATTEMPTS = 3;
/** Connections to a service at a time: far below its throttling. */
const MAX_SOCKETS = 6;

/**
 * The project supports Node 20, with a version of the SDK that supports it: the SDK's warning that later versions require a newer Node is
 * for those who update the lock file.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";

/** Packages of the SDK by the prefix of actions. Each loads with its first question. */
const SDKS = {
  acm: () => import("@aws-sdk/client-acm"),
  ec2: () => import("@aws-sdk/client-ec2"),
  ecr: () => import("@aws-sdk/client-ecr"),
  eks: () => import("@aws-sdk/client-eks"),
  elasticfilesystem: () => import("@aws-sdk/client-efs"),
  elasticloadbalancing: () => import("@aws-sdk/client-elastic-load-balancing-v2"),
  secretsmanager: () => import("@aws-sdk/client-secrets-manager"),
  servicequotas: () => import("@aws-sdk/client-service-quotas"),
  ssm: () => import("@aws-sdk/client-ssm"),
  sts: () => import("@aws-sdk/client-sts"),
  tag: () => import("@aws-sdk/client-resource-groups-tagging-api"),
} as const;

type Service = keyof typeof SDKS;
type Command<S extends Service, O extends string> =
  Awaited<ReturnType<(typeof SDKS)[S]>> extends infer Sdk
    ? Sdk extends Record<`${O}Command`, infer C extends new (...args: never[]) => object>
      ? C
      : never
    : never;
/** An operation, as IAM names it: `ec2:DescribeInstances`. */
type Input<S extends Service, O extends string> = ConstructorParameters<Command<S, O>>[0];
export type Output<S extends Service, O extends string> =
  InstanceType<Command<S, O>> extends {
    resolveMiddleware(...args: never[]): (...args: never[]) => Promise<{ readonly output: infer Value }>;
  }
    ? Value
    : never;

/** AWS refused a question, or was not reached. */
export class AwsError extends UserError {
  override readonly name = "AwsError";
  readonly action: string;
  /** AWS's own, or those of the network. */
  readonly words: string;

  constructor(action: string, words: string) {
    super(`${action} failed: ${words}`);
    this.action = action;
    this.words = words;
  }
}

/** As services name it: `RepositoryNotFoundException`, `InvalidVpcID.NotFound`, `NoSuchResourceException`. */
const ABSENT = /NotFound|NoSuch/;

/** Settings of every client of the SDK. Credentials, profile and AWS_ENDPOINT_URL are read from the environment by the SDK itself. */
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

type Pages = (config: object, input: object, options: object) => AsyncIterable<object>;
type AnyClient = new (settings: object) => { send(command: object, options: object): Promise<object> };

/**
 * Sends one operation, and reads all pages of a list.
 *
 * @returns undefined: not found.
 * @throws AwsError if the service refuses, or is not reached.
 */
export async function ask<S extends Service, O extends string>(
  action: `${S}:${O}`,
  region: string,
  input: Input<S, O>,
): Promise<Output<S, O> | undefined> {
  const [service, operation] = action.split(":") as [S, O];
  const sdk = (await SDKS[service]()) as Readonly<Record<string, unknown>>;
  const client = Object.keys(sdk).find((name) => /^[A-Z].*Client$/.test(name)) ?? "";
  const abortSignal = AbortSignal.timeout(ANSWER_TIMEOUT_MILLISECONDS);
  // Every call of a request listens to it, and Node warns of a leak from the eleventh listener on.
  setMaxListeners(0, abortSignal);
  try {
    const connected = new (sdk[client] as AnyClient)(clientSettings(region));
    const paginate = sdk[`paginate${operation}`] as Pages | undefined;
    const command = sdk[`${operation}Command`] as new (input: object) => object;
    const value =
      paginate === undefined
        ? await connected.send(new command(input as object), { abortSignal })
        : await allPages(paginate({ client: connected }, input as object, { abortSignal }));
    return value as Output<S, O>;
  } catch (error) {
    if (ABSENT.test((error as Error).name)) return undefined;
    throw new AwsError(action, refusalWords(error as Error));
  }
}

/** Merges pages, whose lists are joined. */
async function allPages(pages: AsyncIterable<object>): Promise<object> {
  const all: Record<string, unknown> = {};
  for await (const page of pages)
    for (const [key, value] of Object.entries(page))
      all[key] = Array.isArray(value) ? [...((all[key] as unknown[] | undefined) ?? []), ...value] : value;
  return all;
}

/** One line without a full stop. An answer that is not the service's, such as the page of a proxy, is reported by its status. */
function refusalWords(error: Error): string {
  const { $response } = error as { readonly $response?: { readonly statusCode?: number } };
  if (error instanceof SyntaxError && $response?.statusCode !== undefined)
    return `It answers with status ${$response.statusCode}, and not as AWS does`;
  return `${error.name}: ${errorWords(error)}`.replace(/\s*\n\s*/g, " ").replace(/\.$/, "");
}

/**
 * Asks again until there is an answer.
 *
 * @returns undefined when there is no answer within the limit.
 */
export async function until<T>(
  limitSeconds: number,
  pauseSeconds: number,
  answer: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const end = Date.now() + limitSeconds * 1000;
  for (;;) {
    const value = await answer();
    if (value !== undefined || Date.now() >= end) return value;
    await sleep(pauseSeconds * 1000);
  }
}
