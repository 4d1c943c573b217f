/** The handlers of the provider `local`, called in this process instead of over gRPC. */
import { handlerOf, handlers } from "../../components/local/provider/handlers.ts";
import type { ResourceProvider } from "./steps.ts";

/** @param report - Called with a resource's name and one line about what a long step is doing. */
export function localProvider(report: (name: string, line: string) => void): ResourceProvider {
  const context = (name: string) => ({ report: (line: string) => report(name, line) });
  return {
    supports: (type) => type in handlers,
    check: async ({ type, olds, news }) => {
      const { inputs, failures } = await handlerOf(type).check(news, olds);
      return { inputs: { ...inputs }, failures };
    },
    diff: ({ type, id, olds, news }) => handlerOf(type).diff(id, olds, news),
    create: async ({ type, name, inputs }) => {
      const { id, outs } = await handlerOf(type).create(name, inputs, context(name));
      return { id, outputs: { ...outs } };
    },
    read: async ({ type, name, id, outputs }) => {
      const read = await handlerOf(type).read(id, outputs, context(name));
      return read === undefined ? undefined : { inputs: { ...read.inputs }, outputs: { ...read.outs } };
    },
    update: async ({ type, name, id, olds, news }) => {
      const { outs } = await handlerOf(type).update(id, olds, news, context(name));
      return { ...outs };
    },
    delete: ({ type, name, id, outputs }) => handlerOf(type).delete(id, outputs, context(name)),
  };
}
