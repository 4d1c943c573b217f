/** Access to the API of a stack's cluster: opened before Pulumi uses it, and explained if it does not answer. */
import { connect } from "node:net";
import type { Cluster } from "@aws-sdk/client-eks";
import type { EksConfig } from "../../infra/config/aws-stacks.ts";
import { apiAccess } from "../../infra/plan/aws/eks-cluster.ts";
import { UserError } from "../errors.ts";
import { ask, until } from "./session.ts";

/** EKS takes some ten minutes; Amazon's provider waits an hour for any update. */
const OPEN_LIMIT_SECONDS = 1800;
const OPEN_PAUSE_SECONDS = 10;

const ANSWER_TIMEOUT_MILLISECONDS = 5000;

interface Place {
  readonly region: string;
  /** Name of the cluster. */
  readonly name: string;
}

/**
 * Opens the API to the networks of `access.apiCidrs`. Pulumi reads the cluster's objects before it changes the cluster, which would fail
 * from an address that is new in the stack file. Closing the API is left to Pulumi, whose last step it may be.
 *
 * @param print - Called with a line before a wait for EKS.
 * @throws UserError if EKS refuses, fails or is not done within the limit.
 */
export async function openApi(
  { region, name }: Place,
  access: Pick<EksConfig["access"], "endpoint" | "apiCidrs">,
  print: (line: string) => void,
): Promise<void> {
  const { publicAccessCidrs, ...wanted } = apiAccess(access);
  if (publicAccessCidrs === undefined) return;
  const cluster = (await ask("eks:DescribeCluster", region, { name }))?.cluster;
  // A cluster in creation or deletion has no open API either.
  if (cluster?.status !== "ACTIVE") return;
  const before = openTo(cluster);
  if (before.toSorted().join() === publicAccessCidrs.join()) return;
  const resourcesVpcConfig = { ...wanted, publicAccessCidrs };
  print(
    `Opening the API of ${name} to ${publicAccessCidrs.join(", ")}, which takes minutes; it was open to ${before.join(", ") || "only the VPC"}.`,
  );
  const answer = await ask("eks:UpdateClusterConfig", region, { name, resourcesVpcConfig });
  const updateId = answer?.update?.id;
  if (updateId === undefined) return;
  const ended = await until(OPEN_LIMIT_SECONDS, OPEN_PAUSE_SECONDS, async () => {
    const update = (await ask("eks:DescribeUpdate", region, { name, updateId }))?.update;
    return update?.status === "InProgress" ? undefined : update;
  });
  if (ended === undefined)
    throw new UserError(
      `EKS is still opening the API of ${name} after ${OPEN_LIMIT_SECONDS / 60} minutes. Run this again later.`,
    );
  if (ended.status !== "Successful") {
    const reasons = (ended.errors ?? []).map(
      ({ errorCode, errorMessage }) => `${errorCode}: ${errorMessage}`,
    );
    throw new UserError(`EKS did not open the API of ${name} (${ended.status}): ${reasons.join("; ")}.`);
  }
}

/** Networks of the internet that the API answers. */
function openTo({ resourcesVpcConfig: { endpointPublicAccess, publicAccessCidrs = [] } = {} }: Cluster) {
  return endpointPublicAccess === false ? [] : publicAccessCidrs;
}

/** Why this machine does not reach a cluster's API; undefined when it does, or behind a proxy. */
export async function unreachedReason(cluster: Cluster): Promise<string | undefined> {
  if (process.env.HTTPS_PROXY ?? process.env.https_proxy) return undefined;
  if (await answers(cluster.endpoint ?? "")) return undefined;
  const { name, resourcesVpcConfig } = cluster;
  const open = openTo(cluster);
  return open.length === 0
    ? `The API of ${name} does not answer here: it answers only ${resourcesVpcConfig?.vpcId ?? "its VPC"}, and there only the networks of access.privateCidrs. Connect this machine to one of them, as by VPN, or run this there.`
    : `The API of ${name} does not answer here: from the internet it answers only ${open.join(", ")}. If your address has changed, write it into access.apiCidrs; \`npx engine-room up\` opens the API to it.`;
}

async function answers(endpoint: string): Promise<boolean> {
  const { hostname, port } = new URL(endpoint);
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname,
      port: Number(port) || 443,
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MILLISECONDS),
    });
    const end = (isPresent: boolean) => {
      socket.destroy();
      resolve(isPresent);
    };
    socket.once("connect", () => end(true)).once("error", () => end(false));
  });
}
