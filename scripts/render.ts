/** The complete resource graph of a stack as JSON, without network, plugins, CLI or credentials. */
import { isSecret } from "./program/changes.ts";
import type { MonitorOwner, Registered, Registration } from "./program/monitor.ts";
import { runProgram } from "./program/run-program.ts";
import {
  type Properties,
  prettyJson,
  SECRET_PLACEHOLDER,
  UNKNOWN_PLACEHOLDER,
  UNKNOWN_VALUE,
} from "./program/serialized.ts";
import { projectName, type RuntimeConfig } from "./program/stack-file.ts";

/** A registration without unset fields, with secrets masked, and unknown values as a placeholder. */
export type RenderedResource = Omit<Registration, "provider" | "readId"> & {
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

/** Text in place of a secret; it gets the value in the SDK's marks. */
type SecretText = (secret: unknown) => string;

/**
 * The same stack file and program give the same bytes, wherever the project is.
 *
 * @param secretText - @default `[secret]` for each
 */
export async function renderStack(
  stack: string,
  config: RuntimeConfig,
  program?: () => Promise<object>,
  secretText: SecretText = () => SECRET_PLACEHOLDER,
): Promise<RenderedStack> {
  const owner = new RenderingOwner(secretText);
  await runProgram({ stack, config, preview: true, owner, ...(program === undefined ? {} : { program }) });
  return {
    project: projectName(),
    stack,
    resources: owner.resources.toSorted((a, b) => (a.urn < b.urn ? -1 : 1)),
    outputs: mask(owner.stackOutputs, secretText) as Properties,
  };
}

/** JSON with sorted keys and a final newline. */
export function renderJson(rendered: RenderedStack): string {
  return prettyJson(rendered);
}

class RenderingOwner implements MonitorOwner {
  readonly resources: RenderedResource[] = [];
  stackOutputs: Properties = {};
  readonly #secretText: SecretText;

  constructor(secretText: SecretText) {
    this.#secretText = secretText;
  }

  async register(registration: Registration): Promise<Registered> {
    const { provider, readId, ...rest } = registration;
    this.resources.push({
      ...rest,
      inputs: rest.type === "pulumi:pulumi:Stack" ? {} : (mask(rest.inputs, this.#secretText) as Properties),
      ...(provider === "" ? {} : { provider: provider.replace(/::[^:]*$/, "") }),
      ...(readId === undefined ? {} : { readId }),
    });
    // As in a preview, inputs are returned as outputs; everything else, the id too, is unknown.
    return { outputs: registration.inputs };
  }

  registerOutputs(urn: string, outputs: Properties): void {
    if (urn.includes("::pulumi:pulumi:Stack::")) this.stackOutputs = outputs;
  }
}

function mask(value: unknown, secretText: SecretText): unknown {
  // Most values have nothing to mask, and need no copy.
  if (!hasMarks(value)) return value;
  if (isSecret(value)) return secretText(value);
  if (value === UNKNOWN_VALUE) return UNKNOWN_PLACEHOLDER;
  if (Array.isArray(value)) return value.map((inner) => mask(inner, secretText));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mask(inner, secretText)]));
  }
  return value;
}

/** Whether a value contains a secret or an unknown value. */
function hasMarks(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value === UNKNOWN_VALUE;
  for (const key in value) if (hasMarks((value as Properties)[key])) return true;
  return isSecret(value);
}
