/** Registers the things that its configuration lists. */
import * as pulumi from "@pulumi/pulumi";

export interface ThingConfig {
  readonly name: string;
  readonly value: string;
  readonly kind?: string;
  readonly slot?: string;
  /** Name of an earlier thing whose `token` is an input of this thing. */
  readonly from?: string;
  /** Name of its component. */
  readonly group?: string;
}

class Thing extends pulumi.CustomResource {
  declare readonly token: pulumi.Output<string>;

  constructor(name: string, args: Record<string, pulumi.Input<string>>, opts: pulumi.CustomResourceOptions) {
    super("local:index:Thing", name, { ...args, token: undefined }, { ...opts, version: "0.1.0" });
  }
}

class Group extends pulumi.ComponentResource {
  constructor(name: string) {
    super("engine-room:test:Group", name, {});
    this.registerOutputs({});
  }
}

/** @returns The stack's outputs: the token of every thing. */
export async function program(): Promise<Record<string, unknown>> {
  const configs = new pulumi.Config().requireObject<ThingConfig[]>("things");
  const things = new Map<string, Thing>();
  const groups = new Map<string, Group>();
  for (const { name, value, kind = "plain", slot = "none", from, group } of configs) {
    const source = from === undefined ? undefined : things.get(from);
    const parent = group === undefined ? undefined : (groups.get(group) ?? new Group(group));
    if (group !== undefined && parent !== undefined) groups.set(group, parent);
    const args = { value, kind, slot, ...(source === undefined ? {} : { from: source.token }) };
    const options = { deleteBeforeReplace: slot !== "none", ...(parent === undefined ? {} : { parent }) };
    things.set(name, new Thing(name, args, options));
  }
  return Object.fromEntries([...things].map(([name, thing]) => [name, thing.token]));
}
