/** The same things as a plugin of the Pulumi engine. */
import { main, type Provider } from "@pulumi/pulumi/provider/index.js";
import { THING, ThingHandler } from "../in-memory-provider.ts";

const things = new ThingHandler();
const version = "0.1.0";
const nameOf = (urn: string) => urn.split("::")[3] ?? "";

const provider: Provider = {
  version,
  schema: JSON.stringify({ name: "local", version, resources: { [THING]: {} } }),
  check: async (_urn, _olds, news) => things.check(news),
  diff: async (id, _urn, olds, news) => things.diff(id, olds, news),
  create: async (urn, inputs) => things.create(nameOf(urn), inputs),
  read: async (id, _urn, props = {}) => {
    const read = await things.read(id, props);
    return { id, inputs: read?.inputs ?? {}, props: read?.outs ?? {} };
  },
  update: async (id, _urn, olds, news) => things.update(id, olds, news),
  delete: async (id) => things.delete(id),
};

main(provider, process.argv.slice(2));
