/** Whether this machine has the programs that deploy to other machines, and that connect to them. */
import type { AwsConfig } from "../../infra/config/aws-stacks.ts";
import { findProgram } from "../stack/pulumi-cli.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { probeProgram } from "./host-probe.ts";

/** @param target - Kind of target: `a cluster`. @param path - Path of the CLI; null when it is missing. */
export function pulumiCheck(
  target: string,
  path: string | null = findProgram("pulumi") ?? null,
): CheckResult {
  const missing = problem(
    "pulumi",
    "This machine has no Pulumi CLI.",
    `\`npx engine-room up\` deploys to ${target} with it; it was looked for on PATH.`,
    "Install it (https://www.pulumi.com/docs/install/), and put `pulumi` on PATH; it asks for no account here.",
  );
  return { looksAt: "Pulumi CLI of this machine", findings: path === null ? [missing] : [] };
}

/** A command that shows whether a program is installed, the reason for it, and its address. */
type Program = readonly [command: string, severity: typeof problem, why: string, url: string];

const AWS_CLI = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html";
const SESSIONS =
  "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html";

/** Without a program marked as a problem `up` fails; without the others only some commands fail. */
const PROGRAMS: Readonly<Record<AwsConfig["compute"], readonly Program[]>> = {
  eks: [
    ["aws --version", problem, "The kubeconfig of the cluster logs in with `aws eks get-token`.", AWS_CLI],
    [
      "kubectl version --client",
      warning,
      "status, logs, connect, sleep and wake ask the cluster with it; `up` does not.",
      "https://kubernetes.io/docs/tasks/tools/",
    ],
  ],
  ec2: [
    ["aws --version", warning, "connect and logs reach the machine with `aws ssm start-session`.", AWS_CLI],
    [
      "session-manager-plugin --version",
      warning,
      "`aws ssm start-session` hands the session to it.",
      SESSIONS,
    ],
  ],
};

export async function programFindings(compute: AwsConfig["compute"]): Promise<readonly Finding[]> {
  const findings = PROGRAMS[compute].map(async ([command, severity, why, url]) => {
    const words = command.split(" ");
    const { exitCode } = await probeProgram(words, "");
    if (exitCode !== null) return [];
    return [severity("programs", `This machine has no \`${words[0]}\`.`, why, `Install it (${url}).`)];
  });
  return (await Promise.all(findings)).flat();
}
