/** Options that change no input of a resource: its protection, and the version of its provider. */
import type { RenderedResource } from "../render.ts";
import { earlierUrns, resourceLabel } from "./resource-names.ts";
import type { ProtectionChange, ProviderChange } from "./types.ts";

type Resources = readonly RenderedResource[];

const PROTECTIONS = ["protect", "retainOnDelete"] as const;

/** Compares resources that both graphs have. The engine does not count these options as a change. */
export function protectionChanges(before: Resources, after: Resources): readonly ProtectionChange[] {
  const earlier = new Map(before.map((resource) => [resource.urn, resource]));
  const pairs = earlierUrns(before, after);
  return after
    .flatMap((resource) => {
      const former = earlier.get(pairs.get(resource.urn) ?? "");
      if (former === undefined || !resource.custom) return [];
      return PROTECTIONS.filter(
        (option) => Boolean(former.options[option]) !== Boolean(resource.options[option]),
      ).map((option) => ({
        label: resourceLabel(resource),
        option,
        after: Boolean(resource.options[option]),
      }));
    })
    .toSorted((a, b) => (a.label + a.option < b.label + b.option ? -1 : 1));
}

/** Providers by which both graphs have resources. */
export function providerChanges(before: Resources, after: Resources): readonly ProviderChange[] {
  const [was, is] = [versions(before), versions(after)];
  return [...is].toSorted().flatMap(([provider, version]) => {
    const former = was.get(provider);
    return former === undefined || former === version
      ? []
      : [{ provider, before: former, after: version, resources: typesOf(provider, after) }];
  });
}

/** The SDK creates no resource itself. */
export function sdkChange(before: string | undefined, after: string | undefined): readonly ProviderChange[] {
  return before === undefined || after === undefined || before === after
    ? []
    : [{ provider: "@pulumi/pulumi", before, after, resources: [] }];
}

/** By the name of the provider: `aws`. */
function versions(resources: Resources): ReadonlyMap<string, string> {
  return new Map(
    resources.flatMap(({ type, options: { version } }): [string, string][] =>
      version === undefined ? [] : [[providerOf(type), version]],
    ),
  );
}

/** `aws` of `aws:eks/cluster:Cluster` and of `pulumi:providers:aws`. */
function providerOf(type: string): string {
  return type.replace(/^pulumi:providers:/, "").split(":")[0] ?? "";
}

function typesOf(provider: string, resources: Resources): ProviderChange["resources"] {
  const counts = new Map<string, number>();
  for (const { type } of resources.filter((resource) => providerOf(resource.type) === provider))
    counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts]
    .map(([type, count]) => ({ type, count }))
    .toSorted((a, b) => b.count - a.count || (a.type < b.type ? -1 : 1));
}
