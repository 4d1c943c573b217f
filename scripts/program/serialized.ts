/** Pulumi's serialization of resources: URNs, as `sdk/go/common/resource/urn` has them, secrets and unknown values. */
import { canonicalJson } from "../../infra/plan/plain-data.ts";

export type Properties = Record<string, unknown>;

/** The SDK's marks in serialized properties: `runtime/rpc.ts` of @pulumi/pulumi. */
export const UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
export const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
export const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";

/** Text in rendered properties if a value is secret, or known only after `up`. */
export const SECRET_PLACEHOLDER = "[secret]";
export const UNKNOWN_PLACEHOLDER = "[unknown]";

const MARK_DIGITS = 12;

/** A mark that differs between secrets. @param digest - Hex. */
export function secretMark(digest: string): string {
  return `[secret:${digest.slice(0, MARK_DIGITS)}]`;
}

const SECRET_MARK = new RegExp(`^\\[secret(:[0-9a-f]{${MARK_DIGITS}})?\\]$`);

/** Whether a rendered value is a placeholder of a secret, with a mark or without. */
export function isMaskedSecret(value: unknown): boolean {
  return typeof value === "string" && SECRET_MARK.test(value);
}

/** Rendered properties whose secrets look the same. */
export function withoutMarks(value: unknown): unknown {
  if (isMaskedSecret(value)) return SECRET_PLACEHOLDER;
  if (Array.isArray(value)) return value.map(withoutMarks);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutMarks(inner)]));
  return value;
}

/** Shorter texts are not secrets, and would cut words of every sentence. */
const SHORTEST_REDACTED = 4;

/** A text of a program, such as the message of a failure, without the secrets. */
export function redacted(text: string, secrets: Iterable<string>): string {
  return [...secrets]
    .filter((secret) => secret.length >= SHORTEST_REDACTED)
    .toSorted((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, SECRET_PLACEHOLDER), text);
}

interface UrnParts {
  readonly stack: string;
  readonly project: string;
  /** Types of all parents below the stack, then its own, with `$` between them. */
  readonly qualifiedType: string;
  readonly type: string;
  /** May have `::` itself. */
  readonly name: string;
}

/** Missing parts are empty. */
export function urnParts(urn: string): UrnParts {
  const [head = "", project = "", qualifiedType = "", ...name] = urn.split("::");
  return {
    stack: head.replace(/^urn:pulumi:/, ""),
    project,
    qualifiedType,
    type: qualifiedType.split("$").at(-1) ?? "",
    name: name.join("::"),
  };
}

/** A URN as the engine writes it. @param parts - `parent`: a URN; empty for the stack itself. */
export function makeUrn({
  stack,
  project,
  parent,
  type,
  name,
}: Omit<UrnParts, "qualifiedType"> & { readonly parent: string }): string {
  const { qualifiedType: above } = urnParts(parent);
  const qualifiedType = above === "" || above === "pulumi:pulumi:Stack" ? type : `${above}$${type}`;
  return `urn:pulumi:${stack}::${project}::${qualifiedType}::${name}`;
}

/** JSON with sorted keys, two spaces, and a final newline. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(JSON.parse(canonicalJson(value)), null, 2)}\n`;
}
