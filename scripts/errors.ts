/** A sentence for the user is all there is to say; shown without a stack trace. */
export class UserError extends Error {
  override readonly name: string = "UserError";
}

/** The command line is wrong; the usage is shown besides the sentence. */
export class UsageError extends UserError {
  override readonly name = "UsageError";
}
