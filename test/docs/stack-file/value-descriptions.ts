/** Allowed values of a key of the stack file, in a few words of Markdown. */
import { stringify } from "yaml";
import { z } from "zod";
import { keyHash, secret } from "../../../infra/config/common.ts";

/** By the end of a key's name; the longest end counts. */
const UNITS: Readonly<Record<string, string>> = {
  GiB: "GiB",
  MiB: "MiB",
  GB: "GB",
  MBPerSecond: "MB/s",
  MiBPerSecond: "MiB/s",
  Mbps: "Mbit/s",
  Seconds: "seconds",
  Microseconds: "microseconds",
  Tokens: "tokens",
  Days: "days",
  Hours: "hours",
  Usd: "US dollars",
  UsdCap: "US dollars",
  PerMinute: "a minute",
};

/** Unit by a key's name; empty for a count, and without a unit. @param path - `pools[].diskGiB` */
export function unitOf(path: string): string {
  const [longest] = Object.keys(UNITS)
    .filter((suffix) => path.endsWith(suffix))
    .sort((a, b) => b.length - a.length);
  return longest === undefined ? "" : (UNITS[longest] ?? "");
}

/** Value that has keys. */
export const MAPPING = "mapping";

/** Parts of JSON Schema that are read. */
interface Node {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly maxItems?: number;
  readonly items?: Node;
  readonly properties?: object;
  readonly additionalProperties?: Node | boolean;
  readonly propertyNames?: Node;
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
}

export function valueWords(schema: z.core.$ZodType): string {
  const inner = unwrapped(schema);
  if (inner === secret) return "a secret text";
  const { def } = (inner as z.core.$ZodTypes)._zod;
  if (inner === keyHash) return textWords(keyHash.options[0]);
  if (def.type === "string") return textWords(inner);
  const words = nodeWords(z.toJSONSchema(schema as z.ZodType, { io: "input" }) as Node);
  return def.type === "array" ? words.replace(/text$/, () => textWords(unwrapped(def.element))) : words;
}

function textWords(schema: z.core.$ZodType): string {
  const example = exampleOf(schema);
  if (example === null) return "text";
  return example.includes("`") ? `text: ${example}` : `text like \`${example}\``;
}

/** Default; empty when there is no default, or only the keys below it have defaults. */
export function defaultWords(schema: z.core.$ZodType): string {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === "optional") return defaultWords(def.innerType);
  if (def.type !== "default" && def.type !== "prefault") return "";
  const { defaultValue } = def;
  return def.type === "prefault" && JSON.stringify(defaultValue) === "{}" ? "" : literalWords([defaultValue]);
}

/** Values in YAML: a text that YAML would read as a number is in quotes. */
export function literalWords(values: readonly unknown[]): string {
  return values
    .map((value) => stringify(value, { collectionStyle: "flow", flowCollectionPadding: false }).trim())
    .map((text) => `\`${text}\``)
    .join(", ");
}

function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return "innerType" in def ? unwrapped(def.innerType) : schema;
}

/** Example of a text's form, from the error of a text of another form. */
function exampleOf(schema: z.core.$ZodType): string | null {
  const { error } = z.safeParse(schema, "\0");
  const [issue] = error?.issues ?? [];
  if (issue?.code !== "invalid_format" && issue?.code !== "custom") return null;
  return /^Write it like (.*)\.$/m.exec(issue.message)?.[1] ?? null;
}

function nodeWords(node: Node): string {
  const forms = node.anyOf ?? node.oneOf;
  if (forms !== undefined) return [...new Set(forms.map(nodeWords))].join(", or ");
  if (node.const !== undefined) return literalWords([node.const]);
  if (node.enum !== undefined) return literalWords(node.enum);
  switch (node.type) {
    case "array":
      return `list${node.maxItems === undefined ? "" : ` of at most ${node.maxItems}`}: ${nodeWords(node.items ?? {})}`;
    case "object":
      return mappingWords(node);
    case "boolean":
      return literalWords([true, false]);
    case "integer":
      return rangeWords(node, "whole number");
    case "number":
      return rangeWords(node, "number");
    case "null":
      return literalWords([null]);
    case undefined:
      return Object.keys(node).length === 0 ? "any values" : "text";
    default:
      return "text";
  }
}

function mappingWords({ properties, additionalProperties, propertyNames }: Node): string {
  if (properties !== undefined || typeof additionalProperties !== "object") return MAPPING;
  const names = propertyNames?.enum === undefined ? "names" : literalWords(propertyNames.enum);
  return `mapping of ${names} to ${nodeWords(additionalProperties)}`;
}

function rangeWords(node: Node, kind: string): string {
  const { exclusiveMinimum, exclusiveMaximum } = node;
  const [least, most] = [bound(node.minimum), bound(node.maximum)];
  if (exclusiveMinimum !== undefined)
    return exclusiveMaximum === undefined
      ? `${kind} above ${exclusiveMinimum}`
      : `${kind} between ${exclusiveMinimum} and ${exclusiveMaximum}`;
  if (least === null) return kind;
  if (most === null) return `${kind} from ${least} on`;
  return `${kind === "number" ? "number, " : ""}${least} to ${most}`;
}

/** Limit of a number; null when it is only JavaScript's largest integer. */
function bound(value: number | undefined): number | null {
  return value === undefined || Math.abs(value) === Number.MAX_SAFE_INTEGER ? null : value;
}
