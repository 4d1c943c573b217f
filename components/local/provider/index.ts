/** The package `local` as a plugin of the Pulumi engine, over the SDK's provider server. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { main, type Provider } from "@pulumi/pulumi/provider/index.js";
import { InitializationError, unwrap, wrap } from "./contract.ts";
import { handlerOf, packageSchema } from "./handlers.ts";

const PARENT_CHECK_MILLISECONDS = 500;

const cancelled = new AbortController();
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "package.json"), "utf8")) as {
  version: string;
};

/** @param urn - `urn:pulumi:<stack>::<project>::<parent type>$<type>::<name>`. */
function resourceOf(urn: string) {
  const [, , types = "", ...names] = urn.split("::");
  const name = names.join("::");
  // The engine shows a plugin's standard error.
  const report = (line: string) => console.error(`${name}: ${line}`);
  return {
    name,
    handler: handlerOf(types.split("$").at(-1) ?? ""),
    context: { report, signal: cancelled.signal },
  };
}

const provider: Provider = {
  version,
  getSchema: async () => packageSchema(version),

  async check(urn, olds, news) {
    const { properties, secretPaths } = unwrap(news);
    const { inputs, failures } = await resourceOf(urn).handler.check(properties, unwrap(olds).properties);
    return { inputs: wrap(inputs, secretPaths), failures: [...failures] };
  },

  async diff(id, urn, olds, news) {
    const { handler } = resourceOf(urn);
    const result = await handler.diff(id, unwrap(olds).properties, unwrap(news).properties);
    return { ...result, replaces: [...result.replaces] };
  },

  async create(urn, inputs) {
    const { name, handler, context } = resourceOf(urn);
    const { properties, secretPaths } = unwrap(inputs);
    const { id, outs } = await handler.create(name, properties, context).catch(keepingSecrets(secretPaths));
    return { id, outs: wrap(outs, secretPaths) };
  },

  async read(id, urn, props) {
    const { handler, context } = resourceOf(urn);
    const { properties, secretPaths } = unwrap(props);
    const found = await handler.read(id, properties, context);
    // An empty id says that it is gone.
    if (found === undefined) return { id: "", props: {}, inputs: {} };
    return { id, props: wrap(found.outs, secretPaths), inputs: wrap(found.inputs, secretPaths) };
  },

  async update(id, urn, olds, news) {
    const { handler, context } = resourceOf(urn);
    const { properties, secretPaths } = unwrap(news);
    const { outs } = await handler
      .update(id, unwrap(olds).properties, properties, context)
      .catch(keepingSecrets(secretPaths));
    return { outs: wrap(outs, secretPaths) };
  },

  async delete(id, urn, props) {
    const { handler, context } = resourceOf(urn);
    await handler.delete(id, unwrap(props).properties, context);
  },

  async cancel() {
    cancelled.abort(new Error("The run was cancelled."));
  },
};

/** The properties of a half-made resource go into the state as well. */
function keepingSecrets(secretPaths: Parameters<typeof wrap>[1]): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof InitializationError)) throw error;
    throw new InitializationError(error.message, error.id, wrap(error.properties, secretPaths));
  };
}

// An engine that is killed cannot tell its plugins to end, and a plugin that stays would meet the next run's.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.exit(1);
}, PARENT_CHECK_MILLISECONDS).unref();

await main(provider, process.argv.slice(2));
