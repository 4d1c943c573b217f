/** What there is of a stack in the tree that this file lies in: its plan and its resource graph, in this process. */
import { createHmac } from "node:crypto";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { canonicalJson } from "../../infra/plan/plain-data.ts";
import { ConfigError } from "../../infra/problems.ts";
import { secretMark } from "../program/marks.ts";
import { type RuntimeConfig, readStackFile, type StackReference } from "../program/stack-file.ts";
import { renderStack, type SecretText } from "../render.ts";

/**
 * @param secretKey - Of the marks of secrets; undefined: they have none.
 * @param program - Makes the program of a configuration. @default the project's own, which runs once a process
 * @returns What `parseRenderedTree` reads as JSON.
 */
export async function renderedHere(
  stack: StackReference,
  secretKey: string | undefined,
  program?: (config: RuntimeConfig) => () => Promise<object>,
): Promise<object> {
  try {
    const config = readStackFile(stack);
    const { plan, warnings } = checkedPlan(fromRuntimeConfig(config.values));
    const graph = await renderStack(stack.name, config, program?.(config), secretText(secretKey)).catch(
      sentenceOf,
    );
    return { plan, warnings, ...(typeof graph === "string" ? { failure: graph } : { graph }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { problems: error.problems };
  }
}

/** Equal secrets have equal marks in this run, and nobody without the key can test a guess against one. */
function secretText(key: string | undefined): SecretText | undefined {
  if (key === undefined) return undefined;
  return (secret) => secretMark(createHmac("sha256", key).update(canonicalJson(secret)).digest("hex"));
}

/** A stack that can be planned, and not deployed by this version. */
function sentenceOf(error: unknown): string {
  if (error instanceof ConfigError) return error.problems.map(({ reason }) => reason).join(" ");
  return (error as Error).message;
}
