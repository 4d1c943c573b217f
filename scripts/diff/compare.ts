/** Compares the working tree with a commit, each by its own code, both at the same time. */
import { randomBytes } from "node:crypto";
import { readFile, realpath } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { exists } from "../../components/local/provider/files.ts";
import { ConfigError } from "../../infra/problems.ts";
import { basePolicy, type StackPolicy, stackPolicy } from "../../policy/stack-policy.ts";
import { redacted } from "../program/serialized.ts";
import { projectRoot, readStackFile, requireStackFile, type StackReference } from "../program/stack-file.ts";
import { commitOf, withBase } from "./base-tree.ts";
import { type GraphChanges, graphChanges } from "./graph-changes.ts";
import { protectionChanges, providerChanges, sdkChange } from "./graph-options.ts";
import { planDifferences } from "./plan-differences.ts";
import { type RenderedTree, renderTree, unrendered } from "./rendered-tree.ts";
import {
  accountOf,
  changedSecrets,
  changedSettings,
  NO_SETTINGS,
  type StackSettings,
  stackSettings,
} from "./stack-settings.ts";
import type { StackDiff } from "./types.ts";
import { levelChanges, stackViolations, stricter } from "./violations.ts";

interface Comparison {
  readonly stack: StackReference;
  /** Commit in any form of Git. */
  readonly ref: string;
  /** Changes that the Pulumi CLI found of the working tree against the stack's state. */
  readonly preview?: GraphChanges | undefined;
  /** Absolute path. @default this project */
  readonly project?: string;
}

/** @throws UserError if Git has no such commit; ConfigError if the working tree has no file of the stack. */
export async function compareWithBase({
  stack,
  ref,
  preview,
  project = projectRoot,
}: Comparison): Promise<StackDiff> {
  // Known only to the two programs that render, and ends with them.
  const secretKey = randomBytes(32).toString("hex");
  requireStackFile(stack);
  const commit = await commitOf(project, ref);
  const file = await fileInBase(stack, project);
  return withBase(project, commit, file, async (base) => {
    const rendered = (program: string, configFile: string, place: string, name: string) =>
      renderTree({
        project: program,
        place,
        stack: stack.name,
        configFile,
        secretKey,
        out: join(base.scratch, name),
      });
    const readFrom = (configFile: string) => ({
      settings: stackSettings({ configFile }),
      policy: policyOf({ name: stack.name, configFile }),
    });
    const headTree = rendered(project, stack.configFile, project, "head.json");
    const baseSide = async (): Promise<BaseSide> => {
      const none = { ref, commit, settings: NO_SETTINGS, policy: null, hasStack: true };
      const configFile = join(base.project, file);
      if (!(await exists(configFile)))
        return { ...none, hasStack: false, tree: unrendered(`It has no ${file}: the stack is new.`) };
      if (base.failure !== null) return { ...none, tree: unrendered(base.failure), ...readFrom(configFile) };
      const isSame = base.program === project && (await haveSameText(configFile, stack.configFile));
      const tree = isSame ? headTree : rendered(base.program, configFile, base.project, "base.json");
      return { ...none, tree: await tree, ...readFrom(configFile) };
    };
    const [tree, found] = await Promise.all([headTree, baseSide()]);
    const head = { tree, ...readFrom(stack.configFile) };
    const policy = tree.problems.length > 0 ? null : head.policy;
    return stackDiff(stack.name, found, { ...head, policy }, preview);
  });
}

async function haveSameText(one: string, other: string): Promise<boolean> {
  const [left, right] = await Promise.all([readFile(one), readFile(other)]);
  return left.equals(right);
}

/** Returns null when this tree can't read the stack's file, which may be of another version. */
export function policyOf(stack: StackReference): StackPolicy | null {
  try {
    return stackPolicy(stack.name, readStackFile(stack).values);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/**
 * Path of the stack's file in the base, relative to the project: the same as in the working tree. A file from elsewhere
 * is compared with the file that the stack has in the project.
 */
export async function fileInBase({ name, configFile }: StackReference, project: string): Promise<string> {
  const path = relative(await realpath(project), await realpath(configFile).catch(() => configFile));
  return path.startsWith("..") || isAbsolute(path) ? `Pulumi.${name}.yaml` : path;
}

interface Side {
  readonly tree: RenderedTree;
  readonly settings: StackSettings;
  /** By its stack file and this tree's rules; null if that has problems. */
  readonly policy: StackPolicy | null;
}

interface BaseSide extends Side {
  readonly ref: string | null;
  readonly commit: string | null;
  /** Whether the base has the stack; without it, all of the head is new. */
  readonly hasStack: boolean;
}

/**
 * Returns the effect of merging a change on one stack, from both trees' own code. Same two trees, same bytes.
 *
 * @param preview - Changes that the Pulumi CLI found against the stack's state, in place of those between the two
 *   graphs.
 */
export function stackDiff(stack: string, base: BaseSide, head: Side, preview?: GraphChanges): StackDiff {
  const { hasStack } = base;
  const secrets = [...base.settings.secrets.values(), ...head.settings.secrets.values()];
  const compared = ({ failure, problems }: RenderedTree) => ({
    failure: failure === null ? null : redacted(failure, secrets),
    problems,
  });
  // Compared with an unreadable file every key would be new or removed.
  const areRead = hasStack && ![base, head].some(({ settings }) => settings === NO_SETTINGS);
  const former: Pick<RenderedTree, "resources" | "plan" | "sdkVersion"> = hasStack
    ? base.tree
    : { resources: [], plan: null };
  const [before, after] = [former.resources ?? [], head.tree.resources ?? []];
  // Its file may be of another version.
  const policy = hasStack ? (base.policy ?? basePolicy(stack, base.settings.values)) : null;
  const graphs = preview ?? graphsOf(former.resources, head.tree.resources);
  return {
    stack,
    source: preview === undefined ? "rendered" : "pulumi-preview",
    account: accountOf(head.settings),
    base: { ref: base.ref, commit: base.commit, hasStack, ...compared(base.tree) },
    head: { ref: null, commit: null, hasStack: true, ...compared(head.tree) },
    resources: graphs?.changes ?? null,
    unchanged: graphs?.unchanged ?? 0,
    plan: head.tree.plan === null ? null : planDifferences(former.plan, head.tree.plan),
    secrets: areRead ? changedSecrets(base.settings.secrets, head.settings.secrets) : [],
    settings: areRead ? changedSettings(base.settings, head.settings) : [],
    levels: levelChanges(policy, head.policy),
    protections: protectionChanges(before, after),
    providers: [...sdkChange(former.sdkVersion, head.tree.sdkVersion), ...providerChanges(before, after)],
    ...stackViolations(hasStack ? base.tree : null, head.tree, stricter(policy, head.policy)),
  };
}

function graphsOf(before: RenderedTree["resources"], after: RenderedTree["resources"]): GraphChanges | null {
  return before === null || after === null ? null : graphChanges(before, after);
}
