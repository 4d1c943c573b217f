import { expect, test } from "vitest";
import { checkedPlan } from "../../../infra/checked-plan.ts";
import { awsSection } from "../../../scripts/plan/aws-section.ts";
import { ec2Values, eksValues, publicGateway } from "../../infra/plan/aws/stacks.ts";

function textOf(values: Readonly<Record<string, unknown>>): string {
  return awsSection(checkedPlan(values).plan)
    .flatMap(({ title, lines }) => [title, ...lines])
    .join(" ")
    .replaceAll(/\s+/g, " ");
}

test("a plan says what a cluster stands on, and until when AWS supports its version at the usual price", () => {
  expect(textOf({ ...eksValues, cluster: { version: "1.34" } })).toBe(
    "Account 111122223333 Network: a VPC 10.64.0.0/16, zones a, b with 8187 addresses for machines and pods each, one NAT gateway, in zone a. Gateway: an internal load balancer, for 10.64.0.0/16 alone. Kubernetes 1.34: AWS's standard support ends on 2026-12-02; AWS then updates the cluster to the next version by itself, so write that one before.",
  );
});

test.each([
  [
    "the first in the alphabet, whatever stands first",
    { ...eksValues, network: { zones: ["c", "b", "a"] } },
    "a",
  ],
  ["the machine's", { ...ec2Values, pools: ec2Values.pools.map((pool) => ({ ...pool, zone: "b" })) }, "b"],
])("the zone of the only NAT gateway is %s", (_, values, zone) => {
  expect(textOf(values)).toContain(`one NAT gateway, in zone ${zone}.`);
});

test("a plan says of each chart that is none what is not there", () => {
  const charts = { "dcgm-exporter": "none", keda: "none", "cluster-autoscaler": "existing" };
  expect(textOf({ ...eksValues, cluster: { charts } })).toMatch(
    / Not installed: dcgm-exporter \(no metrics of GPUs, .*\); keda \(no server's number follows its load\)\.$/,
  );
  expect(textOf(eksValues)).not.toContain("Not installed");
});

test("a plan says who reaches a public gateway", () => {
  expect(textOf({ ...eksValues, gateway: publicGateway })).toContain(
    "Gateway: https://models.example.org, for everybody on the internet who has a key (1 of them).",
  );
});

test("one machine has no version of Kubernetes, and a network that is there stays", () => {
  const existing = {
    vpcId: "vpc-01234567",
    cidr: "10.80.0.0/16",
    privateSubnets: [
      { id: "subnet-00000001", zone: "b" },
      { id: "subnet-00000002", zone: "c" },
    ],
  };
  expect(textOf({ ...ec2Values, network: { existing, peeredCidrs: ["10.1.0.0/16"] } })).toBe(
    "Account 111122223333 Network: vpc-01234567 (10.80.0.0/16) as it is, machines in zones b, c. Gateway: an internal load balancer, for 10.80.0.0/16, 10.1.0.0/16 alone.",
  );
});

test("a plan says when a stack with a ttl ends, and by what", () => {
  expect(textOf({ ...ec2Values, guard: { ttlHours: 8 } })).toMatch(
    /Time: `npm run expire -- --down` ends the stack 8 h after its last `up` \(guard\.ttlHours\)\.$/,
  );
});

test("other platforms have no account", () => {
  const docker = { platform: "docker", host: { instanceType: "g5.4xlarge" }, models: eksValues.models };
  expect(textOf({ ...docker, engines: { whenFull: "stopServer" } })).toBe("");
});
