/** The end of a service's process that was asked for. */

/** The part of a Pino log that is used here. */
interface Log {
  info(values: object, message: string): void;
  error(values: object, message: string): void;
}

/**
 * On SIGTERM and SIGINT stops a service, and ends the process: with 0, or with 1 where stopping fails. A second signal
 * of the same kind means that nobody wants to wait: the default action ends the process.
 *
 * @param work - What is finished first, in the plural, for the log.
 * @param stop - Resolves when that is done and all is closed.
 */
export function stopOnSignals(log: Log, work: string, stop: () => Promise<void>): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, async () => {
      log.info({ signal }, `stopping: running ${work} are finished first`);
      try {
        await stop();
        process.exit(0);
      } catch (error) {
        log.error({ err: error }, "stopping failed");
        process.exit(1);
      }
    });
  }
}
