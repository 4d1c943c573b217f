/** Parts of Pulumi's runtime that platforms share: secrets of the stack file, images without a digest, stack traces. */
import * as pulumi from "@pulumi/pulumi";
import { SECRET_PATHS, type SecretName } from "../plan/docker/host.ts";
import { CONFIG_NAMESPACE, ConfigError, isSecure, type Problem } from "../problems.ts";

/** Place of a plan's resources: the stack of this project's own program, or a component in a user's program. */
export interface Place {
  /** Name in labels, tags and physical names. */
  readonly name: string;
  /** Parent component of all resources; undefined for the stack itself. */
  readonly parent?: pulumi.Resource;
  /** Kubeconfig of an existing cluster, for `platform: kubernetes`; undefined: the plan's context. */
  readonly kubeconfig?: pulumi.Input<string>;
  /** A key of the stack file that holds secrets, such as `hub`. */
  secrets(key: string): pulumi.Output<unknown>;
}

/** The stack of this project's own program. */
export function ownStack(): Place {
  return {
    name: pulumi.getStack(),
    secrets: (key) => new pulumi.Config(CONFIG_NAMESPACE).requireSecretObject<unknown>(key),
  };
}

/** Options of a resource outside all components of the plan. */
export function inPlace({ parent }: Place): { readonly parent?: pulumi.Resource } {
  return parent === undefined ? {} : { parent };
}

/** Secrets of the stack file, which the plan does not have. */
export function secretValues(
  { secrets }: Place,
  names: Iterable<SecretName>,
): Partial<Record<SecretName, pulumi.Output<string>>> {
  const values = [...new Set(names)].map((name) => {
    const [key = "", ...path] = SECRET_PATHS[name].split(".");
    return [name, secrets(key).apply((value) => textAt(value, path))];
  });
  return Object.fromEntries(values);
}

function textAt(value: unknown, path: readonly string[]): string {
  const found = path.reduce<unknown>((inner, key) => (inner as Record<string, unknown>)[key], value);
  // A rendered stack is not deployed and its secrets are not decrypted: it shows none, but differs after one has changed.
  if (isSecure(found)) return found.secure;
  return typeof found === "string" ? found : "";
}

/**
 * @param problems - Images without a digest.
 * @throws ConfigError with them. A preview shows such a stack all the same, and warns: its images can be pushed after it.
 */
export function refuseUnpulled(problems: readonly Problem[]): void {
  if (problems.length > 0 && !pulumi.runtime.isDryRun()) throw new ConfigError(problems);
  for (const { reason, fix } of problems) void pulumi.log.warn(`${reason} ${fix}`);
}

/**
 * The SDK writes a stack trace to each of its promises, four for every property of a resource, and mapping them to
 * TypeScript is a quarter of a preview; only that variable has it print them. Errors keep their messages. Not before all
 * modules are loaded: tsx, if it loads them, tells by a trace who asks for one.
 */
export function leaveOutStackTraces({ parent }: Place): void {
  // A user's program keeps its own stack traces.
  if (parent === undefined && process.env.PULUMI_DEBUG_PROMISE_LEAKS === undefined) Error.stackTraceLimit = 0;
}

/** Returns a resource that an earlier part of a plan has registered. @throws Error when the plan lacks it. */
export function found<Key, Value>(map: ReadonlyMap<Key, Value>, key: Key): Value {
  const value = map.get(key);
  if (value === undefined) throw new Error(`A part of the plan needs ${key}, which does not come before it.`);
  return value;
}
