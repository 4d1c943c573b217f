/**
 * What there is of a stack in the tree that this file lies in: its plan and its resource graph, in one process.
 *
 *     node --import tsx scripts/diff/render-child.ts STACK CONFIG-FILE OUT-FILE
 */
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { checkedPlan } from "../../infra/checked-plan.ts";
import { fromRuntimeConfig } from "../../infra/config/config.ts";
import { canonicalJson } from "../../infra/plan/canonical-json.ts";
import { ConfigError } from "../../infra/problems.ts";
import { secretMark } from "../program/marks.ts";
import { projectName, readStackFile, type StackReference, stackReference } from "../program/stack-file.ts";
import { renderStack, type SecretText } from "../render.ts";

const [name = "", configFile, out = ""] = process.argv.slice(2);
const key = process.env.ENGINE_ROOM_SECRET_MARK_KEY;
// The program has no use for it, and can't print what it does not have.
delete process.env.ENGINE_ROOM_SECRET_MARK_KEY;
writeFileSync(out, JSON.stringify(await render(stackReference(name, configFile))));

async function render(stack: StackReference): Promise<object> {
  try {
    const config = readStackFile(stack);
    const { plan, warnings } = checkedPlan(fromRuntimeConfig(config.values, projectName()));
    const graph = await renderStack(stack.name, config, undefined, secretText()).catch(sentenceOf);
    return { plan, warnings, ...(typeof graph === "string" ? { failure: graph } : { graph }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { problems: error.problems };
  }
}

/** Equal secrets have equal marks in this run, and nobody without the key can test a guess against one. */
function secretText(): SecretText | undefined {
  if (key === undefined) return undefined;
  return (secret) => secretMark(createHmac("sha256", key).update(canonicalJson(secret)).digest("hex"));
}

/** A stack that can be planned, and not deployed by this version. */
function sentenceOf(error: unknown): string {
  if (error instanceof ConfigError) return error.problems.map(({ reason }) => reason).join(" ");
  return (error as Error).message;
}
