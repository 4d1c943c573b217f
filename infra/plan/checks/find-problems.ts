/** Every check of a stack on GPUs. */
import type { Problem } from "../../problems.ts";
import { accessChecks, databaseChecks, gatewayChecks } from "./access.ts";
import { capacityChecks, costChecks, guardChecks, meantRegion, regionChecks } from "./aws.ts";
import { existingPartChecks, networkChecks } from "./aws-network.ts";
import { asProblems, type Check, type CheckedStack, type Finding, flatFindings } from "./check.ts";
import { clusterChecks } from "./cluster.ts";
import { dockerChecks, hostChecks } from "./docker.ts";
import { apiAccessChecks, eksChecks } from "./eks.ts";
import { engineChecks, gpuChecks } from "./engine.ts";
import { fitChecks } from "./fit.ts";
import { kubernetesChecks } from "./kubernetes.ts";
import { customModelChecks, nameChecks, servingChecks } from "./models.ts";
import { buildChecks, encoderChecks, poolChecks } from "./pools.ts";
import { releaseChecks } from "./release.ts";

/** Checks of the stack file alone, which stacks on CPUs have too. */
const fileChecks = { ...dockerChecks, ...databaseChecks, ...kubernetesChecks } satisfies Record<
  string,
  Check
>;

const planChecks = {
  ...releaseChecks,
  ...hostChecks,
  ...regionChecks,
  ...networkChecks,
  ...guardChecks,
  ...existingPartChecks,
  ...capacityChecks,
  ...eksChecks,
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
  ...gatewayChecks,
  ...apiAccessChecks,
  ...costChecks,
} satisfies Record<string, Check>;

/** In the order in which their findings are shown. */
export const checks = { ...fileChecks, ...planChecks };

export type CheckName = keyof typeof checks;

/** Checks that would judge by the placeholder which the specification has for an unknown release. */
const RELEASE_CHECKS: readonly string[] = [
  "runtimeOfRelease",
  "endOfLife",
  "advisories",
  "minimumDriver",
  "imageOfRelease",
  "tokensPerStepHoldPrompt",
  "tokensPerStepHoldBatch",
  "recipeOfRelease",
  "repositoryServesModel",
  "diskHoldsBuild",
  ...(Object.keys(fitChecks) as (keyof typeof fitChecks)[]),
] satisfies readonly CheckName[];

/** Checks that would judge by a misspelt region. */
const REGION_CHECKS: readonly string[] = [
  "typeIsOffered",
  "regionHasDomainsOfAws",
  "regionIsPriced",
  "certificateIsOfRegion",
  "budgetsAreOffered",
  "budgetIsSent",
  "budgetHasAmount",
  "hubSecretIsOfStack",
  "capIsJudged",
  "ownPriceIsNeeded",
] satisfies readonly CheckName[];

/**
 * What forbids to create a stack, and what is worth knowing about it, each once.
 *
 * @param unresolved - Names that could not be resolved.
 */
export function findProblems(
  stack: CheckedStack,
  unresolved: readonly Finding[],
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const { config, spec } = stack;
  const isMisspelt = config.platform === "aws" && meantRegion(config.region) !== undefined;
  const skipped = [
    ...(config.release === spec.release.tag ? [] : RELEASE_CHECKS),
    ...(isMisspelt ? REGION_CHECKS : []),
  ];
  const found = Object.entries<Check>(planChecks)
    .filter(([name]) => !skipped.includes(name))
    .map(([, check]) => check(stack));
  const ofFile = Object.values<Check>(fileChecks).map((check) => check(stack));
  return asProblems(flatFindings([ofFile, unresolved, found]), config);
}
