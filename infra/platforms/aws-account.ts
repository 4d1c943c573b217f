/** What both kinds of compute make in an account: network, engine store, registries, budget. */
import { Provider } from "@pulumi/aws/provider.js";
import type * as pulumi from "@pulumi/pulumi";
import { EngineFileSystem } from "../../components/aws/engine-file-system.ts";
import { Guard } from "../../components/aws/guard.ts";
import { Network } from "../../components/aws/network.ts";
import { Registries } from "../../components/aws/registries.ts";
import type { AwsContext, Ec2Stack, EksStack } from "../plan/aws/types.ts";

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
