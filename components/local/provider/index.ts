/** The package `local` as a plugin of the Pulumi engine, over the SDK's provider server. */
import { main, type Provider } from "@pulumi/pulumi/provider/index.js";
import { InitializationError, unwrap, wrap } from "./contract.ts";
import { handlerOf, REMOTE_TYPES } from "./handlers.ts";
import { ownerFailures, releaseOwnership, takeOwnership } from "./owner.ts";
import manifest from "./package.json" with { type: "json" };

const PARENT_CHECK_MILLISECONDS = 500;

const cancelled = new AbortController();

/** @param urn - `urn:pulumi:<stack>::<project>::<parent type>$<type>::<name>`. */
function resourceOf(urn: string) {
  const [stack = "", , types = "", ...names] = urn.split("::");
  const name = names.join("::");
  const type = types.split("$").at(-1) ?? "";
  // The engine shows a plugin's standard error.
  const report = (line: string) => console.error(`${name}: ${line}`);
  return {
    name,
    stack: stack.replace(/^urn:pulumi:/, ""),
    hasFiles: !REMOTE_TYPES.includes(type),
    handler: handlerOf(type),
    context: { report, signal: cancelled.signal },
  };
}

const provider: Provider = {
  version: manifest.version,

  async check(urn, olds, news) {
    const { properties, secretNames } = unwrap(news);
    const { handler, stack, hasFiles } = resourceOf(urn);
    const known = unwrap(olds).properties;
    const { inputs, failures } = await handler.check(properties, known);
    const refused = hasFiles && Object.keys(known).length === 0 ? await ownerFailures(stack) : [];
    return { inputs: wrap(inputs, secretNames), failures: [...refused, ...failures] };
  },

  /** A resource that is missing or differs from the state is a change too: after a reboot `pulumi up` starts it again. */
  async diff(id, urn, olds, news) {
    const { handler, context, hasFiles } = resourceOf(urn);
    const [state, wanted] = [unwrap(olds).properties, unwrap(news).properties];
    const diff = await handler.diff(id, state, wanted);
    if (diff.changes || !hasFiles) return diff;
    const found = await handler.read(id, state, context);
    return found === undefined ? { ...diff, changes: true } : handler.diff(id, found.outs, wanted);
  },

  async create(urn, inputs) {
    const { name, stack, hasFiles, handler, context } = resourceOf(urn);
    if (hasFiles) await takeOwnership(stack);
    const { properties, secretNames } = unwrap(inputs);
    const { id, outs } = await handler.create(name, properties, context).catch(keepingSecrets(secretNames));
    return { id, outs: wrap(outs, secretNames) };
  },

  async read(id, urn, props) {
    const { handler, context } = resourceOf(urn);
    const { properties, secretNames } = unwrap(props);
    const found = await handler.read(id, properties, context);
    // The engine treats an empty id as deleted.
    if (found === undefined) return { id: "", props: {}, inputs: {} };
    return { id, props: wrap(found.outs, secretNames), inputs: wrap(found.inputs, secretNames) };
  },

  async update(id, urn, olds, news) {
    const { handler, context } = resourceOf(urn);
    const { properties, secretNames } = unwrap(news);
    const { outs } = await handler
      .update(id, unwrap(olds).properties, properties, context)
      .catch(keepingSecrets(secretNames));
    return { outs: wrap(outs, secretNames) };
  },

  async delete(id, urn, props) {
    const { stack, hasFiles, handler, context } = resourceOf(urn);
    await handler.delete(id, unwrap(props).properties, context);
    if (hasFiles) await releaseOwnership(stack);
  },

  async cancel() {
    cancelled.abort(new Error("The run was cancelled."));
  },
};

/** The properties of a half-made resource go into the state as well. */
function keepingSecrets(secretNames: readonly string[]): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof InitializationError)) throw error;
    throw new InitializationError(error.message, error.id, wrap(error.properties, secretNames));
  };
}

// An engine that is killed cannot end its plugins, and a remaining plugin would meet the next run's.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.exit(1);
}, PARENT_CHECK_MILLISECONDS).unref();

await main(provider, process.argv.slice(2));
