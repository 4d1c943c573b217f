/** The owner of a stack beside its files, for the provider as Pulumi's engine runs it: the try-out runner may not have the stack. */
import { readdir, rm } from "node:fs/promises";
import { exists, fromRoot, orWhenMissing, writeWhole } from "./files.ts";

const OWNER = "owner.json";

/** Reasons why Pulumi may not create a resource of a stack; empty if it may. */
export async function ownerFailures(stack: string) {
  const state = `.stacks/${stack}/state.json`;
  if (!(await exists(fromRoot(state)))) return [];
  const reason = `The try-out runner has the stack ${stack}. To move it to Pulumi, run \`npx engine-room up --stack ${stack}\`, or \`pulumi stack import --stack ${stack} --file ${state}\` and delete that file.`;
  return [{ property: "", reason }];
}

/** Records Pulumi as the owner, unless a record exists. */
export async function takeOwnership(stack: string): Promise<void> {
  const file = fromRoot(".stacks", stack, OWNER);
  if (!(await exists(file)))
    await writeWhole(file, `${JSON.stringify({ owner: "Pulumi" }, null, 2)}\n`, 0o644);
}

/** Removes the record when nothing else of the stack is left. */
export async function releaseOwnership(stack: string): Promise<void> {
  const folder = fromRoot(".stacks", stack);
  const entries = await readdir(folder).catch(orWhenMissing([]));
  if (entries.length === 1 && entries[0] === OWNER) await rm(folder, { recursive: true });
}
