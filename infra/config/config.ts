/**
 * The stack file, parsed once into a frozen, complete StackConfig. Defaults are written in the schemas beside this file, each
 * beside its unit; rules over several keys are in plan/checks.
 */
import { z } from "zod";
import {
  CONFIG_NAMESPACE,
  ConfigError,
  nearestName,
  type Problem,
  shownValue,
  valueAt,
} from "../problems.ts";
import { ec2Stack, eksStack } from "./aws-stacks.ts";
import { dockerCpuStack, dockerStack, localStack } from "./host-stacks.ts";
import { kubernetesCpuStack, kubernetesStack } from "./kubernetes-stacks.ts";
import { schemaMessage, schemaProblems, schemasOfKey } from "./schema-problems.ts";

/**
 * Kinds of stacks by the keys that select them, with their schemas. The first row of a platform is its default.
 */
export const stackKinds = [
  { kind: { platform: "local", tier: "cpu" }, schema: localStack },
  { kind: { platform: "docker", tier: "gpu" }, schema: dockerStack },
  { kind: { platform: "docker", tier: "cpu" }, schema: dockerCpuStack },
  { kind: { platform: "kubernetes", tier: "gpu" }, schema: kubernetesStack },
  { kind: { platform: "kubernetes", tier: "cpu" }, schema: kubernetesCpuStack },
  { kind: { platform: "aws", tier: "gpu", compute: "eks" }, schema: eksStack },
  { kind: { platform: "aws", tier: "gpu", compute: "ec2" }, schema: ec2Stack },
] as const satisfies readonly StackKind[];

/** Keys that choose the kind, from the first to the last. */
export const KIND_KEYS = ["platform", "tier", "compute"] as const;
type KindKey = (typeof KIND_KEYS)[number];

type Kind = Readonly<Partial<Record<KindKey, string>>>;

interface StackKind {
  readonly kind: Kind;
  readonly schema: z.ZodType;
}

const kindsOfStacks: readonly StackKind[] = stackKinds;

/** Name of a platform, by which each layer finds its part of it: on AWS what computes. */
export type PlatformName = NameOf<(typeof stackKinds)[number]["kind"]>;
type NameOf<Kind> = Kind extends { compute: infer Name }
  ? Name
  : Kind extends { platform: infer Name }
    ? Name
    : never;

type StackSchema = (typeof stackKinds)[number]["schema"];

export type StackConfig = Readonly<z.infer<StackSchema>>;
/** A stack file as it is written: keys without their namespace, and those with a default may be absent. */
export type StackFile = z.input<StackSchema>;
export type GpuStackConfig = Extract<StackConfig, { tier: "gpu" }>;
export type CpuStackConfig = Extract<StackConfig, { tier: "cpu" }>;

type Values = Readonly<Record<string, unknown>>;

type ReadStack =
  | { readonly config: StackConfig; readonly problems: readonly [] }
  | { readonly config: null; readonly problems: readonly Problem[] };

/**
 * Parses the `config:` of a stack.
 *
 * @param values - Keys without their namespace; objects and arrays as such, not as JSON text.
 * @throws ConfigError with every problem of the schema at once: path, value, reason, fix.
 */
export function parseConfig(values: Values): StackConfig {
  const { config, problems } = readStack(values);
  if (config === null) throw new ConfigError(problems);
  return config;
}

/** The same, without throwing. */
export function readStack(values: Values): ReadStack {
  const { schema, kind, problems } = likelyKind(values);
  const written = { ...values, ...kind };
  const parsed = (schema as z.ZodType<StackConfig>).safeParse(written, { error: schemaMessage });
  if (parsed.success && problems.length === 0) return { config: deepFreeze(parsed.data), problems: [] };
  const ofSchema = schemaProblems(parsed.error?.issues ?? [], written, (path) =>
    keyElsewhere(path, valueAt(written, path), kind),
  );
  return { config: null, problems: [...problems, ...ofSchema] };
}

/**
 * A key that only other kinds of stacks have, with what to do: the kind in the fix takes the value, unless none does.
 * Undefined: none has the key. @param own - The kind of this stack.
 */
function keyElsewhere(path: readonly PropertyKey[], value: unknown, own: Kind) {
  const schemas = new Map(kindsOfStacks.map(({ kind, schema }) => [kind, schemasOfKey(schema, path)]));
  const having = [...schemas.keys()].filter((kind) => schemas.get(kind)?.length !== 0);
  const taking = having.filter((kind) =>
    schemas.get(kind)?.some((schema) => z.safeParse(schema, value).success),
  );
  const likely = taking.length === 0 ? having : taking;
  const target = likely.find(({ platform }) => platform === own.platform) ?? likely[0];
  if (target === undefined || having.includes(own)) return undefined;
  const owners = new Set(having.map((kind) => kindName(kind, having)));
  const key = KIND_KEYS.find((one) => target[one] !== own[one]) ?? "platform";
  return {
    reason: `\`${String(path.at(-1))}\` belongs to ${LIST.format(owners)}; this stack is ${kindName(own, [])}.`,
    fix: `Remove it, or write \`engine-room:${key}: ${target[key]}\`.`,
  };
}

