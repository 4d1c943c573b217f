/** How commands ask AWS: one region, the user's own credentials, and an answer that says why there is none. */
import { setMaxListeners } from "node:events";
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

/** What a service says to one question. */
export type Answer<T> =
  | { readonly kind: "answer"; readonly value: T }
  /** It has no such thing. */
  | { readonly kind: "absent" }
  /** The credentials may not ask. */
  | { readonly kind: "denied"; readonly action: string; readonly words: string }
  /** Nobody answers, or not so that it helps. */
  | { readonly kind: "silent"; readonly action: string; readonly words: string };

/** As services name it: `RepositoryNotFoundException`, `InvalidVpcID.NotFound`, `NoSuchResourceException`. */
const ABSENT = /NotFound|NoSuch/;
const DENIED = /AccessDenied|UnauthorizedOperation|NotAuthorized|Forbidden/;

/**
 * Asks. Never throws what a service or the network says.
 *
 * @param action - As IAM names it: `ec2:DescribeVpcs`.
 */
export async function ask<T>(
  action: string,
  question: (options: { readonly abortSignal: AbortSignal }) => Promise<T>,
): Promise<Answer<T>> {
  const abortSignal = AbortSignal.timeout(ANSWER_TIMEOUT_MILLISECONDS);
  // Every call of a question listens to it, and Node warns of a leak from the eleventh on.
  setMaxListeners(0, abortSignal);
  try {
    const value = await question({ abortSignal });
    return { kind: "answer", value };
  } catch (error) {
    const { name } = error as Error;
    if (ABSENT.test(name)) return { kind: "absent" };
    return { kind: DENIED.test(name) ? "denied" : "silent", action, words: refusalWords(error as Error) };
  }
}

/** One line. What is no answer of the service at all, such as a page of a proxy, is told by its status. */
function refusalWords(error: Error): string {
  const { $response } = error as { readonly $response?: { readonly statusCode?: number } };
  if (error instanceof SyntaxError && $response?.statusCode !== undefined)
    return `It answers with status ${$response.statusCode}, and not as AWS does`;
  return `${error.name}: ${errorWords(error)}`.replace(/\s*\n\s*/g, " ");
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

/** All pages of a list. */
export async function allPages<P, T>(
  pages: AsyncIterable<P>,
  itemsOf: (page: P) => readonly T[] | undefined,
): Promise<readonly T[]> {
  const items: T[] = [];
  for await (const page of pages) items.push(...(itemsOf(page) ?? []));
  return items;
}
