/** The handlers of the provider `local`, called in this process instead of over gRPC. */
import type { ResourceHandler } from "../../components/local/provider/contract.ts";
import { handlers } from "../../components/local/provider/handlers.ts";
import type { ResourceType } from "../../components/local/types.ts";
import type { Properties } from "../program/monitor.ts";
import type { ResourceProvider } from "./engine.ts";

/** @param report - Called with a resource's name and one line about what a long step is doing. */
export function localProvider(report: (name: string, line: string) => void): ResourceProvider {
  const context = (name: string) => ({ report: (line: string) => report(name, line) });
  return {
    supports: (type) => type in handlers,
    check: async ({ type, olds, news }) => {
      const { inputs, failures } = await handler(type).check(news, olds);
      return { inputs: { ...inputs }, failures };
    },
    diff: ({ type, id, olds, news }) => handler(type).diff(id, olds, news),
    create: async ({ type, name, inputs }) => {
      const { id, outs } = await handler(type).create(name, inputs, context(name));
      return { id, outputs: { ...outs } };
    },
    read: async ({ type, id, outputs }) => {
      const read = await handler(type).read(id, outputs, context(id));
      return read === undefined ? undefined : { inputs: { ...read.inputs }, outputs: { ...read.outs } };
    },
    update: async ({ type, name, id, olds, news }): Promise<Properties> => {
      const { outs } = await handler(type).update(id, olds, news, context(name));
      return { ...outs };
    },
    delete: ({ type, id, outputs }) => handler(type).delete(id, outputs, context(id)),
  };
}

function handler(type: string): ResourceHandler {
  return handlers[type as ResourceType];
}
