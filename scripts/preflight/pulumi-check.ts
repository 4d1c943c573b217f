/** Whether this machine has what deploys to other machines. */
import { type Finding, problem } from "./finding.ts";

/**
 * @param path - Where the Pulumi CLI was found.
 * @param target - What the stack is deployed to: `a cluster`.
 */
export function pulumiFindings(path: string | undefined, target: string): readonly Finding[] {
  return path === undefined
    ? [
        problem(
          "pulumi",
          "This machine has no Pulumi CLI.",
          `\`npx engine-room up\` deploys to ${target} with it; it was looked for on the PATH and in ~/.pulumi/versions.`,
          "Install it (https://www.pulumi.com/docs/install/), and put `pulumi` on the PATH; it asks for no account here.",
        ),
      ]
    : [];
}
