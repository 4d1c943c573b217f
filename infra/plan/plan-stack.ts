/**
 * Plans a stack's builds and containers from its configuration only. Pure: no clock, no network, no file, no Pulumi; every
 * platform, script and preview starts here.
 */
import type { GpuStackConfig, StackConfig } from "../config/config.ts";
import { ec2Platform, eksPlatform } from "./aws/platforms.ts";
import { findCpuProblems } from "./checks/cpu.ts";
import { findProblems } from "./checks/find-problems.ts";
import { stackCost } from "./cost/cost.ts";
import { coldStart, firstUp } from "./cost/times.ts";
import { planCpuStack } from "./cpu-stack.ts";
import { dockerPlatform } from "./docker/platform.ts";
import { encoderPlan, encoderTarget } from "./encoders/encoder-plan.ts";
import { enginePlan } from "./engine/engine-plan.ts";
import { type MemoryFit, memoryFit } from "./fit/memory-fit.ts";
import { kvCacheFractions } from "./fit/verdicts.ts";
import type { GpuPlatform } from "./gpu-platform.ts";
import type { GpuPlanParts, ModelPlan } from "./gpu-stack.ts";
import { kubernetesPlatform } from "./kubernetes/platform.ts";
import { repositoryPlan } from "./repository/repository-plan.ts";
import { requestProfile } from "./requests/request-profile.ts";
import { resolveStack } from "./resolve-stack.ts";
import type { GpuStackSpec, ModelSpec, TemplateFiles } from "./spec.ts";
import type { PlanResult } from "./stack-plan.ts";

/**
 * Plans a stack. Same configuration, same plan, to the byte. Nothing is planned while there is a problem, so that no function
 * below meets a combination that can't be built.
 *
 * @param written - The stack file without the defaults of its schema.
 * @param templates - Content of the folders that `triton.templates` names.
 */
export function planStack(
  config: StackConfig,
  written: Readonly<Record<string, unknown>> = config,
  templates: ReadonlyMap<string, TemplateFiles> = new Map(),
): PlanResult {
  if (config.tier === "cpu") {
    const { problems, warnings } = findCpuProblems(config, written);
    return { plan: problems.length > 0 ? null : planCpuStack(config), problems, warnings };
  }
  const platform = platformOf(config);
  const { spec, problems: unresolved } = resolveStack(config, platform, templates);
  const fit = memoryFit(spec);
  const { problems, warnings } = findProblems({ config, written, spec, fit }, platform.checks, unresolved);
  const plan = problems.length > 0 ? null : platform.plan(config, planParts(config, spec, fit));
  return { plan, problems, warnings };
}

const gpuPlatforms = {
  docker: dockerPlatform,
  kubernetes: kubernetesPlatform,
  eks: eksPlatform,
  ec2: ec2Platform,
};

/** The platform of a stack on GPUs. */
export function platformOf(config: GpuStackConfig): GpuPlatform {
  const name = "compute" in config ? config.compute : config.platform;
  // Each row takes the configuration of its own name.
  return gpuPlatforms[name] as GpuPlatform;
}

function planParts(config: GpuStackConfig, spec: GpuStackSpec, fit: readonly MemoryFit[]): GpuPlanParts {
  const fractions = kvCacheFractions(fit);
  const models = spec.models.map((model) => planModel(model, spec, fractions));
  const cost = stackCost(
    spec,
    models.flatMap(({ spec: model, engine }) => (engine === null ? [] : [{ model, engine }])),
  );
  return {
    tier: "gpu",
    release: spec.release,
    spec,
    models,
    encoders: spec.encoders && encoderPlan(spec.encoders, spec.release, encoderTarget(spec)),
    fit,
    cost,
    firstUp: firstUp(spec, models, cost.builds),
    gateway: config.gateway,
  };
}

function planModel(model: ModelSpec, stack: GpuStackSpec, fractions: ReadonlyMap<string, number>): ModelPlan {
  const { name, runtime } = model.serving;
  const engine = runtime === "engine" ? enginePlan(model.engine) : null;
  const kvCacheFreeGpuMemoryFraction = fractions.get(name);
  if (kvCacheFreeGpuMemoryFraction === undefined) throw new Error(`No KV cache fraction for ${name}`);
  const repository = repositoryPlan(model, engine, kvCacheFreeGpuMemoryFraction);
  return {
    name,
    spec: model,
    engine,
    repository,
    request: requestProfile(model, repository),
    coldStart: coldStart(model, stack, engine),
  };
}
