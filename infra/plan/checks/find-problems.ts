/** Finds what is wrong with a stack on GPUs. */
import type { Problem } from "../../problems.ts";
import { type accountChecks, meantRegion, type regionChecks } from "./aws.ts";
import type { existingPartChecks, networkChecks } from "./aws-network.ts";
import { calibrationChecks } from "./calibration.ts";
import { asProblems, type CheckedStack, type Checks, type Finding, flatFindings } from "./check.ts";
import type { eksChecks } from "./eks.ts";
import { encoderChecks } from "./encoders.ts";
import { engineChecks, gpuChecks } from "./engine.ts";
import { engineFlagChecks } from "./engine-flags.ts";
import { fitChecks } from "./fit.ts";
import { customModelChecks, nameChecks, servingChecks } from "./models.ts";
import { buildChecks, poolChecks } from "./pools.ts";
import { type driverChecks, releaseChecks } from "./release.ts";
import { templateChecks } from "./templates.ts";
import { tritonParameterChecks } from "./triton-parameters.ts";

/** Checks of every platform, shown before the platform's own. */
export const commonChecks = {
  ...releaseChecks,
  ...customModelChecks,
  ...nameChecks,
  ...engineChecks,
  ...engineFlagChecks,
  ...calibrationChecks,
  ...gpuChecks,
  ...servingChecks,
  ...tritonParameterChecks,
  ...templateChecks,
  ...poolChecks,
  ...buildChecks,
  ...encoderChecks,
  ...fitChecks,
} satisfies Checks;

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
  "flagsAreOfRelease",
  "samplesAreUsed",
  "parametersAreKnown",
  "templatesAreServed",
  "repositoryServesModel",
  "diskHoldsBuild",
  ...(Object.keys(fitChecks) as (keyof typeof fitChecks)[]),
] satisfies readonly (keyof typeof commonChecks | keyof typeof driverChecks)[];

/** Checks that would judge by a misspelt region. */
const REGION_CHECKS: readonly string[] = [
  "typeIsOffered",
  "regionHasDomainsOfAws",
  "regionIsPriced",
  "certificateIsOfRegion",
  "webAclIsOfRegion",
  "keyIsOfRegion",
  "budgetsAreOffered",
  "budgetIsSent",
  "budgetHasAmount",
  "hubSecretIsOfAccount",
  "hubSecretIsOfRegion",
  "capIsJudged",
  "ownPriceIsNeeded",
] satisfies readonly (
  | keyof typeof accountChecks
  | keyof typeof regionChecks
  | keyof typeof networkChecks
  | keyof typeof existingPartChecks
  | keyof typeof eksChecks
  | keyof typeof poolChecks
)[];

/**
 * Errors, warnings and notes for a stack, each once.
 *
 * @param platformChecks - Checks of the stack's platform.
 * @param unresolved - Names that could not be resolved.
 */
export function findProblems(
  stack: CheckedStack,
  platformChecks: Checks,
  unresolved: readonly Finding[],
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const { config, spec } = stack;
  const isMisspelt = spec.region !== null && meantRegion(spec.region) !== undefined;
  const skipped = [
    ...(config.release === spec.release.tag ? [] : RELEASE_CHECKS),
    ...(isMisspelt ? REGION_CHECKS : []),
  ];
  const checks: Checks = { ...commonChecks, ...platformChecks };
  const found = Object.entries(checks).map(([name, check]) => (skipped.includes(name) ? [] : check(stack)));
  return asProblems(flatFindings([unresolved, found]), config);
}
