/** The program without an engine, rendered or deployed with a test's answers. */
import { fromRuntimeConfig } from "../../../infra/config/config.ts";
import { loadPlan } from "../../../infra/load-plan.ts";
import { deploy } from "../../../infra/platforms/index.ts";
import type { MonitorOwner, Registration } from "../../../scripts/program/monitor.ts";
import type { Properties } from "../../../scripts/program/serialized.ts";
import type { RuntimeConfig } from "../../../scripts/program/stack-file.ts";
import { renderStack } from "../../../scripts/render.ts";

const PROJECT = "engine-room";

/** Values of a stack file, by keys without the project's name. */
export type StackValues = Readonly<Record<string, unknown>>;

/** The program's configuration, as Pulumi reads it from a stack file. */
export function runtimeConfig(file: StackValues): RuntimeConfig {
  const values = Object.entries(file).map(([key, value]) => [
    `${PROJECT}:${key}`,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return { values: Object.fromEntries(values), secretKeys: [] };
}

/** The program, as infra/index.ts has it. */
export const program = (config: RuntimeConfig) => async () =>
  deploy(await loadPlan(fromRuntimeConfig(config.values)));

export async function rendered(file: StackValues) {
  const config = runtimeConfig(file);
  return withPlainTraces(() => renderStack("demo", config, program(config)));
}

/** The SDK takes a stack trace for each resource and promise, and Vitest would look up the source of each line. */
export async function withPlainTraces<T>(work: () => Promise<T>): Promise<T> {
  const { prepareStackTrace } = Error;
  Error.prepareStackTrace = String;
  try {
    return await work();
  } finally {
    Error.prepareStackTrace = prepareStackTrace;
  }
}

/** Creates and records all resources. */
export class Engine implements MonitorOwner {
  readonly made: Registration[] = [];
  stackOutputs: Properties = {};
  readonly #outputs: (registration: Registration) => Properties;

  /** @param outputs - Answer for each resource; an error that it throws is the resource's failure. */
  constructor(outputs: (registration: Registration) => Properties) {
    this.#outputs = outputs;
  }

  async register(registration: Registration) {
    const outputs = this.#outputs(registration);
    this.made.push(registration);
    return { id: `id-of-${registration.name}`, outputs };
  }

  registerOutputs(urn: string, outputs: Properties): void {
    if (urn.includes("::pulumi:pulumi:Stack::")) this.stackOutputs = outputs;
  }
}

/** Name of a resource by its URN. */
export const last = (urn: string) => urn.split("::").at(-1) ?? "";
