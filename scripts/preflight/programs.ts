/** Whether this machine has the programs that deploy to other machines, and that reach them. */
import type { AwsConfig } from "../../infra/config/aws-stacks.ts";
import { findPulumi } from "../stack/pulumi-cli.ts";
import { type CheckResult, type Finding, problem, warning } from "./finding.ts";
import { probeProgram } from "./host-probe.ts";

/** @param target - Where the stack is deployed to: `a cluster`. @param path - Of the CLI; null: there is none. */
export function pulumiCheck(target: string, path: string | null = findPulumi() ?? null): CheckResult {
  const looksAt = "Pulumi CLI of this machine";
  if (path !== null) return { looksAt, findings: [] };
  const missing = problem(
    "pulumi",
    "This machine has no Pulumi CLI.",
    `\`npx engine-room up\` deploys to ${target} with it; it was looked for on the PATH and in ~/.pulumi/versions.`,
    "Install it (https://www.pulumi.com/docs/install/), and put `pulumi` on the PATH; it asks for no account here.",
  );
  return { looksAt, findings: [missing] };
}

const AWS_CLI_FIX =
  "Install version 2 of it (https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html).";

type Program = readonly [
  name: string,
  /** Without it `up` fails; else only some commands do. */
  isForUp: boolean,
  why: string,
  fix: string,
];

const PROGRAMS: Readonly<Record<AwsConfig["compute"], readonly Program[]>> = {
  eks: [
    ["aws", true, "The kubeconfig of the cluster logs in with `aws eks get-token`.", AWS_CLI_FIX],
    [
      "kubectl",
      false,
      "status, logs, connect, sleep and wake ask the cluster with it; `up` does not.",
      "Install it (https://kubernetes.io/docs/tasks/tools/).",
    ],
  ],
  ec2: [
    [
      "aws",
      false,
      "connect and logs reach the machine with `aws ssm start-session`; `up` does not.",
      AWS_CLI_FIX,
    ],
    [
      "session-manager-plugin",
      false,
      "`aws ssm start-session` hands the session to it.",
      "Install it (https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html).",
    ],
  ],
};

export async function programFindings(compute: AwsConfig["compute"]): Promise<readonly Finding[]> {
  const findings = PROGRAMS[compute].map(async ([name, isForUp, why, fix]) => {
    const question = name === "kubectl" ? ["version", "--client"] : ["--version"];
    const { exitCode } = await probeProgram([name, ...question], "");
    if (exitCode !== null) return [];
    return [(isForUp ? problem : warning)("programs", `This machine has no \`${name}\`.`, why, fix)];
  });
  return (await Promise.all(findings)).flat();
}
