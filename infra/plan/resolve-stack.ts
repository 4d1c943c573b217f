/** From the stack file to the specification that the plan works on: rows in place of names, values in place of blanks. */
import type { GpuStackConfig } from "../config/config.ts";
import type { Problem } from "../problems.ts";
import { rentedParts } from "./aws/services.ts";
import { DEFAULT_RELEASE, releases } from "./catalogue/releases.ts";
import type { Release } from "./catalogue/types.ts";
import type { Finding } from "./checks/finding.ts";
import { resolveEncoders } from "./resolve/encoders.ts";
import { isOnHost } from "./resolve/host.ts";
import { resolveModels } from "./resolve/models.ts";
import { findingsOf, rowOf, unknownRelease } from "./resolve/names.ts";
import { resolvePools } from "./resolve/pools.ts";
import type { GpuStackSpec } from "./spec.ts";

interface ResolvedStack {
  readonly spec: GpuStackSpec;
  readonly findings: readonly Finding[];
}

/**
 * Resolves a stack file. What can't be resolved is a problem, with what exists instead, and is left out of the
 * specification.
 */
export function resolveStack(config: GpuStackConfig): {
  readonly spec: GpuStackSpec;
  readonly problems: readonly Problem[];
} {
  const { spec, findings } = resolveWithFindings(config);
  return { spec, problems: findings.map(({ problem }) => problem) };
}

/** The same, with the keys of the stack file that each problem rests on. */
export function resolveWithFindings(config: GpuStackConfig): ResolvedStack {
  const { findings, report } = findingsOf(config);
  const known: Readonly<Record<string, Release>> = releases;
  const release = rowOf(known, config.release);
  if (release === undefined) {
    report("stack", [], unknownRelease(config.release, Object.keys(known)));
  }
  // Stands in for a release that does not exist, so that the checks which don't look at it still run.
  const stands = release ?? releases[DEFAULT_RELEASE];
  const pools = resolvePools(config, report);
  const choice = { config, pools, report };
  const models = resolveModels({ ...choice, release: stands, layout: config.image.layout });
  const withoutEncoders: GpuStackSpec = {
    platform: config.platform,
    runsOn: isOnHost(config) ? "host" : "cluster",
    region: config.platform === "aws" ? config.region : null,
    release: stands,
    image: { base: config.image.base ?? ngcImage(stands), layout: config.image.layout },
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
  return { spec: { ...withoutEncoders, encoders }, findings };
}

/** Whether the release of the specification is the one that the stack file names. */
export function isReleaseKnown(config: GpuStackConfig, spec: GpuStackSpec): boolean {
  return config.release === spec.release.tag;
}

function ngcImage({ tag }: Release): string {
  return `nvcr.io/nvidia/tritonserver:${tag}-trtllm-python-py3`;
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
  switch (config.platform) {
    case "docker":
      return {
        kind: config.engineStore.path === undefined ? "volume" : "folder",
        readMBPerSecond,
        sizeGiB: null,
        provisionedMiBps: null,
      };
    case "kubernetes": {
      const { existingClaim, sizeGiB } = config.engineStore;
      // A claim that exists has the size that it has.
      return {
        kind: "volume",
        readMBPerSecond,
        sizeGiB: existingClaim === undefined ? sizeGiB : null,
        provisionedMiBps: null,
      };
    }
    case "aws": {
      const { throughput, provisionedMiBPerSecond, existing } = config.engineStore;
      // What is there already is on somebody else's bill.
      const isOwn = throughput === "provisioned" && existing === undefined;
      const provisionedMiBps = isOwn ? (provisionedMiBPerSecond ?? null) : null;
      return { kind: "efs", readMBPerSecond, sizeGiB: null, provisionedMiBps };
    }
  }
}

function acceptedFits({ models }: GpuStackConfig): GpuStackSpec["memoryFitAccept"] {
  return Object.fromEntries(
    models.flatMap(({ name, memoryFit }) => (memoryFit === undefined ? [] : [[name, memoryFit.accept]])),
  );
}
