/** Resources of a stack in an account, whatever its compute is: network, budget, load balancer. */
import { LogGroup } from "@pulumi/aws/cloudwatch/logGroup.js";
import { Provider } from "@pulumi/aws/provider.js";
import type * as pulumi from "@pulumi/pulumi";
import { Guard, Protection } from "../../components/aws/account.ts";
import { DatabaseBackups } from "../../components/aws/database-backups.ts";
import { Edge } from "../../components/aws/edge.ts";
import { Network } from "../../components/aws/network.ts";
import type { DeployedStack } from "../outputs.ts";
import type { AccountParts } from "../plan/aws/account.ts";
import { namedTags } from "../plan/aws/context.ts";
import { awsNotes, recordNote } from "../plan/aws/edge.ts";
import type { Endpoints } from "../plan/endpoints.ts";
import type { AwsPlan } from "../plan/gpu-stack.ts";
import { inPlace, type Place } from "./program.ts";

export type AccountOptions = ReturnType<typeof deployAccount>["opts"];

/** Registers what exists before the machines, with the provider of the region, which refuses any other account. */
export function deployAccount(
  { context, network: plan, budget, containerLogs, backups: copies }: AccountParts,
  place: Place,
) {
  const { region, account } = context;
  const parent = inPlace(place);
  const aws = new Provider("aws", { region, allowedAccountIds: [account] }, parent);
  const opts = { ...parent, providers: { aws } };
  const network = new Network("network", { context, plan }, opts);
  const guard = budget === null ? [] : [new Guard("guard", { context, budget }, opts)];
  const backups = copies === null ? [] : [new DatabaseBackups("backups", { context, plan: copies }, opts)];
  // The driver of logs or Fluent Bit would make it, without a retention, and `down` would leave it.
  const tags = namedTags(context, "container-logs");
  const logs =
    containerLogs === null
      ? []
      : [new LogGroup("container-logs", { ...containerLogs, tags }, { ...parent, provider: aws })];
  return { network, opts, parts: [network, ...guard, ...backups, ...logs] };
}

/** @param resources - All else of the stack. */
export function protectStack(
  { context }: Pick<AccountParts, "context">,
  place: Place,
  resources: readonly pulumi.Resource[],
): void {
  new Protection("protection", { context, resources }, inPlace(place));
}

export function deployEdge(
  { context, edge: plan }: AccountParts,
  network: Network,
  target: ConstructorParameters<typeof Edge>[1]["target"],
  opts: pulumi.ComponentResourceOptions,
): Edge {
  const subnets = plan.isPublic ? network.publicSubnets : network.privateSubnets;
  return new Edge(
    "edge",
    { context, plan, vpcId: network.vpcId, subnets, target },
    // AWS creates a public one only if there is an internet gateway, and deletes that only after it.
    { ...opts, dependsOn: [network] },
  );
}

/** Endpoints and notes of the platform below, with the load balancer in front of the gateway. */
export function withEdge(
  { endpoints, notes }: { readonly endpoints: Endpoints; readonly notes: readonly string[] },
  { context, edge: plan }: AccountParts,
  stack: AwsPlan,
  edge: Edge | null,
): Pick<DeployedStack, "endpoints" | "notes"> {
  const all = [...awsNotes(stack, context, plan), ...notes];
  if (edge === null) return { endpoints, notes: all };
  const { url: gateway, dnsName: gatewayDnsName } = edge;
  const gatewayReach = plan.isPublic ? "public" : "vpc";
  return {
    endpoints: { ...endpoints, gateway, gatewayReach, gatewayDnsName },
    notes: [...(plan.needsRecord ? [gatewayDnsName.apply((name) => recordNote(plan, name))] : []), ...all],
  };
}
