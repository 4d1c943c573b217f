/** A sentence for the user is all there is to say; shown without a stack trace. */
export class UserError extends Error {
  override readonly name: string = "UserError";
}

/** What went wrong, for people: `fetch failed` alone helps nobody; its cause says what happened to the connection. */
export function errorWords(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

/** The command line is wrong; the usage is shown besides the sentence. */
export class UsageError extends UserError {
  override readonly name = "UsageError";
}
