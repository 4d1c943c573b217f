/** A kubeconfig of a stack's own cluster, for kubectl of this command alone: the user's own stays as it is. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AwsContext } from "../../infra/plan/aws/types.ts";
import { type ClusterReading, eksCluster } from "./eks.ts";
import { required } from "./session.ts";

/**
 * Lets every kubectl that this process starts ask the stack's cluster, until the process ends.
 *
 * @throws UserError where the account has no such cluster, or does not say.
 */
export async function useStackCluster({ region, name, stack }: AwsContext): Promise<void> {
  const cluster = required(
    await eksCluster(region, name),
    `There is no cluster ${name} in ${region}; \`npm run up -- --stack ${stack}\` makes it.`,
  );
  const folder = mkdtempSync(join(tmpdir(), "engine-room-kubeconfig-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "config");
  writeFileSync(file, kubeconfig(region, name, cluster), { mode: 0o600 });
  process.env.KUBECONFIG = file;
}

/** It holds no secret: the AWS CLI logs in with the user's own credentials. JSON is YAML. Pure. */
export function kubeconfig(
  region: string,
  name: string,
  { endpoint, certificateAuthority }: Pick<ClusterReading, "endpoint" | "certificateAuthority">,
): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server: endpoint, "certificate-authority-data": certificateAuthority } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    users: [
      {
        name,
        user: {
          exec: {
            apiVersion: "client.authentication.k8s.io/v1beta1",
            command: "aws",
            args: ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"],
            interactiveMode: "Never",
          },
        },
      },
    ],
  });
}
