import { meantNames } from "../infra/problems.ts";

/** An error whose message is enough for the user; shown without a stack trace. */
export class UserError extends Error {
  override readonly name: string = "UserError";
}

/** Message for people with its cause: `fetch failed` says nothing about the connection. */
export function errorWords(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

/** A wrong command line; the usage is shown in addition to the sentence. */
export class UsageError extends UserError {
  override readonly name = "UsageError";
}

/** @param title - Kind of name: `suite`, `--format`. @param names - All existing names. */
export function unknownName(title: string, name: string, names: readonly string[]): UsageError {
  const hint = nameHint(name, names);
  return new UsageError(`Unknown ${title} ${JSON.stringify(name)}. ${hint}`);
}

/** A sentence with the names that may be meant, or all of them. */
export function nameHint(name: string, names: readonly string[]): string {
  const meant = meantNames(name, names);
  if (meant.length === 1) return `Did you mean ${meant[0]}?`;
  return `Choose from ${(meant.length === 0 ? names : meant).join(", ")}.`;
}
