/** Checks of inputs, property by property, so that a preview's unknown values do not hide the other mistakes. */
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { type CheckResult, type DiffResult, type PropertyMap, UNKNOWN_VALUE } from "./contract.ts";

const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._@+-]+$/;

/** Relative to the project's root, `/` between plain names: nothing that leaves the root, a quote or a blank. */
export const projectPath = z
  .string()
  .max(200)
  .refine((path) => path.split("/").every((segment) => SEGMENT.test(segment)), {
    error: (issue) =>
      `${JSON.stringify(issue.input)} must be a path below the project's root, made of letters, digits and . _ @ + - between slashes`,
  });

/** Folder that this provider may create and delete: below a stack's own folder, never the stack's folder itself. */
export const stackContentPath = projectPath.refine((path) => /^\.stacks\/[^/]+\/./.test(path), {
  error: (issue) => `${JSON.stringify(issue.input)} must lie in a stack's folder, as in .stacks/local/python`,
});

// 60 characters leave room for the socket's name within the 108 bytes of a Unix socket's path.
export const stackPath = z.string().regex(/^\.stacks\/(?!\.{1,2}$)[A-Za-z0-9._-]{1,60}$/, {
  error: (issue) =>
    `${JSON.stringify(issue.input)} must be .stacks/ and a stack's name of letters, digits and . _ -`,
});

export const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256: 64 lower-case hex digits");

/** True where the value, or anything in it, is known only after `up`. */
export function hasUnknown(value: unknown): boolean {
  if (value === UNKNOWN_VALUE) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Checks each property against its schema, skips what is not known yet and fills in defaults. */
export function checkProperties(
  shape: Readonly<Record<string, z.ZodType>>,
  inputs: PropertyMap,
): CheckResult {
  const checked: Record<string, unknown> = {};
  const failures = Object.keys(inputs)
    .filter((key) => !(key in shape) && inputs[key] !== undefined)
    .map((key) => ({
      property: key,
      reason: `There is no such input; known are ${Object.keys(shape).join(", ")}.`,
    }));
  for (const [key, schema] of Object.entries(shape)) {
    const value = inputs[key];
    const result = hasUnknown(value) ? { success: true as const, data: value } : schema.safeParse(value);
    if (result.success) {
      if (result.data !== undefined) checked[key] = result.data;
      continue;
    }
    checked[key] = value;
    for (const { path, message } of result.error.issues.flatMap(explain))
      failures.push({ property: propertyPath([key, ...path]), reason: sentence(message) });
  }
  return { inputs: checked, failures };
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Says what is wrong with a key, or with the alternative that comes nearest, instead of that something is. */
function explain(issue: z.core.$ZodIssue): Problem[] {
  if (issue.code === "invalid_key") return issue.issues.map(({ message }) => ({ path: issue.path, message }));
  const nearest =
    issue.code === "invalid_union" ? issue.errors.toSorted((a, b) => a.length - b.length)[0] : undefined;
  if (nearest === undefined) return [issue];
  return nearest.flatMap(explain).map(({ path, message }) => ({ path: [...issue.path, ...path], message }));
}

/** As in `ready.url` and `files["a b.json"]`. */
export function propertyPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    const part = String(key);
    if (text === "") return part;
    return /^[A-Za-z_]\w*$/.test(part)
      ? `${text}.${part}`
      : `${text}[${typeof key === "number" ? part : JSON.stringify(part)}]`;
  }, "");
}

/** Compares the properties that are inputs; an unknown new value counts as a change. */
export function diffProperties(
  inputNames: readonly string[],
  olds: PropertyMap,
  news: PropertyMap,
  options: { readonly replaceOn: readonly string[]; readonly deleteBeforeReplace: boolean },
): DiffResult {
  const changedProperties = inputNames
    .filter((name) => hasUnknown(news[name]) || !isDeepStrictEqual(olds[name], news[name]))
    .toSorted();
  return {
    changes: changedProperties.length > 0,
    changedProperties,
    replaces: changedProperties.filter((name) => options.replaceOn.includes(name)),
    deleteBeforeReplace: options.deleteBeforeReplace,
  };
}

/** Just the inputs out of a state, which holds inputs and outputs together. */
export function pickInputs(shape: Readonly<Record<string, z.ZodType>>, state: PropertyMap): PropertyMap {
  return Object.fromEntries(
    Object.keys(shape).flatMap((k) => (state[k] === undefined ? [] : [[k, state[k]]])),
  );
}

function sentence(text: string): string {
  return text.endsWith(".") ? text : `${text}.`;
}
