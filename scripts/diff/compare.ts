/** Compares the working tree with a commit, each by its own code, both at the same time. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { parse } from "yaml";
import { exists } from "../../components/local/provider/files.ts";
import {
  CONFIG_NAMESPACE,
  formatPath,
  isSecure,
  pathParts,
  SECRET_PATHS,
  valueAt,
} from "../../infra/problems.ts";
import { type StackPolicy, stackPolicy } from "../../policy/stack-policy.ts";
import { SECRET_PLACEHOLDER } from "../program/serialized.ts";
import { projectRoot, readStackFile, requireStackFile, type StackReference } from "../program/stack-file.ts";
import { commitOf, withBaseTree } from "./base-tree.ts";
import { type GraphChanges, graphChanges } from "./graph-changes.ts";
import { planDifferences } from "./plan-differences.ts";
import { type RenderedTree, renderTree, unrendered } from "./rendered-tree.ts";
import type { SecretChange, StackDiff } from "./types.ts";
import { stackViolations } from "./violations.ts";

interface Comparison {
  readonly stack: StackReference;
  /** What Git takes for a commit. */
  readonly ref: string;
  /** What the Pulumi CLI found of the working tree against the stack's state. */
  readonly preview?: GraphChanges | undefined;
  /** Absolute path. @default this project */
  readonly project?: string;
}

/** @throws UserError where Git has no such commit; ConfigError where the working tree has no file of the stack. */
export async function compareWithBase({
  stack,
  ref,
  preview,
  project = projectRoot,
}: Comparison): Promise<StackDiff> {
  // Only the two programs that render have it, and it ends with them.
  const secretKey = randomBytes(32).toString("hex");
  requireStackFile(stack);
  const commit = await commitOf(project, ref);
  return withBaseTree(project, commit, async (base) => {
    const side = async (tree: string, configFile: string, name: string) => ({
      tree: await renderTree({
        project: tree,
        stack: stack.name,
        configFile,
        secretKey,
        out: join(base.scratch, name),
      }),
      secrets: stackSecrets({ name: stack.name, configFile }),
    });
    const baseSide = async (): Promise<BaseSide> => {
      const none = { ref, commit, secrets: new Map(), hasStack: true };
      const file = await fileInBase(stack, project);
      const configFile = join(base.project, file);
      if (base.failure !== null) return { ...none, tree: unrendered(base.failure) };
      if (await exists(configFile))
        return { ...none, ...(await side(base.project, configFile, "base.json")) };
      return { ...none, hasStack: false, tree: unrendered(`It has no ${file}: the stack is new.`) };
    };
    const [head, found] = await Promise.all([side(project, stack.configFile, "head.json"), baseSide()]);
    const policy =
      head.tree.problems.length > 0 ? null : stackPolicy(stack.name, readStackFile(stack).values);
    return stackDiff(stack.name, found, { ...head, policy }, preview);
  });
}

/**
 * Where the base has the stack's file, relative to the project: where the working tree has it. A file from elsewhere stands in
 * for the one that the stack has in the project, with which it is compared.
 */
export async function fileInBase({ name, configFile }: StackReference, project: string): Promise<string> {
  const path = relative(await realpath(project), await realpath(configFile).catch(() => configFile));
  return path.startsWith("..") || isAbsolute(path) ? `Pulumi.${name}.yaml` : path;
}

interface Side {
  readonly tree: RenderedTree;
  readonly secrets: StackSecrets;
}

interface BaseSide extends Side {
  readonly ref: string | null;
  readonly commit: string | null;
  /** Whether the base has the stack at all: where it has not, all of the head is new. */
  readonly hasStack: boolean;
}

interface HeadSide extends Side {
  /** Of its stack file; null where that has problems. */
  readonly policy: StackPolicy | null;
}

/**
 * What merging a change would do to one stack, from what both trees' own code says of it. Same two trees, same bytes.
 *
 * @param preview - What the Pulumi CLI found against the stack's state, in place of what the two graphs say.
 */
export function stackDiff(stack: string, base: BaseSide, head: HeadSide, preview?: GraphChanges): StackDiff {
  const { hasStack } = base;
  const secrets = [...base.secrets.values(), ...head.secrets.values()];
  const compared = ({ failure, problems }: RenderedTree) => ({
    failure: failure === null ? null : redacted(failure, secrets),
    problems,
  });
  const former = hasStack ? base.tree : { resources: [], outputs: {}, plan: null };
  const graphs = preview ?? graphsOf(former.resources, head.tree.resources);
  return {
    stack,
    source: preview === undefined ? "rendered" : "pulumi-preview",
    base: { ref: base.ref, commit: base.commit, hasStack, ...compared(base.tree) },
    head: { ref: null, commit: null, hasStack: true, ...compared(head.tree) },
    resources: graphs?.changes ?? null,
    unchanged: graphs?.unchanged ?? 0,
    plan: head.tree.plan === null ? null : planDifferences(former.plan, head.tree.plan),
    secrets: hasStack ? changedSecrets(base.secrets, head.secrets) : [],
    ...stackViolations(hasStack ? base.tree : null, head.tree, head.policy),
  };
}

function graphsOf(before: RenderedTree["resources"], after: RenderedTree["resources"]): GraphChanges | null {
  return before === null || after === null ? null : graphChanges(before, after);
}

/** By path, such as `hub.token`: the ciphertext, or the plain text of what only the schema takes for a secret. */
export type StackSecrets = ReadonlyMap<string, string>;

/** None where the file can't be read, which whoever renders it explains. */
export function stackSecrets({ configFile }: StackReference): StackSecrets {
  let config: Readonly<Record<string, unknown>>;
  try {
    config = (parse(readFileSync(configFile, "utf8")) as { config?: typeof config } | null)?.config ?? {};
  } catch {
    return new Map();
  }
  // Keys of other namespaces keep theirs.
  const values = Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key.replace(`${CONFIG_NAMESPACE}:`, ""),
      parsedText(value),
    ]),
  );
  const plain = SECRET_PATHS.flatMap((path): [string, string][] => {
    const value = valueAt(values, pathParts(path));
    return typeof value === "string" ? [[path, value]] : [];
  });
  return new Map([...encrypted(values), ...plain]);
}

/** `pulumi config set` may have written an object or a list as a text of JSON. */
function parsedText(value: unknown): unknown {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function encrypted(value: unknown, path: readonly (string | number)[] = []): [string, string][] {
  if (isSecure(value)) return [[formatPath(path), value.secure]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    encrypted(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** Paths at which two stack files have other secrets; encrypting the same value again makes another one. */
export function changedSecrets(before: StackSecrets, after: StackSecrets): readonly SecretChange[] {
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => before.get(path) !== after.get(path))
    .toSorted()
    .map((path) => ({
      path,
      kind: !before.has(path) ? "add" : after.has(path) ? "update" : "delete",
    }));
}

/** Shorter ones are no secrets, and would cut words of every sentence. */
const SHORTEST_REDACTED = 4;

/** A text of a program, such as the message of a failure, without the secrets. */
function redacted(text: string, secrets: Iterable<string>): string {
  return [...secrets]
    .filter((secret) => secret.length >= SHORTEST_REDACTED)
    .toSorted((a, b) => b.length - a.length)
    .reduce((shown, secret) => shown.replaceAll(secret, SECRET_PLACEHOLDER), text);
}
