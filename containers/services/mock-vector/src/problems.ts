/** What is wrong with a request, in one sentence. */
import type { z } from "zod";
import { RequestError } from "./errors.ts";

/** Filters and prefetches nest; nobody needs more, and each level costs a frame of the stack. */
const MAX_DEPTH = 64;

/** @throws RequestError 400 with the first thing that is wrong and where. */
export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  refuseDepth(value);
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = firstProblem(parsed.error.issues);
  const place = path.length === 0 ? "" : `${path.map(String).join(".")}: `;
  throw new RequestError(400, `Format error in JSON body: ${place}${message}`);
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** What zod says of a union that has no message of its own. */
const SAYS_NOTHING = "Invalid input";

/** Of the forms that a part may have, the one that the client came nearest to says what is wrong. */
export function firstProblem(
  issues: readonly z.core.$ZodIssue[],
  prefix: readonly PropertyKey[] = [],
): Problem {
  const [issue] = issues;
  if (issue === undefined) return { path: prefix, message: SAYS_NOTHING };
  const path = [...prefix, ...issue.path];
  if (issue.code !== "invalid_union" || issue.message !== SAYS_NOTHING)
    return { path, message: issue.message };
  const branches = issue.errors.map((branch) => firstProblem(branch, path));
  return branches.reduce((best, one) => (one.path.length > best.path.length ? one : best));
}

/** Without recursion, since the stack is what it is about. @throws RequestError 400 */
function refuseDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) {
      throw new RequestError(400, `Format error in JSON body: it nests more than ${MAX_DEPTH} levels deep`);
    }
    level = level.flatMap(innerOf);
  }
}

function innerOf(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  // A vector's numbers have nothing within.
  if (Array.isArray(value)) return typeof value[0] === "number" ? [] : value;
  return Object.values(value);
}
