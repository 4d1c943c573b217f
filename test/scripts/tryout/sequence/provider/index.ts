/** The same things as a plugin of the Pulumi engine. */
import { main, type Provider } from "@pulumi/pulumi/provider/index.js";
import { ThingProvider } from "../things.ts";

const things = new ThingProvider();
const version = "0.1.0";
const type = "local:index:Thing";
const nameOf = (urn: string) => urn.split("::")[3] ?? "";

const provider: Provider = {
  version,
  schema: JSON.stringify({ name: "local", version, resources: { [type]: {} } }),
  check: async (_urn, _olds, news) => {
    const { inputs, failures } = await things.check({ news });
    return { inputs, failures: [...failures] };
  },
  diff: async (_id, _urn, olds, news) => {
    const { changes, replaces, deleteBeforeReplace } = await things.diff({ olds, news });
    return { changes, replaces: [...replaces], deleteBeforeReplace };
  },
  create: async (urn, inputs) => {
    const { id, outputs } = await things.create({ name: nameOf(urn), inputs });
    return { id, outs: outputs };
  },
  read: async (id, _urn, props) => {
    const read = await things.read({ outputs: props });
    return { id, inputs: read?.inputs ?? {}, props: read?.outputs ?? {} };
  },
  update: async (_id, urn, _olds, news) => ({ outs: await things.update({ name: nameOf(urn), news }) }),
  delete: async (_id, urn) => things.delete({ name: nameOf(urn) }),
};

main(provider, process.argv.slice(2));
