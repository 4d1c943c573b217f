/** Resources of bootstrap/: what an account has before its first stack. */
import { Provider } from "@pulumi/aws/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { DeployAccess, Registries, StateStore } from "../../components/aws/bootstrap.ts";
import type { BootstrapPlan } from "../plan/aws/bootstrap.ts";

/** @returns The stack's outputs. */
export function deployBootstrap(plan: BootstrapPlan) {
  const { account, region, registry, state } = plan;
  const opts = { providers: { aws: new Provider("aws", { region, allowedAccountIds: [account] }) } };
  new Registries("registries", { plan }, opts);
  const { keyArn } = new StateStore("state", { plan }, opts);
  const { policies, roles } = new DeployAccess("access", { plan, keyArn }, opts);
  return {
    /** Where `npx engine-room images --push` pushes. */
    registry,
    /** For `pulumi login`. */
    stateUrl: state.url,
    /** For `pulumi stack init --secrets-provider`. */
    secretsProvider: pulumi.interpolate`awskms:///${keyArn}?region=${region}`,
    /** ARNs by GitHub's environment, each for its variable AWS_ROLE. */
    roles,
    /** ARNs by name, for people who deploy by themselves. */
    policies,
  };
}
