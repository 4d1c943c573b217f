/** Renders a stack by a tree's own code, in a separate process, in one form for both sides of a comparison. */
import { createHmac } from "node:crypto";
import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { version as sdkVersion } from "@pulumi/pulumi/version.js";
import { exists, orWhenMissing } from "../../components/local/provider/files.ts";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import type { EnginePlan } from "../../infra/plan/container-spec-schemas.ts";
import { canSleep, instanceTypes, plannedNodes } from "../../infra/plan/cost/pool-price.ts";
import { startEstimate } from "../../infra/plan/cost/times.ts";
import type { GpuCost } from "../../infra/plan/cost/types.ts";
import { worldSize } from "../../infra/plan/fit/placement.ts";
import type { GpuPlanParts } from "../../infra/plan/gpu-stack.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { waitingBuilds } from "../../infra/plan/pool-space.ts";
import { ConfigError, type Problem } from "../../infra/problems.ts";
import { UserError } from "../errors.ts";
import { type Properties, secretMark } from "../program/serialized.ts";
import {
  projectRoot,
  type RuntimeConfig,
  readStackFile,
  type StackReference,
} from "../program/stack-file.ts";
import type { RenderedResource } from "../render.ts";
import { outputOf } from "./base-tree.ts";
import type { FitState } from "./types.ts";

/**
 * Raise it with each change of {@link RenderedTree}, except for parts that a tree may lack: a base of another version
 * is not compared, and its pull request is that of an upgrade.
 */
const VERSION = 1;

/** Part of a plan that is compared. */
export interface ComparablePlan {
  readonly models: readonly {
    readonly name: string;
    readonly engine: Pick<EnginePlan, "model" | "key" | "shortKey" | "keyFields"> | null;
    readonly coldStartSeconds: number;
  }[];
  readonly fit: readonly (FitState & { readonly pool: string; readonly tenants: readonly string[] })[];
  readonly cost: Pick<GpuCost, "hourlyUsd" | "monthlyUsd" | "builds" | "lines"> & {
    /** Absent if the stack can't sleep. */
    readonly asleepMonthlyUsd?: GpuCost["asleepMonthlyUsd"];
    /** Absent in a tree of an earlier version. */
    readonly pricesAsOf?: GpuCost["pricesAsOf"];
  };
  /** Absent in a tree of an earlier version, as the next. */
  readonly servers?: readonly PlannedServer[];
  readonly machines?: readonly PlannedMachines[];
  /** Advisories, ends of life and others. */
  readonly warnings: readonly Problem[];
}

/** How the server of a model starts, and where its engine is built. */
interface PlannedServer {
  readonly model: string;
  readonly pool: string;
  readonly buildPool: string;
  /** Number of all its replicas. */
  readonly gpus: number;
  /** Download and unpacking of the image. */
  readonly pullSeconds: number;
  /** Copy and load of the engine, on a machine that has the image. */
  readonly startSeconds: number;
  /** From zero, including a new machine if machines are rented. */
  readonly coldStartSeconds: number;
  /** Whether a build takes the GPUs of a server, for lack of room beside them: `engines.whenFull: stopServer`. */
  readonly buildStopsServers: boolean;
}

/** Machines that all replicas need at once. */
interface PlannedMachines {
  readonly pool: string;
  readonly count: number;
  /** Instance types; empty of a machine that is described by its parts. */
  readonly types: readonly string[];
}

/** One side of a comparison. */
export interface RenderedTree {
  readonly version: number;
  /** Null without a graph, which `failure` or `problems` explain. */
  readonly resources: readonly RenderedResource[] | null;
  /** Null without a graph. */
  readonly outputs: Properties | null;
  /** Null without a plan, or without GPUs. */
  readonly plan: ComparablePlan | null;
  readonly problems: readonly Problem[];
  /** Why there is no graph, in one sentence. */
  readonly failure: string | null;
  /** Version of @pulumi/pulumi, which runs the program. Absent if the tree does not have it, or was not rendered. */
  readonly sdkVersion?: string;
}

/** A tree without content. */
export function unrendered(failure: string | null, problems: readonly Problem[] = []): RenderedTree {
  return { version: VERSION, resources: null, outputs: null, plan: null, problems, failure };
}

/**
 * Renders a stack of this file's tree.
 *
 * @param secretKey - Equal secrets have equal marks in this run, and only the holder of the key can test a guess against one.
 * @param program - Creates the program of a configuration. @default the project's own, which runs once a process
 */
