/** What both kinds of compute make in an account: network, engine store, registries, budget. */
import { Provider } from "@pulumi/aws/provider.js";
import type * as pulumi from "@pulumi/pulumi";
import type { Edge } from "../../components/aws/edge.ts";
import { EngineFileSystem } from "../../components/aws/engine-file-system.ts";
import { Guard } from "../../components/aws/guard.ts";
import { Network } from "../../components/aws/network.ts";
import { Registries } from "../../components/aws/registries.ts";
import type { DeployedStack } from "../outputs.ts";
import { awsNotes, needsRecord, recordNote } from "../plan/aws/notes.ts";
import type { AwsContext, Ec2Stack, EksStack } from "../plan/aws/types.ts";
import type { Endpoints } from "../plan/endpoints.ts";
import type { AwsPlan } from "../plan/gpu-stack.ts";

/** Of the provider: the region, and the one account that it may touch, whatever credentials there are. */
export function awsProvider({ account, region }: AwsContext): Provider {
  return new Provider("aws", { region, allowedAccountIds: [account] });
}

/** Registers what machines need before they are there. */
export function deployAccount(
  { context, network: plan, repositories, guard }: EksStack | Ec2Stack,
  opts: pulumi.ComponentResourceOptions,
): { readonly network: Network; readonly registries: Registries } {
  const network = new Network("network", { context, plan }, opts);
  const registries = new Registries("registries", { context, repositories }, opts);
  if (guard.budget !== null) new Guard("guard", { context, plan: guard }, opts);
  return { network, registries };
}

/** What the platform below says of a stack, with the load balancer as its door. */
export function withEdge(
  { endpoints, notes }: { readonly endpoints: Endpoints; readonly notes: readonly string[] },
  { context, edge: edgePlan }: EksStack | Ec2Stack,
  plan: AwsPlan,
  edge: Edge | null,
): Pick<DeployedStack, "endpoints" | "notes"> {
  const all = [...awsNotes(plan, context, edgePlan), ...notes];
  if (edge === null) return { endpoints, notes: all };
  const { url: gateway, dnsName: gatewayDnsName } = edge;
  const gatewayReach = edgePlan.isPublic ? "public" : "vpc";
  return {
    endpoints: { ...endpoints, gateway, gatewayReach, gatewayDnsName },
    notes: [
      ...(needsRecord(edgePlan) ? [gatewayDnsName.apply((name) => recordNote(edgePlan, name))] : []),
      ...all,
    ],
  };
}

/** Registers the engine store, which the given machines reach. */
export function deployFileSystem(
  { context, fileSystem: plan }: EksStack | Ec2Stack,
  network: Network,
  client: { readonly name: string; readonly securityGroupId: pulumi.Input<string> },
  opts: pulumi.ComponentResourceOptions,
): EngineFileSystem {
  return new EngineFileSystem(
    "engine-store",
    { context, plan, vpcId: network.vpcId, subnets: network.privateSubnets, clients: [client] },
    opts,
  );
}
