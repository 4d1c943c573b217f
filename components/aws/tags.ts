/** Tags of resources: those of the stack, and a name by which consoles show them. */
import type { AwsContext } from "../../infra/plan/aws/types.ts";

/** @param subject - What it is, after the stack's name: `private-a`. */
export function namedTags({ name, tags }: AwsContext, subject: string): Record<string, string> {
  return { ...tags, Name: `${name}-${subject}` };
}

/** As {@link namedTags}, of those that stay as long as the stack. */
export function lastingTags({ name, lastingTags }: AwsContext, subject: string): Record<string, string> {
  return { ...lastingTags, Name: `${name}-${subject}` };
}
