/**
 * A minimal provider of things in memory. The try-out runner calls it directly, the real engine through the plugin beside
 * it, so that their operations can be compared.
 */
import type { PropertyMap, ResourceHandler } from "../../../../components/local/provider/contract.ts";

export const THING = "local:index:Thing";

/** `value` updates in place, `kind` replaces, `slot` replaces and must be free first; `token` is known only after `up`. */
export class ThingHandler implements ResourceHandler {
  readonly calls: string[] = [];

  async check(news: PropertyMap) {
    const failures = news.value === "forbidden" ? [{ property: "value", reason: "It is forbidden." }] : [];
    return { inputs: news, failures };
  }

  async diff(_id: string, olds: PropertyMap, news: PropertyMap) {
    const differs = (key: string) => JSON.stringify(olds[key]) !== JSON.stringify(news[key]);
    const changedProperties = ["kind", "slot", "value", "from"].filter(differs);
    const replaces = changedProperties.filter((name) => name === "kind" || name === "slot");
    return { changes: changedProperties.length > 0, changedProperties, replaces };
  }

  async create(name: string, inputs: PropertyMap) {
    this.calls.push(`create ${name}`);
    return { id: name, outs: withToken(inputs) };
  }

  async read(id: string, state: PropertyMap): ReturnType<ResourceHandler["read"]> {
    const { token: _token, ...inputs } = state;
    return { id, inputs, outs: state };
  }

  async update(id: string, _olds: PropertyMap, news: PropertyMap) {
    this.calls.push(`update ${id}`);
    return { outs: withToken(news) };
  }

  async delete(id: string) {
    this.calls.push(`delete ${id}`);
  }
}

function withToken(inputs: PropertyMap): PropertyMap {
  return { ...inputs, token: `${String(inputs.kind)}-${String(inputs.slot)}` };
}
