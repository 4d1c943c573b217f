/** A kubeconfig of a stack's own cluster, for kubectl of this command alone: the user's own stays as it is. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AwsContext } from "../../infra/plan/aws/context.ts";
import { documentText } from "../../infra/plan/aws/data-files.ts";
import { eksCluster } from "./eks.ts";
import { required } from "./session.ts";

/**
 * Lets every kubectl that this process starts ask the stack's cluster, until the process ends.
 *
 * @throws UserError where the account has no such cluster, or does not say.
 */
export async function useStackCluster({ region, name, stack }: AwsContext): Promise<void> {
  const cluster = required(
    await eksCluster(region, name),
    `There is no cluster ${name} in ${region}; \`npx engine-room up --stack ${stack}\` makes it.`,
  );
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubeconfig-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "config");
  writeFileSync(file, documentText("kubeconfig", { region, name, ...cluster }), { mode: 0o600 });
  process.env.KUBECONFIG = file;
}
