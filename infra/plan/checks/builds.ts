/** Builds of engines against the machines that run them: GPUs, host memory, disks. */
import { pathParts, valueAt } from "../../problems.ts";
import { worldSize } from "../fit/placement.ts";
import { buildDiskGiB, machineResources } from "../pod-requests.ts";
import {
  buildPoolOf,
  buildsOf,
  emptyMachine,
  holds,
  packPool,
  poolOf,
  shortages,
  waitingBuilds,
} from "../pool-space.ts";
import type { PoolSpec } from "../spec.ts";
import { type Check, eachModel, eachPool } from "./check.ts";
import { cheapestTypes, machineWords, placeOf, shortageWords, shortNames, useLarger } from "./machines.ts";
import { count, gib } from "./words.ts";

export const buildChecks = {
  buildPoolHasSameGpu: eachModel((model, { spec }) => {
    const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
    if (model.serving.runtime !== "engine" || serves.name === builds.name) return [];
    const [wanted, found] = [gpuOf(serves), gpuOf(builds)];
    if (wanted === found) return [];
    return {
      path: `${model.path}.buildPool`,
      reason: `An engine runs on the kind of GPU that built it, and no other: ${serves.name} serves with ${wanted}, ${builds.name} builds with ${found}.`,
      fix: `Use a pool with ${wanted}, or leave buildPool out.`,
    };
  }),

  machineHoldsBuild: eachModel((model, { config, spec }) => {
    // Another GPU is another machine, and its memory another one too.
    if (!model.engine.target.gpu.supported) return [];
    const pool = buildPoolOf(model, spec);
    const build = buildsOf(spec, pool).find((other) => other.model === model);
    if (build === undefined) return [];
    const empty = emptyMachine(spec, pool);
    const isHost = spec.runsOn === "host";
    const short = shortages([empty], build).filter(
      // Ranks have a check of their own, and Docker counts no CPUs.
      ({ resource }) => resource === "memory" || (resource === "cpu" && !isHost),
    );
    if (short.length === 0) return [];
    const { row, model: name } = model.engine;
    const { machine, units } = machineWords(spec, pool);
    const isConversion =
      model.serving.runtime === "engine" && short.some(({ resource }) => resource === "memory");
    const isBuildPool = valueAt(config, pathParts(`${model.path}.buildPool`)) !== undefined;
    const larger = cheapestTypes(
      spec.region,
      (type) =>
        type.gpu === pool.machine.gpu &&
        type.gpus >= worldSize(model) &&
        holds({ ...machineResources({ machine: type }), slots: type.gpus }, build),
    );
    const lead =
      isHost || isBuildPool
        ? "Use"
        : "Serve from it and name a larger pool with the same GPU in buildPool, or use";
    return {
      ...placeOf(model, pool, isBuildPool ? "buildPool" : "pool", spec),
      reason: isConversion
        ? `Converting ${name} holds its ${row.source.storedDtype} weights and the checkpoint in host memory, about ${gib(build.memoryMiB)} (an estimate); ${machine} leaves ${gib(empty.memoryMiB)} to ${units}.`
        : `Filling the engine store for ${model.serving.name} takes ${shortageWords(short)} of ${machine}.`,
      fix: useLarger(larger, shortNames(short), pool, lead),
    };
  }),

  diskHoldsBuild: eachModel((model, { spec }) => {
    const pool = buildPoolOf(model, spec);
    if (model.serving.runtime !== "engine") return [];
    const parts = Object.entries(buildDiskGiB(model, spec.release));
    const needed = Math.ceil(parts.reduce((sum, [, size]) => sum + size, 0));
    if (needed <= pool.diskGiB) return [];
    return {
      path: `${pool.path}.diskGiB`,
      reason: `Building ${model.serving.name} takes ${needed} GiB: ${parts.map(([what, size]) => `${what} ${size.toFixed(1)}`).join(", ")}.`,
      fix: `Use ${needed} or more.`,
    };
  }),

  gpuIsFreeToBuild: eachPool((pool, { spec }) => {
    if (packPool(spec, pool).homeless.length > 0) return [];
    const empty = emptyMachine(spec, pool);
    // A machine that is too small even when it is empty has a check of its own.
    const first = waitingBuilds(spec, pool).find((build) => holds(empty, build));
    if (first === undefined) return [];
    const { name, model, short } = first;
    const isHost = spec.runsOn === "host";
    const [what, stopped] =
      model === null
        ? ["the encoders are", "a server while they are built"]
        : [`${name} is`, "the model's server while its engine is built"];
    const ways = [
      isHost
        ? `Use a host with more ${shortNames(short)}`
        : `Use ${pool.nodes.max + 1}, machines with more ${short.length === 0 ? "GPUs" : shortNames(short)}`,
      ...(isHost || model === null ? [] : [`name a pool with ${gpuOf(pool)} for builds in buildPool`]),
      `or write \`engines: { whenFull: stopServer }\`, which stops ${stopped}`,
    ];
    return {
      path: isHost ? "engines.whenFull" : `${pool.path}.nodes.max`,
      reason:
        short.length === 0
          ? `Time slicing does not divide a GPU's memory, so that ${what} built on a machine on which nobody serves; when all servers run, ${pool.name} has none.`
          : `When all servers run, ${isHost ? "the host has no" : `no machine of ${pool.name} has`} room to build ${name}, which takes ${shortageWords(short)}.`,
      fix: `${ways.join(", ")}.`,
    };
  }),

  machineHasGpusToBuild: eachModel((model, { spec }) => {
    const [serves, builds] = [poolOf(model, spec), buildPoolOf(model, spec)];
    const ranks = worldSize(model);
    if (serves.name === builds.name || ranks <= builds.machine.gpus || model.serving.runtime !== "engine")
      return [];
    return {
      path: `${model.path}.buildPool`,
      reason: `A finished engine is tried with all its ${ranks} ranks, and a machine of ${builds.name} has ${count(builds.machine.gpus, "GPU")}.`,
      fix: `Use a pool whose machines have ${ranks} GPUs, or leave buildPool out.`,
    };
  }),
} satisfies Record<string, Check>;

/** As an engine sees it. */
function gpuOf({ gpu, sharing }: PoolSpec): string {
  if (gpu === null) return "no GPU";
  return sharing.mode === "mig" ? `${gpu.name} MIG ${sharing.profile}` : gpu.name;
}
