import { clusterName, clusterProbe } from "../cluster/kubectl.ts";
import { dockerCredentials } from "../images/docker-credentials.ts";
import { askRegistry } from "../images/registry.ts";
import { awsPreflight } from "../preflight/aws-checks.ts";
import { awsNeeds } from "../preflight/aws-needs.ts";
import { programFindings } from "../preflight/aws-programs.ts";
import { type CheckResult, checkTable, type Finding, findingsReport } from "../preflight/finding.ts";
import { hostProbe } from "../preflight/host-probe.ts";
import { clusterPreflight, dockerPreflight, localPreflight } from "../preflight/preflight.ts";
import { pulumiFindings } from "../preflight/pulumi-check.ts";
import { awsTarget } from "../program/aws-target.ts";
import { clusterTarget } from "../program/cluster-target.ts";
import { dockerTarget, readPlan } from "../program/docker-target.ts";
import type { StackReference } from "../program/stack-file.ts";
import { findPulumi } from "../setup/pulumi-cli.ts";
import { type Command, EXIT } from "./command.ts";

export const command: Command = {
  summary:
    "Looks whether the machine, cluster or account of a stack has what the stack needs; changes nothing.",
  usage: "[--json]",
  details: [
    "--json               {host, findings}; a finding has severity, check, what, why, fix; of a cluster or an account also checks, all that was looked at: {looksAt, findings}, the number of what was found",
    "Exit code 1 when there is a problem; warnings alone leave it 0.",
  ],
  options: { json: { type: "boolean" } },
  async run({ stack, values }) {
    const { host, findings, checks } = await preflight(stack);
    const counts = checks?.map(({ looksAt, findings: found }) => ({ looksAt, findings: found.length }));
    process.stdout.write(
      values.json === true
        ? `${JSON.stringify({ host, checks: counts, findings }, null, 2)}\n`
        : `${checks === undefined ? "" : `${checkTable(checks)}\n`}${findingsReport(host, findings)}`,
    );
    return findings.some(({ severity }) => severity === "problem") ? EXIT.failed : EXIT.ok;
  },
};

interface Preflight {
  readonly host: string;
  /** All of them. */
  readonly findings: readonly Finding[];
  /** Of a cluster, or an account. */
  readonly checks?: readonly CheckResult[];
}

async function preflight(stack: StackReference): Promise<Preflight> {
  const plan = readPlan(stack);
  switch (plan.platform) {
    case "local":
      return { host: "this machine", findings: await localPreflight(plan, stack.name, hostProbe(null)) };
    case "docker": {
      const { uri } = plan.host;
      const findings = await dockerPreflight(dockerTarget(plan, stack.name), hostProbe(uri));
      return { host: uri, findings: [...pulumiFindings(findPulumi(), "a Docker host"), ...findings] };
    }
    case "kubernetes": {
      const { context } = plan.cluster;
      const target = clusterTarget(plan, stack.name);
      const ask = askRegistry(dockerCredentials());
      const checks = [
        { looksAt: "Pulumi CLI of this machine", findings: pulumiFindings(findPulumi(), "a cluster") },
        ...(await clusterPreflight(target, clusterProbe(context), ask)),
      ];
      return { host: clusterName(context), findings: checks.flatMap(({ findings }) => findings), checks };
    }
    case "aws": {
      const target = awsTarget(plan, stack.name);
      const { account, region } = target.context;
      const checks = [
        { looksAt: "Pulumi CLI of this machine", findings: pulumiFindings(findPulumi(), "AWS") },
        { looksAt: "programs of this machine", findings: await programFindings(plan.compute) },
        ...(await awsPreflight(target, awsNeeds(target), askRegistry(dockerCredentials()))),
      ];
      return {
        host: `the account ${account} in ${region}`,
        findings: checks.flatMap(({ findings }) => findings),
        checks,
      };
    }
  }
}
