/** Every check of a stack on GPUs, and what they find. */
import type { GpuStackConfig } from "../../config/config.ts";
import type { Problem } from "../../problems.ts";
import type { MemoryFit } from "../fit/types.ts";
import { isReleaseKnown } from "../resolve-stack.ts";
import type { GpuStackSpec } from "../spec.ts";
import { accessChecks } from "./access.ts";
import { apiAccessChecks } from "./api-access.ts";
import { awsChecks } from "./aws.ts";
import { awsCapacityChecks } from "./aws-capacity.ts";
import { awsClusterChecks } from "./aws-cluster.ts";
import { awsExistingChecks } from "./aws-existing.ts";
import { awsGuardChecks } from "./aws-guard.ts";
import { buildChecks } from "./builds.ts";
import { clusterChecks } from "./cluster.ts";
import { costChecks } from "./cost.ts";
import { customModelChecks } from "./custom-models.ts";
import { encoderChecks } from "./encoders.ts";
import { engineChecks } from "./engine.ts";
import { type Check, type CheckedStack, type Finding, finding, type Key } from "./finding.ts";
import { fitChecks } from "./fit.ts";
import { gpuChecks } from "./gpu.ts";
import { nameChecks } from "./names.ts";
import { platformChecks } from "./platform.ts";
import { poolChecks } from "./pools.ts";
import { meantRegion, regionChecks } from "./regions.ts";
import { releaseChecks } from "./release.ts";
import { servingChecks } from "./serving.ts";

/** In the order in which their findings are shown. */
export const checks = {
  ...releaseChecks,
  ...platformChecks,
  ...regionChecks,
  ...awsChecks,
  ...awsGuardChecks,
  ...awsExistingChecks,
  ...awsCapacityChecks,
  ...awsClusterChecks,
  ...clusterChecks,
  ...customModelChecks,
  ...nameChecks,
  ...engineChecks,
  ...gpuChecks,
  ...servingChecks,
  ...poolChecks,
  ...buildChecks,
  ...encoderChecks,
  ...fitChecks,
  ...accessChecks,
  ...apiAccessChecks,
  ...costChecks,
} satisfies Record<string, Check>;

export type CheckName = keyof typeof checks;

/**
 * What forbids to create a stack, and what is worth knowing about it, each once.
 *
 * @param spec - The stack as it was resolved from `config`; names that could not be resolved are not checked again.
 */
export function findProblems(
  config: GpuStackConfig,
  spec: GpuStackSpec,
  fit: readonly MemoryFit[],
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const findings = findAll({ config, spec, fit });
  const of = (severity: Finding["severity"]) =>
    findings.filter((one) => one.severity === severity).map(({ problem }) => problem);
  return { problems: of("problem"), warnings: of("warning") };
}

/** The same, with the keys of the stack file that each finding rests on. */
export function findAll(stack: CheckedStack): readonly Finding[] {
  const unread = unreadKeys(stack);
  const findings = Object.values<Check>(checks)
    .filter(({ keys }) => !unread.some((key) => keys.includes(key)))
    .flatMap((check) =>
      check.remarks(stack).map((remark) => finding(stack.config, check.scope, check.keys, remark)),
    );
  return distinct(findings);
}

/** Keys whose values say nothing: another release stands in for one that does not exist, and no region has a misspelt name. */
function unreadKeys({ config, spec }: CheckedStack): readonly Key[] {
  const isMisspelt = config.platform === "aws" && meantRegion(config.region) !== undefined;
  return [
    ...(isReleaseKnown(config, spec) ? [] : (["release"] as const)),
    ...(isMisspelt ? (["region"] as const) : []),
  ];
}

/** Two models can have one and the same thing to say about their release or pool. */
function distinct(findings: readonly Finding[]): readonly Finding[] {
  const seen = new Set<string>();
  return findings.filter(({ problem }) => {
    const text = JSON.stringify(problem);
    return !seen.has(text) && seen.add(text);
  });
}
