/** Tests that not every machine, or not every run, can have. */

declare module "vitest" {
  interface TaskMeta {
    /** Reason why a test is skipped, for the table of `npm test`. */
    skipped?: string;
  }
}

/**
 * Options of a `describe` or `test`.
 *
 * @param missing - Why it can't run here, as a sentence's beginning without a period: "no Pulumi CLI on PATH". It is
 *   skipped for this reason; undefined if nothing is missing.
 */
export function needs(missing: string | undefined) {
  return missing === undefined ? {} : { skip: true, meta: { skipped: missing } };
}
