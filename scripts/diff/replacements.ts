/** Effects of a changed property on a resource: the lists of `replacements/`, each with its source. */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { parse } from "yaml";
import type { PropertyKeys } from "../program/changes.ts";

/** `may-replace`: the lists do not have the property, and the provider may replace the resource. */
export type Effect = "update" | "may-replace" | "replace";

type Inputs = Readonly<Record<string, unknown>>;

/** Paths of names, each of which stands for all below it: `["spec", "ports"]` has the port of every element. */
type Paths = readonly (readonly string[])[];

interface ReplacementRow {
  readonly replaces: Paths;
  readonly updates: Paths;
}

const PROVIDERS = ["aws", "docker", "kubernetes", "local"] as const;

/** By type: paths between spaces. `every`: those of all types of the provider, except Helm's and providers. */
type ReplacementFile = Readonly<Record<string, Partial<Record<keyof ReplacementRow, string>>>>;

let known: ReadonlyMap<string, ReplacementRow> | undefined;

/** By type, from the files. */
export function replacementRows(): ReadonlyMap<string, ReplacementRow> {
  known ??= new Map(PROVIDERS.flatMap((provider) => rowsOf(provider)));
  return known;
}

function rowsOf(provider: string): readonly (readonly [string, ReplacementRow])[] {
  const text = readFileSync(new URL(`replacements/${provider}.yaml`, import.meta.url), "utf8");
  const { every = {}, ...types } = parse(text) as ReplacementFile;
  return Object.entries(types).map(([type, own]) => {
    const common = type.startsWith(`${provider}:`) && type !== "kubernetes:helm.sh/v3:Release" ? every : {};
    const paths = (list: keyof ReplacementRow): Paths =>
      [own[list], common[list]].flatMap((words) => words?.split(/\s+/) ?? []).map((path) => path.split("."));
    return [type, { replaces: paths("replaces"), updates: paths("updates") }];
  });
}

const SEVERITY: Readonly<Record<Effect, number>> = { update: 0, "may-replace": 1, replace: 2 };

export function worstEffect(effects: readonly Effect[]): Effect {
  return effects.reduce((worst, effect) => (SEVERITY[effect] > SEVERITY[worst] ? effect : worst), "update");
}

/** @param value - Value before or after: if a whole part is added or removed, the worst of its leaves counts. */
export function propertyEffect(type: string, keys: PropertyKeys, value: unknown): Effect {
  const row = replacementRows().get(type);
  if (row === undefined) return "may-replace";
  const names = keys.filter((key) => typeof key === "string");
  return worstEffect(
    leafPaths(names, value).map((path) => {
      const isIn = (paths: Paths) =>
        paths.some((listed) => listed.every((name, index) => path[index] === name));
      return isIn(row.replaces) ? "replace" : isIn(row.updates) ? "update" : "may-replace";
    }),
  );
}

/** Names only: elements of a list count alike. */
function leafPaths(path: readonly string[], value: unknown): Paths {
  if (typeof value !== "object" || value === null || Object.keys(value).length === 0) return [path];
  if (Array.isArray(value)) return value.flatMap((inner) => leafPaths(path, inner));
  return Object.entries(value).flatMap(([key, inner]) => leafPaths([...path, key], inner));
}

/** Two of these can't exist at once, whatever their names: a zone has one mount target of a file system. */
const DELETED_FIRST = [
  "aws:ecr/lifecyclePolicy:LifecyclePolicy",
  "aws:efs/mountTarget:MountTarget",
  "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
  "docker:index/container:Container",
  "local:index:ModelRepository",
  "local:index:Process",
  "local:index:PythonEnvironment",
];

/** `name` of a record is a host's, which Pulumi does not fill in. */
const DELETED_LAST = ["aws:route53/record:Record", "kubernetes:helm.sh/v3:Release"];

/** Filled in by Pulumi, with a random suffix, if the program does not: `provider/autonaming.go` of pulumi-aws. */
const AWS_NAMES = ["name", "nodeGroupName", "creationToken"];

/** Whether the old resource is deleted before the new resource exists, unless the program's options set it. */
export function deletesFirst(type: string, before: Inputs, after: Inputs): boolean {
  if (DELETED_FIRST.includes(type)) return true;
  if (DELETED_LAST.includes(type)) return false;
  // `nameRequiresDeleteBeforeReplace` of pulumi-terraform-bridge, without the names that it would compare on AWS.
  if (type.startsWith("aws:")) return AWS_NAMES.some((name) => after[name] !== undefined);
  if (type.startsWith("docker:")) return after.name !== undefined && before.name === after.name;
  // `Diff` of pulumi-kubernetes' `provider/pkg/provider/provider.go`.
  const [was, is] = [before, after].map(({ metadata }) => {
    const { name, namespace } = (metadata ?? {}) as Inputs;
    return { name, namespace };
  });
  return type.startsWith("kubernetes:") && is?.name !== undefined && isDeepStrictEqual(was, is);
}
