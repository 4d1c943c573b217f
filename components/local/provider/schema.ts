/** The package as Pulumi's schema describes packages: what `pulumi package get-schema` shows. */
import type { ResourceType } from "../types.ts";

type Property = { readonly type: string } & Record<string, unknown>;
interface ResourceSchema {
  readonly description: string;
  readonly inputProperties: Readonly<Record<string, Property>>;
  readonly requiredInputs: readonly string[];
  /** What the provider adds to the inputs. */
  readonly outputs: Readonly<Record<string, Property>>;
}

const text: Property = { type: "string" };
const whole: Property = { type: "integer" };
const list: Property = { type: "array", items: text };
const any = { $ref: "pulumi.json#/Any" };
const mapOf = (items: object): Property => ({ type: "object", additionalProperties: items });

const resources: Readonly<Record<ResourceType, ResourceSchema>> = {
  "local:index:PythonEnvironment": {
    description: "A Python virtual environment that holds exactly what a lock lists.",
    inputProperties: { directory: text, requirements: text, requirementsSha256: text, pythonVersion: text },
    requiredInputs: ["directory", "requirements", "requirementsSha256"],
    outputs: { python: text, version: text, sitePackages: text },
  },
  "local:index:ModelRepository": {
    description: "A folder of models as Triton loads it.",
    inputProperties: {
      directory: text,
      python: text,
      files: mapOf(any),
      artifacts: mapOf(any),
      digest: text,
    },
    requiredInputs: ["directory", "python", "files", "artifacts", "digest"],
    outputs: { facts: mapOf(any) },
  },
  "local:index:Process": {
    description: "A program that supervisord keeps running.",
    inputProperties: {
      ...{ stackDirectory: text, name: text, python: text, command: list, environment: mapOf(text) },
      ...{ requestedPorts: mapOf(whole), files: mapOf(text), triggers: list, ready: mapOf(any) },
      ...{ stopTimeoutSeconds: whole, priority: whole, maxLogMiB: whole, logBackups: whole },
    },
    requiredInputs: ["stackDirectory", "name", "python", "command", "requestedPorts", "ready"],
    outputs: { ports: mapOf(whole) },
  },
};

/** JSON, as the engine asks for it. */
export function packageSchema(version: string): string {
  const described = Object.entries(resources).map(([type, { outputs, ...resource }]) => [
    type,
    {
      ...resource,
      properties: { ...resource.inputProperties, ...outputs },
      required: [...resource.requiredInputs, ...Object.keys(outputs)],
    },
  ]);
  return JSON.stringify({ name: "local", version, resources: Object.fromEntries(described) });
}
