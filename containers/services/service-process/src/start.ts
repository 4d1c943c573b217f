/** A service's process from its first line: it runs, or says in one sentence why it can't. */

/** What keeps a service from starting, in words for the one who starts it. */
export class StartError extends Error {
  override readonly name: string = "StartError";
}

/**
 * Runs the body of a service's main.ts. What keeps the service from starting ends the process with 1: a StartError with
 * its message alone on standard error, any other error with its stack.
 *
 * @param start - Resolves when the service listens.
 */
export async function runService(start: () => Promise<void>): Promise<void> {
  try {
    await start();
  } catch (error) {
    console.error(error instanceof StartError ? error.message : error);
    process.exit(1);
  }
}
