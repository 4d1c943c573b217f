/** From the stack file to the specification that the plan works on: rows in place of names, values in place of blanks. */
import type { GpuStackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { rentedParts } from "./aws/services.ts";
import { DEFAULT_RELEASE, releases } from "./catalogue/releases.ts";
import type { Release } from "./catalogue/types.ts";
import { asProblems, type Finding } from "./checks/check.ts";
import { resolveModels } from "./resolve/models.ts";
import { rowOf, unknownRelease } from "./resolve/names.ts";
import { isOnHost, resolveEncoders, resolvePools } from "./resolve/pools.ts";
import type { GpuStackSpec } from "./spec.ts";

/**
 * Resolves a stack file. What can't be resolved is a problem, with what exists instead, and is left out of the
 * specification.
 */
export function resolveStack(config: GpuStackConfig): {
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
  const pools = resolvePools(config, report);
  const choice = { config, pools, report };
  const models = resolveModels({ ...choice, release, layout });
  const withoutEncoders: GpuStackSpec = {
    platform: config.platform,
    runsOn: isOnHost(config) ? "host" : "cluster",
    region: config.platform === "aws" ? config.region : null,
    release,
    image: { base, layout },
    models,
    encoders: null,
    pools,
    front: front(config),
    store: engineStore(config),
    rented: config.platform === "aws" ? rentedParts(config) : { services: [], machines: [], disks: [] },
    whenFull: config.engines.whenFull,
    memoryFitAccept: acceptedFits(config),
    acceptUnverified: config.acceptUnverified,
  };
  const encoders = resolveEncoders(choice, withoutEncoders);
  return { spec: { ...withoutEncoders, encoders }, problems: asProblems(findings, config).problems };
}

function front(config: GpuStackConfig): GpuStackSpec["front"] {
  const hasDatabases = config.encoders !== false && config.databases !== "external";
  return {
    gateways: "replicas" in config.gateway && !isOnHost(config) ? config.gateway.replicas : 1,
    databases: hasDatabases ? ["mongo", "vector"] : [],
  };
}

function engineStore(config: GpuStackConfig): GpuStackSpec["store"] {
  const { readMBPerSecond } = config.engineStore;
  const store = { readMBPerSecond, sizeGiB: null, provisionedMiBps: null };
  switch (config.platform) {
    case "docker":
      return { ...store, kind: config.engineStore.path === undefined ? "volume" : "folder" };
    case "kubernetes": {
      const { existingClaim, sizeGiB } = config.engineStore;
      // A claim that exists has the size that it has.
      return { ...store, kind: "volume", sizeGiB: existingClaim === undefined ? sizeGiB : null };
    }
    case "aws": {
      const { throughput, provisionedMiBPerSecond = null, existing } = config.engineStore;
      // A file system that exists already is paid for elsewhere.
      const isOwn = throughput === "provisioned" && existing === undefined;
      return { ...store, kind: "efs", provisionedMiBps: isOwn ? provisionedMiBPerSecond : null };
    }
  }
}

function acceptedFits({ models }: GpuStackConfig): GpuStackSpec["memoryFitAccept"] {
  return Object.fromEntries(
    models.flatMap(({ name, memoryFit }) => (memoryFit === undefined ? [] : [[name, memoryFit.accept]])),
  );
}