const LIST = new Intl.ListFormat("en-GB");

/** `local`, `kubernetes with tier: gpu`; only the platform, if all of its kinds are `among` those that are named. */
function kindName(kind: Kind, among: readonly Kind[]): string {
  const siblings = kindsOfStacks
    .map((other) => other.kind)
    .filter(({ platform }) => platform === kind.platform);
  const key = KIND_KEYS.find((one) => siblings.some((sibling) => sibling[one] !== kind[one]));
  if (key === undefined || siblings.every((sibling) => among.includes(sibling))) return `${kind.platform}`;
  return `${kind.platform} with \`${key}: ${kind[key]}\``;
}

/** The platform of a stack file; of one that names none that exists, the likely platform. */
export function platformName(values: Values): PlatformName {
  const { kind } = likelyKind(values);
  return (kind.compute ?? kind.platform) as PlatformName;
}

/**
 * The kind of stack that a file describes. If it names none that exists, a problem, and the kind that is probably meant, so
 * that its other problems can be reported too.
 */
function likelyKind(values: Values) {
  const problems: Problem[] = [];
  let kinds = kindsOfStacks;
  for (const key of KIND_KEYS) {
    const names = [...new Set(kinds.flatMap(({ kind }) => kind[key] ?? []))];
    const value = values[key];
    if (names.length === 0 || (value === undefined && key !== "platform")) continue;
    const named = names.find((name) => name === value);
    const inLowerCase = names.find((name) => name === String(value).toLowerCase());
    const likely = inLowerCase ?? leastRefused(kinds, key, values).kind[key];
    if (named === undefined) {
      const ofPlatform = key === "platform" ? "" : ` for platform ${kinds[0]?.kind.platform}`;
      problems.push(unknownKind(key, value, ofPlatform, likely, names));
    }
    kinds = kinds.filter(({ kind }) => kind[key] === likely);
  }
  const [{ kind, schema }] = kinds as readonly [StackKind];
  return { schema, kind, problems };
}

/** Kind whose schema refuses the fewest values; among equals, the kind with the name most similar to the key's. */
function leastRefused(kinds: readonly StackKind[], key: KindKey, values: Values): StackKind {
  const nearest = nearestName(
    String(values[key] ?? ""),
    kinds.flatMap(({ kind }) => kind[key] ?? []),
  );
  const ranks = kinds.map((kind) => refusals(kind, values) - (kind.kind[key] === nearest ? 0.5 : 0));
  return kinds[ranks.indexOf(Math.min(...ranks))] as StackKind;
}

/** Number of values that a schema refuses; missing values do not count. */
function refusals({ kind, schema }: StackKind, values: Values): number {
  const { error } = schema.safeParse({ ...values, ...kind }, { reportInput: true });
  const refused = (error?.issues ?? []).filter(({ input }) => input !== undefined);
  return refused.reduce(
    (sum, issue) => sum + (issue.code === "unrecognized_keys" ? issue.keys.length : 1),
    0,
  );
}

function unknownKind(
  key: KindKey,
  value: unknown,
  ofPlatform: string,
  likely: string | undefined,
  names: readonly string[],
): Problem {
  return {
    path: key,
    value: shownValue([key], { [key]: value }),
    reason: value === undefined ? "It is required." : `Unknown ${key}${ofPlatform}.`,
    fix: `Set \`engine-room:${key}: ${likely}\`; valid values${ofPlatform} are ${names.join(", ")}.`,
  };
}

/**
 * Configuration of the Pulumi runtime as `parseConfig` takes it: only keys of {@link CONFIG_NAMESPACE}, without it, structured values
 * parsed. The runtime makes texts of all that is neither list nor mapping, `true` and `false` too.
 */
export function fromRuntimeConfig(all: Readonly<Record<string, string>>): Record<string, unknown> {
  const prefix = `${CONFIG_NAMESPACE}:`;
  return Object.fromEntries(
    Object.entries(all)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, text]) => [
        key.slice(prefix.length),
        /^(\s*[[{]|(true|false)$)/.test(text) ? parseJson(key, text) : text,
      ]),
  );
}

/** No part of the text is shown: it may hold a credential in plain text. */
function parseJson(key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /at position \d+/.exec((error as Error).message)?.[0];
    throw new ConfigError([
      {
        path: key,
        value: `${text.length} characters`,
        reason: `Invalid JSON${position === undefined ? "" : ` ${position}`}.`,
        fix: "Set it as YAML in the stack file, or with `pulumi config set --path`.",
      },
    ]);
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
