/** From the stack file to the specification that the plan works on: rows in place of names, values in place of blanks. */
import type { GpuStackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { DEFAULT_RELEASE, releases } from "./catalogue/releases.ts";
import type { Release } from "./catalogue/types.ts";
import { asProblems, type Finding } from "./checks/check.ts";
import type { GpuPlatform } from "./gpu-platform.ts";
import { resolveModels } from "./resolve/models.ts";
import { rowOf, unknownRelease } from "./resolve/names.ts";
import { resolveEncoders, resolvePools } from "./resolve/pools.ts";
import type { GpuStackSpec, TemplateFiles } from "./spec.ts";

/**
 * Resolves a stack file. Values that can't be resolved are problems, whose fixes list existing values, and are left out of the
 * specification.
 */
export function resolveStack(
  config: GpuStackConfig,
  platform: GpuPlatform,
  templates: ReadonlyMap<string, TemplateFiles> = new Map(),
): {
  readonly spec: GpuStackSpec;
  readonly problems: readonly Problem[];
} {
  const findings: Finding[] = [];
  const report = (finding: Finding) => void findings.push(finding);
  const known = rowOf<Release>(releases, config.release);
  if (known === undefined) report(unknownRelease(config.release, Object.keys(releases)));
  // For a release that does not exist: checks that don't look at it still run.
  const release = known ?? releases[DEFAULT_RELEASE];
  const { layout, base = `nvcr.io/nvidia/tritonserver:${release.tag}-trtllm-python-py3` } = config.image;
  const declared = platform.pools(config);
  const pools = resolvePools(declared, platform.isRented, report);
  const choice = { config, platform, declared, pools, report };
  const models = resolveModels({ ...choice, release, layout, templates });
  const hasDatabases = config.encoders !== false && config.databases !== "external";
  const withoutEncoders: GpuStackSpec = {
    runsOn: platform.runsOn,
    isRented: platform.isRented,
    region: platform.region(config),
    release,
    image: { base, layout },
    models,
    encoders: null,
    pools,
    front: { gateways: platform.gateways(config), databases: hasDatabases ? ["mongo", "vector"] : [] },
    store: platform.store(config),
    rented: platform.rented(config),
    whenFull: config.engines.whenFull,
    memoryFitAccept: Object.fromEntries(
      config.models.flatMap(({ name, memoryFit }) =>
        memoryFit === undefined ? [] : [[name, memoryFit.accept]],
      ),
    ),
    acceptUnverified: config.acceptUnverified,
  };
  const encoders = resolveEncoders(choice, withoutEncoders);
  return { spec: { ...withoutEncoders, encoders }, problems: asProblems(findings, config).problems };
}
