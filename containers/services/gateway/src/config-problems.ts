/** What can be wrong with a configuration beyond single fields, and how all of it is said to people. */
import type { z } from "zod";
import { SHORT_FORM_KEYS } from "./profile-config.ts";

export const DEFAULT_MAX_TOKENS = 1024;
export const DEFAULT_CONTEXT_TOKENS = 2048;
export const DEFAULT_TOP_K = 5;
export const DEFAULT_MAX_TOP_K = 100;

type Path = readonly PropertyKey[];
type Fields = Readonly<Record<PropertyKey, unknown>>;

/** A problem between several fields. */
interface CrossFieldIssue {
  readonly path: Path;
  /** Reason and fix. */
  readonly message: string;
}

/** Checks over several fields, of raw or of parsed values: what has a wrong type is passed over here. */
export function crossFieldIssues(values: unknown): CrossFieldIssue[] {
  const { encoders, models, apiKeys, databases, retrieval } = fieldsOf(values);
  const encoderId = fieldsOf(encoders).modelName;
  if (encoders === undefined && listOf(models).length === 0) {
    return [
      { path: ["models"], message: "is empty and there are no encoders: add a language model or `encoders`" },
    ];
  }
  return [
    ...modelIssues(listOf(models), encoderId),
    ...keyIssues(listOf(apiKeys)),
    ...databaseIssues(fieldsOf(fieldsOf(databases).mongo), databases !== undefined, encoders !== undefined),
    ...retrievalIssues(fieldsOf(retrieval), listOf(models)),
  ];
}

function databaseIssues(mongo: Fields, isGiven: boolean, hasEncoders: boolean): CrossFieldIssue[] {
  const issues: CrossFieldIssue[] = [];
  if (isGiven && !hasEncoders) {
    issues.push({
      path: ["encoders"],
      message: "is required beside `databases`, because documents are found by their vectors: add it",
    });
  }
  if (mongo.uri !== undefined && mongo.uriFile !== undefined) {
    issues.push({
      path: ["databases", "mongo", "uriFile"],
      message: "and uri are both given: keep one of them",
    });
  }
  return issues;
}

function retrievalIssues(
  { answerModel, topK = DEFAULT_TOP_K, maxTopK = DEFAULT_MAX_TOP_K }: Fields,
  models: readonly Fields[],
): CrossFieldIssue[] {
  const issues: CrossFieldIssue[] = [];
  if (answerModel !== undefined && !models.some(({ name }) => name === answerModel)) {
    issues.push({
      path: ["retrieval", "answerModel"],
      message: `is no model of this configuration; use one of ${models.map(({ name }) => String(name)).join(", ") || "its models, of which there is none"}`,
    });
  }
  if (typeof topK === "number" && typeof maxTopK === "number" && topK > maxTopK) {
    issues.push({
      path: ["retrieval", "topK"],
      message: `is above maxTopK, which is ${maxTopK}: use ${maxTopK} or less`,
    });
  }
  return issues;
}

function modelIssues(models: readonly Fields[], encoderId: unknown): CrossFieldIssue[] {
  return models.flatMap(
    (
      { name, profile, maxTokens = DEFAULT_MAX_TOKENS, contextTokens = DEFAULT_CONTEXT_TOKENS, ...rest },
      index,
    ) => {
      const issues: CrossFieldIssue[] = SHORT_FORM_KEYS.filter(
        (key) => profile !== undefined && rest[key] !== undefined,
      ).map((key) => ({
        path: ["models", index, key],
        message: "is said by the model's profile too: remove it, and write it there if it differs",
      }));
      const earlier = [encoderId, ...models.slice(0, index).map((model) => model.name)];
      if (name !== undefined && earlier.includes(name)) {
        issues.push({
          path: ["models", index, "name"],
          message: "is taken by another model: give each model an id of its own",
        });
      }
      if (typeof maxTokens === "number" && typeof contextTokens === "number" && maxTokens >= contextTokens) {
        issues.push({
          path: ["models", index, "maxTokens"],
          message: `leaves no room for a prompt in a context of ${contextTokens} tokens: use ${contextTokens - 1} or less`,
        });
      }
      return issues;
    },
  );
}

function keyIssues(keys: readonly Fields[]): CrossFieldIssue[] {
  return keys.flatMap(({ name, sha256 }, index) => {
    const issues: CrossFieldIssue[] = [];
    const earlier = keys.slice(0, index);
    if (name !== undefined && earlier.some((key) => key.name === name)) {
      issues.push({
        path: ["apiKeys", index, "name"],
        message: "is taken by another key: rename one of them",
      });
    }
    const hash = String(sha256).toLowerCase();
    if (sha256 !== undefined && earlier.some((key) => String(key.sha256).toLowerCase() === hash)) {
      issues.push({
        path: ["apiKeys", index, "sha256"],
        message: "is the same key again: remove one of them",
      });
    }
    return issues;
  });
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

/** One line for people. */
export function describeCrossFieldIssue({ path, message }: CrossFieldIssue, values: unknown): string {
  return `${formatPath(path)} = ${showValue(path, at(values, path))}: ${message}`;
}

/** A line for people for each thing that a schema found. */
export function describeIssue(issue: z.core.$ZodIssue, values: unknown): string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map(
      (key) => `${formatPath([...issue.path, key])}: there is no such key; remove it or correct its name`,
    );
  }
  const value = at(values, issue.path);
  return [`${formatPath(issue.path)} = ${showValue(issue.path, value)}: ${reason(issue, value)}`];
}

function reason(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === "custom" || issue.code === "invalid_format") return issue.message;
  if (value === undefined) return "is required; add it";
  switch (issue.code) {
    case "invalid_value":
      return `is not known here; use one of ${issue.values.join(", ")}`;
    case "too_small":
      return `is too small; use ${issue.inclusive === false ? "more than " : ""}${issue.minimum}${unit(issue.origin)}${issue.inclusive === false ? "" : " or more"}`;
    case "too_big":
      return `is too large; use ${issue.maximum}${unit(issue.origin)} or less`;
    case "invalid_type":
      return `is a ${kindOf(value)}; write ${KIND_NAMES[issue.expected] ?? `a ${issue.expected}`}`;
    default:
      return `${issue.message}; correct it`;
  }
}

const KIND_NAMES: Readonly<Record<string, string>> = {
  array: "a list",
  object: "an object",
  int: "a whole number",
};

function unit(origin: string): string {
  if (origin === "string") return " characters";
  return origin === "array" ? " entries" : "";
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "list" : typeof value;
}

function at(values: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, key) => fieldsOf(inner)[key], values);
}

const LONGEST_SHOWN_VALUE = 80;

/** Where a secret may stand by mistake: a key instead of its hash, an address with its password. */
const HIDDEN: readonly unknown[] = ["sha256", "uri", "mongo", "databases"];

/** A value as JSON, cut. A secret must not reach a log. */
function showValue(path: Path, value: unknown): string {
  if (HIDDEN.includes(path.at(-1)) && value !== undefined) return "[hidden]";
  const text = JSON.stringify(value) ?? "(absent)";
  return text.length > LONGEST_SHOWN_VALUE ? `${text.slice(0, LONGEST_SHOWN_VALUE)}…` : text;
}

/** `["models", 0, "name"]` as `models[0].name`; the whole file as `(file)`. */
function formatPath(path: Path): string {
  const text = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  return text.replace(/^\./, "") || "(file)";
}
