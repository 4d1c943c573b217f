/** The package `local` as a plugin of the Pulumi engine, over the SDK's provider server. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { main, type Provider } from "@pulumi/pulumi/provider/index.js";
import { type HandlerContext, InitializationError } from "./contract.ts";
import { handlerOf } from "./handlers.ts";
import { packageSchema } from "./schema.ts";
import { unwrap, wrap } from "./wire.ts";

const PARENT_CHECK_MILLISECONDS = 500;

const cancelled = new AbortController();
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "package.json"), "utf8")) as {
  version: string;
};

/** `urn:pulumi:<stack>::<project>::<parent type>$<type>::<name>`. */
function partsOf(urn: string): { type: string; name: string } {
  const [, , types = "", ...name] = urn.split("::");
  return { type: types.split("$").at(-1) ?? "", name: name.join("::") };
}

/** The engine shows what a plugin writes to standard error. */
function contextOf(urn: string): HandlerContext {
  const { name } = partsOf(urn);
  return { report: (line) => console.error(`${name}: ${line}`), signal: cancelled.signal };
}

const provider: Provider = {
  version,
  getSchema: async () => packageSchema(version),

  async check(urn, olds, news) {
    const { properties, secretPaths } = unwrap(news);
    const { inputs, failures } = await handlerOf(partsOf(urn).type).check(
      properties,
      unwrap(olds).properties,
    );
    return { inputs: wrap(inputs, secretPaths), failures: [...failures] };
  },

  async diff(id, urn, olds, news) {
    const result = await handlerOf(partsOf(urn).type).diff(
      id,
      unwrap(olds).properties,
      unwrap(news).properties,
    );
    return {
      changes: result.changes,
      replaces: [...result.replaces],
      deleteBeforeReplace: result.deleteBeforeReplace,
    };
  },

  async create(urn, inputs) {
    const { type, name } = partsOf(urn);
    const { properties, secretPaths } = unwrap(inputs);
    return keepingSecrets(secretPaths, async () => {
      const { id, outs } = await handlerOf(type).create(name, properties, contextOf(urn));
      return { id, outs: wrap(outs, secretPaths) };
    });
  },

  async read(id, urn, props) {
    const { properties, secretPaths } = unwrap(props);
    const found = await handlerOf(partsOf(urn).type).read(id, properties, contextOf(urn));
    // An empty id says that it is gone.
    if (found === undefined) return { id: "", props: {}, inputs: {} };
    return { id, props: wrap(found.outs, secretPaths), inputs: wrap(found.inputs, secretPaths) };
  },

  async update(id, urn, olds, news) {
    const { properties, secretPaths } = unwrap(news);
    return keepingSecrets(secretPaths, async () => {
      const handler = handlerOf(partsOf(urn).type);
      const { outs } = await handler.update(id, unwrap(olds).properties, properties, contextOf(urn));
      return { outs: wrap(outs, secretPaths) };
    });
  },

  async delete(id, urn, props) {
    await handlerOf(partsOf(urn).type).delete(id, unwrap(props).properties, contextOf(urn));
  },

  async cancel() {
    cancelled.abort(new Error("The run was cancelled."));
  },
};

/** The properties of a half-made resource go into the state as well. */
async function keepingSecrets<T>(
  secretPaths: Parameters<typeof wrap>[1],
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof InitializationError)) throw error;
    throw new InitializationError(error.message, error.id, wrap(error.properties, secretPaths));
  }
}

// An engine that is killed cannot tell its plugins to end, and a plugin that goes on would meet the next run's.
const parent = process.ppid;
setInterval(() => {
  if (process.ppid !== parent) process.exit(1);
}, PARENT_CHECK_MILLISECONDS).unref();

await main(provider, process.argv.slice(2));
