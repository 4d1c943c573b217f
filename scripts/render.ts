/** The whole resource graph of a stack as JSON, without network, plugins, CLI or credentials. */
import { canonicalJson } from "../infra/plan/canonical-json.ts";
import { isSecret } from "./program/changes.ts";
import {
  type MonitorOwner,
  type Properties,
  type Registered,
  type Registration,
  UNKNOWN_VALUE,
} from "./program/monitor.ts";
import { runProgram } from "./program/run-program.ts";
import { projectName, type RuntimeConfig } from "./program/stack-file.ts";

/** A registration with what it leaves open left out, secrets masked, and unknown values as a placeholder. */
type RenderedResource = Omit<Registration, "provider" | "readId"> & {
  /** URN of an explicit provider. */
  readonly provider?: string;
  readonly readId?: string;
};

export interface RenderedStack {
  readonly project: string;
  readonly stack: string;
  /** Sorted by URN. */
  readonly resources: readonly RenderedResource[];
  readonly outputs: Properties;
}

/** What stands where a value is secret, or known only after `up`. */
const SECRET_PLACEHOLDER = "[secret]";
const UNKNOWN_PLACEHOLDER = "[unknown]";

/** Same stack file, same program: same bytes, wherever the project lies. */
export async function renderStack(
  stack: string,
  config: RuntimeConfig,
  program?: () => Promise<object>,
): Promise<RenderedStack> {
  const owner = new RenderingOwner();
  await runProgram({ stack, config, preview: true, owner, ...(program === undefined ? {} : { program }) });
  return {
    project: projectName(),
    stack,
    resources: owner.resources.toSorted((a, b) => (a.urn < b.urn ? -1 : 1)),
    outputs: mask(owner.stackOutputs) as Properties,
  };
}

/** JSON with sorted keys and a final newline. */
export function renderJson(rendered: RenderedStack): string {
  return `${JSON.stringify(JSON.parse(canonicalJson(rendered)), null, 2)}\n`;
}

class RenderingOwner implements MonitorOwner {
  readonly resources: RenderedResource[] = [];
  stackOutputs: Properties = {};
  failure: Error | undefined;

  async register(registration: Registration): Promise<Registered> {
    const { provider, readId, ...rest } = registration;
    this.resources.push({
      ...rest,
      inputs: rest.type === "pulumi:pulumi:Stack" ? {} : (mask(rest.inputs) as Properties),
      ...(provider === "" ? {} : { provider: provider.replace(/::[^:]*$/, "") }),
      ...(readId === undefined ? {} : { readId }),
    });
    // As in a preview: inputs come back as outputs, everything else is unknown, the id too.
    return { outputs: registration.inputs };
  }

  fail(error: Error): void {
    this.failure ??= error;
  }

  registerOutputs(urn: string, outputs: Properties): void {
    if (urn.includes("::pulumi:pulumi:Stack::")) this.stackOutputs = outputs;
  }
}

function mask(value: unknown): unknown {
  if (isSecret(value)) return SECRET_PLACEHOLDER;
  if (value === UNKNOWN_VALUE) return UNKNOWN_PLACEHOLDER;
  if (Array.isArray(value)) return value.map(mask);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mask(inner)]));
  }
  return value;
}
