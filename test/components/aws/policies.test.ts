import { expect, test } from "vitest";
import { Edge } from "../../../components/aws/edge.ts";
import { EngineFileSystem } from "../../../components/aws/engine-file-system.ts";
import { Guard } from "../../../components/aws/guard.ts";
import { Network } from "../../../components/aws/network.ts";
import { Registries } from "../../../components/aws/registries.ts";
import { edgePlan } from "../../../infra/plan/aws/edge.ts";
import { fileSystemPlan } from "../../../infra/plan/aws/file-system.ts";
import { guardPlan } from "../../../infra/plan/aws/guard.ts";
import { networkPlan } from "../../../infra/plan/aws/network.ts";
import { repositoryPlans } from "../../../infra/plan/aws/registries.ts";
import type { PolicyName } from "../../../infra/plan/catalogue/policies.ts";
import type { StackFacts } from "../../../policy/rule.ts";
import { rules } from "../../../policy/rules/index.ts";
import { findings } from "../../../policy/violations.ts";
import { awsPlan, eksValues, publicGateway } from "../../infra/plan/aws/stacks.ts";
import { registeredBy } from "./registered.ts";

const facts: StackFacts = {
  platform: "aws",
  keepsDocuments: true,
  hourlyUsdCap: null,
  hasApiKeys: true,
  exposure: "public",
  listenerEndsTls: true,
};

/** What stands around the machines of a public stack that is retained. */
async function registered() {
  const guard = { emails: ["ops@example.org"] };
  const { plan, config, context } = awsPlan({
    ...eksValues,
    retain: ["demo"],
    gateway: publicGateway,
    guard,
  });
  return registeredBy(() => {
    const network = new Network("network", { context, plan: networkPlan(config, context) });
    const { vpcId, privateSubnets: subnets } = network;
    const store = { context, plan: fileSystemPlan(config, context), vpcId, subnets };
    new EngineFileSystem("store", { ...store, clients: [{ name: "machines", securityGroupId: "sg-1" }] });
    new Registries("registries", { context, repositories: repositoryPlans(config, ["services"]) });
    const edge = { context, plan: edgePlan(plan, context), vpcId, subnets: network.publicSubnets };
    new Edge("edge", { ...edge, target: { securityGroupId: "sg-1" } });
    new Guard("guard", { context, plan: guardPlan(config, plan.cost, context) });
  });
}

const resources = await registered();

test.each([
  "storage-is-encrypted",
  "public-endpoint-is-guarded",
  "api-is-not-open-to-all",
  "iam-action-has-no-wildcard",
  "resources-are-labelled",
  "engine-store-is-protected",
] satisfies PolicyName[])("what surrounds the machines satisfies %s", (name) => {
  expect(findings(rules[name], { resources, facts, outputs: {} })).toEqual([]);
});

test("a gateway without keys would not", () => {
  const stack = { resources, facts: { ...facts, hasApiKeys: false }, outputs: {} };
  expect(findings(rules["public-endpoint-is-guarded"], stack).map(({ resource }) => resource?.name)).toEqual([
    "edge-listener",
  ]);
});