export async function renderedHere(
  stack: StackReference,
  secretKey: string,
  program?: (config: RuntimeConfig) => () => Promise<object>,
): Promise<RenderedTree> {
  const mark = (secret: unknown) =>
    secretMark(createHmac("sha256", secretKey).update(canonicalJson(secret)).digest("hex"));
  try {
    const config = readStackFile(stack);
    const { plan, warnings } = checkedPlan(fromRuntimeConfig(config.values));
    const planned = {
      ...unrendered(null),
      plan: plan.tier === "gpu" ? comparablePlan(plan, warnings) : null,
    };
    // Only rendering needs the SDK, which takes a third of a second to load.
    const { renderStack } = await import("../render.ts");
    return await renderStack(stack.name, config, program?.(config), mark).then(
      ({ resources, outputs }) => ({ ...planned, resources, outputs, sdkVersion }),
      // The stack can be planned, but this version can't deploy it.
      (error: Error) => ({ ...planned, failure: failureOf(error) }),
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return unrendered(null, error.problems);
  }
}

function failureOf(error: Error): string {
  return error instanceof ConfigError ? error.problems.map(({ reason }) => reason).join(" ") : error.message;
}

/** Parts of a plan of a stack on GPUs. */
interface PlannedParts {
  readonly models: readonly Pick<GpuPlanParts["models"][number], "name" | "spec" | "engine" | "coldStart">[];
  readonly spec: GpuPlanParts["spec"];
  readonly fit: GpuPlanParts["fit"];
  readonly cost: GpuCost;
}

export function comparablePlan(
  { models, spec, fit, cost }: PlannedParts,
  warnings: readonly Problem[],
): ComparablePlan {
  const { hourlyUsd, monthlyUsd, asleepMonthlyUsd, builds, lines, pricesAsOf } = cost;
  const stopping =
    spec.whenFull === "stopServer"
      ? spec.pools.flatMap((pool) => waitingBuilds({ ...spec, whenFull: "fail" }, pool))
      : [];
  return {
    models: models.map(({ name, engine, coldStart }) => ({
      name,
      engine,
      coldStartSeconds: coldStart.seconds,
    })),
    fit: fit.map(({ pool, tenants, gpu, verdict, needGiB, capacityGiB }) => ({
      pool,
      tenants,
      gpu,
      verdict,
      needGiB,
      capacityGiB,
    })),
    cost: {
      hourlyUsd,
      monthlyUsd,
      ...(canSleep(spec) ? { asleepMonthlyUsd } : {}),
      builds,
      lines,
      pricesAsOf,
    },
    servers: models.map(({ name, spec: model, coldStart }) => ({
      model: name,
      pool: model.pool,
      buildPool: model.buildPool,
      gpus: worldSize(model) * model.serving.replicas,
      pullSeconds: coldStart.steps.find(({ what }) => what === "imagePull")?.seconds ?? 0,
      startSeconds: startEstimate(coldStart),
      coldStartSeconds: coldStart.seconds,
      buildStopsServers: stopping.some((build) => build.name === name),
    })),
    machines: spec.pools.map((pool) => ({
      pool: pool.name,
      count: plannedNodes(spec, pool),
      types: instanceTypes(pool),
    })),
    warnings,
  };
}

const TIMEOUT_SECONDS = 120;

/** Relative to the project. */
const CHILD = "scripts/diff/render-child.ts";

/** Variables that a program needs to run; not the caller's tokens and passphrases. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "XDG_CACHE_HOME", "ENGINE_ROOM_CACHE_DIR"];

interface RenderRequest {
  /** Absolute path of a project with its npm packages. */
  readonly project: string;
  /**
   * Absolute path of the folder that paths in messages are relative to: the project, or the folder of its stack's file.
   */
  readonly place: string;
  readonly stack: string;
  /** Absolute path. */
  readonly configFile: string;
  /** Key of this comparison. */
  readonly secretKey: string;
  /** Absolute path of a new file. */
  readonly out: string;
}

/** Gives the reason in `failure` if a tree can't be rendered; throws nothing for errors of its code. */
export async function renderTree(request: RenderRequest): Promise<RenderedTree> {
  const { project, place, stack, configFile, secretKey, out } = request;
  if (!(await exists(join(project, CHILD))))
    return unrendered(`It has no ${CHILD}: it is older than \`diff\`.`);
  const passedOn = Object.entries(process.env).filter(([name]) => PASSED_ON.includes(name));
  const env = { ...Object.fromEntries(passedOn), ENGINE_ROOM_SECRET_MARK_KEY: secretKey };
  const argv = ["loader/run.mjs", CHILD, stack, configFile, out];
  // Packages of the base are links to those of the working tree.
  const places = [place, project, await realpath(project), projectRoot.replace(/\/$/, "")];
  try {
    await outputOf(process.execPath, argv, { cwd: project, env, timeoutSeconds: TIMEOUT_SECONDS });
    const tree = parsedTree(await readFile(out, "utf8").catch(orWhenMissing("")));
    if (tree === null) return unrendered("Its program wrote no readable output.");
    if (tree.version === VERSION) return shownTree(tree, places);
    return unrendered("Its program describes stacks in another form than this version of `diff` reads.");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return unrendered(withoutPlaces(error.message.replace(process.execPath, "node"), places));
  }
}

/** Parses the output of another commit's program; null if it is empty or incomplete. */
function parsedTree(text: string): RenderedTree | null {
  try {
    return JSON.parse(text) as RenderedTree | null;
  } catch {
    return null;
  }
}

/** Returns its sentences without places; compared values stay as they are. */
function shownTree(tree: RenderedTree, places: readonly string[]): RenderedTree {
  const shown = (text: string) => withoutPlaces(text, places);
  return {
    ...tree,
    failure: tree.failure === null ? null : shown(tree.failure),
    problems: tree.problems.map((problem) => ({
      ...problem,
      value: shown(problem.value),
      reason: shown(problem.reason),
      fix: shown(problem.fix),
    })),
  };
}

/** A tree and its packages are elsewhere in each run: paths are shown as they are in the tree. */
function withoutPlaces(text: string, places: readonly string[]): string {
  return places
    .flatMap((place) => [`file://${place}/`, `${place}/`])
    .reduce((shown, place) => shown.replaceAll(place, ""), text);
}
