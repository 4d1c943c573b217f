/** Compares two files of a stack: secrets by their path, and every changed key. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { stackKinds } from "../../infra/config/config.ts";
import { schemasOfKey } from "../../infra/config/schema-problems.ts";
import {
  CONFIG_NAMESPACE,
  formatPath,
  isSecure,
  pathParts,
  SECRET_PATHS,
  shownValue,
  valueAt,
  withoutCredentials,
} from "../../infra/problems.ts";
import { type LeafDifference, leafDifferences, type PropertyKeys, propertyPath } from "../program/changes.ts";
import type { StackReference } from "../program/stack-file.ts";
import { parsedJson } from "./resource-names.ts";
import type { SecretChange, SettingChange } from "./types.ts";

/** Values by key: those of the project without its namespace, those of others with theirs, and Pulumi's own beside `config`. */
type Values = Readonly<Record<string, unknown>>;

/** By path, such as `hub.token`: the ciphertext, or the plain text of a value that the schema marks as secret. */
export type StackSecrets = ReadonlyMap<string, string>;

export interface StackSettings {
  readonly values: Values;
  readonly secrets: StackSecrets;
}

export const NO_SETTINGS: StackSettings = { values: {}, secrets: new Map() };

/** Returns no settings for an unreadable file, whose error the renderer reports. */
export function stackSettings({ configFile }: Pick<StackReference, "configFile">): StackSettings {
  let file: Values & { readonly config?: Values | null };
  try {
    file = (parse(readFileSync(configFile, "utf8")) as typeof file | null) ?? {};
  } catch {
    return NO_SETTINGS;
  }
  const { config, ...others } = file;
  // Keys of other namespaces keep theirs.
  const own = Object.fromEntries(
    Object.entries(config ?? {}).map(([key, value]) => [
      key.replace(`${CONFIG_NAMESPACE}:`, ""),
      // `pulumi config set` may have written an object or a list as a text of JSON.
      parsedJson(value) ?? value,
    ]),
  );
  const plain = SECRET_PATHS.flatMap((path): [string, string][] => {
    const value = valueAt(own, pathParts(path));
    return typeof value === "string" ? [[path, value]] : [];
  });
  return { values: { ...others, ...own }, secrets: new Map([...encrypted(own), ...plain]) };
}

function encrypted(value: unknown, path: readonly (string | number)[] = []): [string, string][] {
  if (isSecure(value)) return [[formatPath(path), value.secure]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    encrypted(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** Paths at which two stack files have other secrets; encrypting the same value again creates another. */
export function changedSecrets(before: StackSecrets, after: StackSecrets): readonly SecretChange[] {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => before.get(path) !== after.get(path) && !hasName(path))
    .toSorted()
    .map((path) => ({
      path,
      kind: !before.has(path) ? "add" : after.has(path) ? "update" : "delete",
    }));
}

/** An API key is identified by its name, wherever it is and whether its hash is encrypted or not. */
function hasName(path: string): boolean {
  return path.startsWith("gateway.apiKeys");
}

/** Changed keys, sorted by path, without those of {@link changedSecrets}. */
export function changedSettings(before: StackSettings, after: StackSettings): readonly SettingChange[] {
  return leafDifferences(before.values, after.values, elementNames)
    .flatMap(byElement)
    .filter(({ keys }) => {
      const path = formatPath(indices(keys.at(-1) === "secure" ? keys.slice(0, -1) : keys));
      return hasName(path) || (!before.secrets.has(path) && !after.secrets.has(path));
    })
    .map(({ keys, kind, before: was, after: is }): SettingChange => {
      const [left, right] = [shown(keys, was), shown(keys, is)];
      return {
        path: withoutCredentials(propertyPath(keys).replaceAll('"', "")),
        kind,
        ...(kind === "add" || left === null ? {} : { before: left }),
        ...(kind === "delete" || right === null ? {} : { after: right }),
      };
    })
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Reported separately, and lists by their elements, also if their parent is added or removed: each of them guards
 * something.
 */
const SPELLED_OUT = [
  "policies.hourlyUsdCap",
  "policies.levels",
  "engineStore.backups",
  "databaseStorage.backupDays",
  "gateway.exposure",
  "access.endpoint",
  "retain",
  "gateway.apiKeys",
  "gateway.allowedCidrs",
  "access.admins",
  "access.viewers",
  "access.apiCidrs",
  "access.privateCidrs",
  "network.peeredCidrs",
];

function byElement(difference: LeafDifference): readonly LeafDifference[] {
  const { keys, before, after } = difference;
  const path = formatPath(indices(keys));
  const value = before ?? after;
  const isSpelledOut = SPELLED_OUT.some((one) => one === path || one.startsWith(`${path}.`));
  if (!isSpelledOut || difference.kind === "update" || typeof value !== "object" || value === null)
    return [difference];
  const none = Array.isArray(value) ? [] : {};
  return leafDifferences(before ?? none, after ?? none, elementNames, keys).flatMap(byElement);
}

/** Models, pools and keys by their names, and texts by themselves, at any path. */
function elementNames(_keys: PropertyKeys, list: readonly unknown[]): readonly string[] | undefined {
  const names = list.map((element) =>
    typeof element === "string" ? element : (element as { readonly name?: unknown } | null)?.name,
  );
  const areTexts = names.every((name) => typeof name === "string");
  return areTexts && new Set(names).size === names.length ? names : undefined;
}

function indices(keys: PropertyKeys): readonly (string | number)[] {
  return keys.map((key) => (typeof key === "object" ? key.index : key));
}

/** Keys of providers that are not secret; others, such as `aws:secretKey` and `kubernetes:kubeconfig`, are. */
const SHOWN_OF_PROVIDERS = ["aws:profile", "aws:region", "kubernetes:cluster", "kubernetes:context"];

type Path = readonly (string | number)[];

/** Whether any kind of stack has the key. */
function isKnown(path: Path): boolean {
  return stackKinds.some(({ schema }) => schemasOfKey(schema, path).length > 0);
}

/** A key in no schema, whatever its name, may be a mistyped secret. */
function knownParts(path: Path, value: unknown): unknown {
  if (!isKnown(path)) return "[not shown]";
  if (typeof value !== "object" || value === null || isSecure(value)) return value;
  if (Array.isArray(value)) return value.map((inner, index) => knownParts([...path, index], inner));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, knownParts([...path, key], inner)]),
  );
}

/** Returns null when the value may be a secret, or does not help a reader. */
function shown(keys: PropertyKeys, value: unknown): string | null {
  const path = indices(keys);
  const [first = ""] = path;
  const isOwn = !String(first).includes(":") && !PULUMI_KEYS.includes(String(first));
  if (!isOwn && !SHOWN_OF_PROVIDERS.includes(String(first))) return null;
  if (isOwn && !isKnown(path)) return null;
  const holder = path.reduceRight<unknown>(
    (inner, key) => (typeof key === "number" ? Object.assign([], { [key]: inner }) : { [key]: inner }),
    isOwn ? knownParts(path, value) : value,
  );
  const text = shownValue(path, holder, false);
  return text === "[secret]" ? null : text;
}

/** Keys of a stack file beside `config`: https://www.pulumi.com/docs/iac/concepts/projects/stack-settings-file/ */
export const PULUMI_KEYS: readonly string[] = [
  "secretsprovider",
  "encryptedkey",
  "encryptionsalt",
  "environment",
];

export function accountOf({ values: { account } }: StackSettings): string | null {
  return /^\d{12}$/.test(String(account)) ? String(account) : null;
}
