/** Every resource of the package `local`, by type token, and the package's schema. */
import { z } from "zod";
import type { ResourceHandler } from "./contract.ts";
import { modelRepositoryInputs, processInputs, pythonEnvironmentInputs } from "./inputs.ts";
import { modelRepository } from "./model-repository.ts";
import { processHandler } from "./process.ts";
import { pythonEnvironment } from "./python-environment.ts";

export const handlers = {
  "local:index:PythonEnvironment": pythonEnvironment,
  "local:index:ModelRepository": modelRepository,
  "local:index:Process": processHandler,
} as const satisfies Readonly<Record<string, ResourceHandler>>;

/** The handler of a token; throws one sentence for any other. */
export function handlerOf(type: string): ResourceHandler {
  if (!(type in handlers))
    throw new Error(
      `${type} is no resource of the package local, which has ${Object.keys(handlers).join(", ")}.`,
    );
  return handlers[type as keyof typeof handlers];
}

/** The package's schema as JSON: `pulumi package get-schema` shows it. */
export function packageSchema(version: string): string {
  const text = { type: "string" };
  const mapOf = (items: object) => ({ type: "object", additionalProperties: items });
  const resources = {
    "local:index:PythonEnvironment": resourceSchema(pythonEnvironmentInputs, {
      python: text,
      version: text,
      sitePackages: text,
    }),
    "local:index:ModelRepository": resourceSchema(modelRepositoryInputs, { facts: mapOf(ANY) }),
    "local:index:Process": resourceSchema(processInputs, { ports: mapOf({ type: "integer" }) }),
  };
  return JSON.stringify({ name: "local", version, resources });
}

const ANY = { $ref: "pulumi.json#/Any" };

function resourceSchema(inputs: z.ZodObject, outputs: Readonly<Record<string, object>>): object {
  const { properties = {}, required = [] } = z.toJSONSchema(inputs, { io: "input" });
  const inputProperties = Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, pulumiType(schema)]),
  );
  return {
    inputProperties,
    requiredInputs: required,
    properties: { ...inputProperties, ...outputs },
    required: [...required, ...Object.keys(outputs)],
  };
}

/** Lists, maps and plain types; an object with properties of its own is `Any`. */
function pulumiType(schema: z.core.JSONSchema._JSONSchema): object {
  if (typeof schema === "boolean" || schema.type === undefined || schema.properties) return ANY;
  const { type, items, additionalProperties } = schema;
  if (type === "array") return { type, items: pulumiType(items as z.core.JSONSchema._JSONSchema) };
  return type === "object"
    ? { type, additionalProperties: pulumiType(additionalProperties ?? true) }
    : { type };
}
