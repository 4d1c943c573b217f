/** Programs that this machine needs for a stack on AWS. */
import type { AwsConfig } from "../../infra/config/aws-stacks.ts";
import { type Finding, problem, warning } from "./finding.ts";
import { probeProgram } from "./host-probe.ts";

interface Program {
  readonly name: string;
  readonly versionArguments: readonly string[];
  /** Of what the stack runs on. */
  readonly compute: AwsConfig["compute"];
  /** Without it `up` fails; else only some commands do. */
  readonly isForUp: boolean;
  readonly why: string;
  readonly fix: string;
}

const AWS_CLI_FIX =
  "Install version 2 of it (https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html).";

const PROGRAMS: readonly Program[] = [
  {
    name: "aws",
    versionArguments: ["--version"],
    compute: "eks",
    isForUp: true,
    why: "The kubeconfig of the cluster logs in with `aws eks get-token`.",
    fix: AWS_CLI_FIX,
  },
  {
    name: "kubectl",
    versionArguments: ["version", "--client"],
    compute: "eks",
    isForUp: false,
    why: "status, logs, connect, sleep and wake ask the cluster with it; `up` does not.",
    fix: "Install it (https://kubernetes.io/docs/tasks/tools/).",
  },
  {
    name: "aws",
    versionArguments: ["--version"],
    compute: "ec2",
    isForUp: false,
    why: "connect and logs reach the machine with `aws ssm start-session`; `up` does not.",
    fix: AWS_CLI_FIX,
  },
  {
    name: "session-manager-plugin",
    versionArguments: ["--version"],
    compute: "ec2",
    isForUp: false,
    why: "`aws ssm start-session` hands the session to it.",
    fix: "Install it (https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html).",
  },
];

export async function programFindings(compute: AwsConfig["compute"]): Promise<readonly Finding[]> {
  const findings = PROGRAMS.filter((program) => program.compute === compute).map(
    async ({ name, versionArguments, isForUp, why, fix }) => {
      const { exitCode } = await probeProgram([name, ...versionArguments], "");
      if (exitCode !== null) return [];
      return [(isForUp ? problem : warning)("programs", `This machine has no \`${name}\`.`, why, fix)];
    },
  );
  return (await Promise.all(findings)).flat();
}
