/** Seconds of builds and starts, by containers, and by the plan's estimates. */
import { z } from "zod";
import { Skipped } from "../ask/golden.ts";
import type { HostContainer } from "../docker-host/containers.ts";
import type { HostProbe } from "../preflight/host-probe.ts";
import type { Figures } from "./check.ts";

/** Source of times: a stack's containers, and their engine. */
export interface ContainerHost {
  readonly probe: HostProbe;
  readonly containers: readonly HostContainer[];
}

/** Seconds by name of a phase. */
type Seconds = Readonly<Record<string, number>>;

/** Maximum length of a start that can be compared. */
const LONGEST_START_SECONDS = 3600;

/** As Triton logs it when all models are loaded and its port is open (src/http_server.cc of its server). */
const SERVES = "Started HTTPService at";

/**
 * From the start of a container to an open port. @param estimate - Seconds, by `startEstimate`; null without an
 * estimate in the plan.
 */
export async function measureStart(host: ContainerHost | null, name: string, estimate: number | null) {
  const { container, probe } = running(host, name);
  const { StartedAt } = container.State;
  const until = new Date(Date.parse(StartedAt) + LONGEST_START_SECONDS * 1000).toISOString();
  const period = ["--since", StartedAt, "--until", until];
  const { stdout, stderr } = await probe.docker(["logs", "--timestamps", ...period, name]);
  // The CLI writes both streams of the container to its own.
  const seconds = startSeconds(StartedAt, `${stdout}\n${stderr}`);
  if (seconds === null) throw new Skipped("logHasNoStart");
  return comparison({ start: seconds }, estimate === null ? {} : { start: estimate });
}

/** Manifest of an engine, or of the encoders: all models together. */
const manifestSchema = z.object({
  key: z.string(),
  seconds: z.record(z.string(), z.number()).default({}),
  steps: z.array(z.object({ step: z.string(), seconds: z.number() })).default([]),
});

/** Steps of the build that a container serves. @param estimates - Empty without estimates in the plan. */
export async function measureBuild(
  host: ContainerHost | null,
  name: string,
  planned: { readonly directory: string; readonly key: string },
  estimates: Seconds,
) {
  const { probe } = running(host, name);
  const { exitCode, stdout } = await probe.docker([
    "exec",
    name,
    "cat",
    `${planned.directory}/manifest.json`,
  ]);
  const { data } = manifestSchema.safeParse(exitCode === 0 ? parseJson(stdout) : undefined);
  if (data === undefined) throw new Skipped("noManifest");
  const { key, seconds, steps } = data;
  if (key !== planned.key)
    throw new Error(
      `the container has ${key.slice(0, 12)}, and the stack file plans ${planned.key.slice(0, 12)}; \`npx engine-room up\` brings them together`,
    );
  const sums = { ...seconds };
  for (const { step, seconds } of steps) sums[step] = (sums[step] ?? 0) + seconds;
  return comparison(sums, estimates);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Seconds between the start of a container and the line with which Triton reports that it is ready.
 * @param log - Lines with RFC 3339 times before them. Null without the line.
 */
export function startSeconds(startedAt: string, log: string): number | null {
  const line = log.split("\n").find((each) => each.includes(SERVES));
  const time = Date.parse(line?.split(" ", 1)[0] ?? "");
  const seconds = (time - Date.parse(startedAt)) / 1000;
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
}

/** Seconds of each phase, and their ratio to the estimate if there is one: 2 took twice as long as estimated. */
export function comparison(
  measured: Seconds,
  estimated: Seconds,
): { readonly text: string; readonly figures: Figures } {
  const words: string[] = [];
  const figures: Record<string, number> = {};
  for (const [phase, seconds] of Object.entries(measured)) {
    // Existing parts took no time.
    if (seconds <= 0) continue;
    figures[`${phase}Seconds`] = seconds;
    const ratio = seconds / (estimated[phase] ?? 0);
    if (Number.isFinite(ratio)) figures[`${phase}Ratio`] = ratio;
    words.push(
      `${phase} ${seconds.toFixed(1)} s${Number.isFinite(ratio) ? ` (${ratio.toFixed(2)} × the estimate)` : ""}`,
    );
  }
  return { text: words.join(", "), figures };
}

function running(host: ContainerHost | null, name: string) {
  if (host === null) throw new Skipped("noContainers");
  const container = host.containers.find(({ Name }) => Name === `/${name}`);
  if (container?.State.Status !== "running") throw new Skipped("notRunning");
  return { container, probe: host.probe };
}
