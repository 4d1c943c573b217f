/**
 * A provider of things that exist only in memory, small enough to see what it must answer. The try-out runner calls it
 * directly, the real engine through the plugin beside it, so that their operations can be compared.
 */
import type { Properties } from "../../../../scripts/program/serialized.ts";
import type { ResourceProvider } from "../../../../scripts/tryout/steps.ts";

/** `value` updates in place, `kind` replaces, `slot` replaces and must be free first; `token` is known only after `up`. */
export class ThingProvider implements ResourceProvider {
  readonly calls: string[] = [];

  supports(type: string): boolean {
    return type === "local:index:Thing";
  }

  async check(request: { news: Properties }): ReturnType<ResourceProvider["check"]> {
    const failures =
      request.news.value === "forbidden" ? [{ property: "value", reason: "It is forbidden." }] : [];
    return { inputs: request.news, failures };
  }

  async diff({ olds, news }: { olds: Properties; news: Properties }): ReturnType<ResourceProvider["diff"]> {
    const differs = (key: string) => JSON.stringify(olds[key]) !== JSON.stringify(news[key]);
    const replaces = ["kind", "slot"].filter(differs);
    return {
      changes: replaces.length > 0 || differs("value") || differs("from"),
      replaces,
      deleteBeforeReplace: differs("slot"),
    };
  }

  async create({
    name,
    inputs,
  }: {
    name: string;
    inputs: Properties;
  }): ReturnType<ResourceProvider["create"]> {
    this.calls.push(`create ${name}`);
    return { id: name, outputs: withToken(inputs) };
  }

  async read({ outputs }: { outputs: Properties }): ReturnType<ResourceProvider["read"]> {
    const { token: _token, ...inputs } = outputs;
    return { inputs, outputs };
  }

  async update({ name, news }: { name: string; news: Properties }): Promise<Properties> {
    this.calls.push(`update ${name}`);
    return withToken(news);
  }

  async delete({ name }: { name: string }): Promise<void> {
    this.calls.push(`delete ${name}`);
  }
}

function withToken(inputs: Properties): Properties {
  return { ...inputs, token: `${String(inputs.kind)}-${String(inputs.slot)}` };
}
