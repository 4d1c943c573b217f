/** Seconds of builds and starts, as containers say them, and as the plan estimated them. */
import { z } from "zod";
import { buildEstimate } from "../../infra/plan/cost/times.ts";
import type { GpuPlan, ModelPlan } from "../../infra/plan/gpu-stack.ts";
import { Skipped } from "../ask/golden.ts";
import type { HostContainer } from "../docker-host/containers.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import type { Figures } from "./check.ts";

/** What times are read from: a stack's containers, and their engine. */
export interface ContainerHost {
  readonly probe: HostProbe;
  readonly containers: readonly HostContainer[];
}

/** Seconds by name of a phase. */
type Seconds = Readonly<Record<string, number>>;

/** A server that takes longer from its start has no start worth a comparison. */
const LONGEST_START_SECONDS = 3600;

/** As Triton logs it when all models are loaded and its port is open (src/http_server.cc of its server). */
const SERVES = "Started HTTPService at";

/** From the start of a container to an open port. @param estimate - Seconds, by `startEstimate`; null: the plan has none. */
export async function measureStart(host: ContainerHost | null, name: string, estimate: number | null) {
  const { container, probe } = running(host, name);
  const { StartedAt } = container.State;
  const until = new Date(Date.parse(StartedAt) + LONGEST_START_SECONDS * 1000).toISOString();
  const { stdout, stderr } = await probe.docker([
    "logs",
    "--timestamps",
    "--since",
    StartedAt,
    "--until",
    until,
    name,
  ]);
  // The CLI gives back both streams of the container as its own.
  const seconds = startSeconds(StartedAt, `${stdout}\n${stderr}`);
  if (seconds === null) throw new Skipped("logHasNoStart");
  return comparison({ start: seconds }, estimate === null ? {} : { start: estimate });
}

const engineManifest = z.object({ key: z.string(), seconds: z.record(z.string(), z.number()) });
const encoderManifest = z.object({
  key: z.string(),
  steps: z.array(z.object({ step: z.string(), seconds: z.number() })),
});

/** Steps of the build of a model's engine. */
export async function measureBuild(
  host: ContainerHost | null,
  name: string,
  pools: GpuPlan["spec"]["pools"],
  { spec, engine }: ModelPlan,
) {
  const pool = pools.find((one) => one.name === spec.buildPool);
  if (engine === null || pool === undefined) throw new Skipped("noEngine");
  const { key, seconds } = await readManifest(host, name, engine.directory, engineManifest);
  refuseOtherKey(key, engine.key);
  const { parts } = buildEstimate(spec.engine, pool);
  return comparison(seconds, parts);
}

/** Steps of the build of the encoders, all models together; the plan has no estimate. */
export async function measureEncoderBuild(
  host: ContainerHost | null,
  name: string,
  plan: { readonly directory: string; readonly key: string },
) {
  const { key, steps } = await readManifest(host, name, plan.directory, encoderManifest);
  refuseOtherKey(key, plan.key);
  const sums: Record<string, number> = {};
  for (const { step, seconds } of steps) sums[step] = (sums[step] ?? 0) + seconds;
  return comparison(sums, {});
}

/**
 * Seconds between the start of a container and the line with which Triton says that it serves.
 * @param log - Lines with RFC 3339 times before them. null where the line is not among them.
 */
export function startSeconds(startedAt: string, log: string): number | null {
  const line = log.split("\n").find((each) => each.includes(SERVES));
  const time = Date.parse(line?.split(" ", 1)[0] ?? "");
  const seconds = (time - Date.parse(startedAt)) / 1000;
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
}

/** Seconds of each phase, and their ratio to the estimate where there is one: 2 took twice as long as estimated. */
export function comparison(
  measured: Seconds,
  estimated: Seconds,
): { readonly text: string; readonly figures: Figures } {
  const phases = Object.entries(measured)
    // What was there already took no time.
    .filter(([, seconds]) => seconds > 0)
    .map(([phase, seconds]) => {
      const estimate = estimated[phase] ?? 0;
      return { phase, seconds, ratio: estimate > 0 ? seconds / estimate : null };
    });
  return {
    text: phases
      .map(({ phase, seconds, ratio }) => {
        const against = ratio === null ? "" : ` (${ratio.toFixed(2)} × the estimate)`;
        return `${phase} ${seconds.toFixed(1)} s${against}`;
      })
      .join(", "),
    figures: Object.fromEntries(
      phases.flatMap(({ phase, seconds, ratio }) => [
        [`${phase}Seconds`, seconds] as const,
        ...(ratio === null ? [] : [[`${phase}Ratio`, ratio] as const]),
      ]),
    ),
  };
}

async function readManifest<T extends z.ZodType>(
  host: ContainerHost | null,
  name: string,
  directory: string,
  schema: T,
): Promise<z.infer<T>> {
  const { probe } = running(host, name);
  const { exitCode, stdout } = await probe.docker(["exec", name, "cat", `${directory}/manifest.json`]);
  if (exitCode !== 0) throw new Skipped("noManifest");
  try {
    return schema.parse(JSON.parse(stdout));
  } catch {
    throw new Skipped("noManifest");
  }
}

function running(host: ContainerHost | null, name: string) {
  if (host === null) throw new Skipped("noContainers");
  const container = host.containers.find(({ Name }) => Name === `/${name}`);
  if (container?.State.Status !== "running") throw new Skipped("notRunning");
  return { container, probe: host.probe };
}

function refuseOtherKey(found: string, planned: string): void {
  if (found === planned) return;
  throw new Error(
    `the container has ${found.slice(0, 12)}, and the stack file plans ${planned.slice(0, 12)}; \`npx engine-room up\` brings them together`,
  );
}
