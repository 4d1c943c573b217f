import { expect, test } from "vitest";
import { Edge } from "../../../components/aws/edge.ts";
import { edgePlan } from "../../../infra/plan/aws/edge.ts";
import type { AwsContext } from "../../../infra/plan/aws/types.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "../../infra/plan/aws/stacks.ts";
import { byName, CONTEXT, registeredBy, treeOf } from "./registered.ts";

const DNS_NAME = "demo.eu-west-1.elb.amazonaws.com";

async function made(values: object, context: AwsContext = CONTEXT, instanceId?: string) {
  let url: string | undefined;
  const plan = edgePlan(awsPlan({ ...values }).plan, context);
  const found = await registeredBy(
    () => {
      const edge = new Edge("edge", {
        context,
        plan,
        vpcId: "vpc-1",
        subnets: [
          { zone: "a", id: "subnet-a" },
          { zone: "b", id: "subnet-b" },
        ],
        target: { securityGroupId: "sg-targets", ...(instanceId === undefined ? {} : { instanceId }) },
      });
      edge.url.apply((value) => {
        url = value;
      });
    },
    { "aws:lb/loadBalancer:LoadBalancer": () => ({ dnsName: DNS_NAME, zoneId: "Z-OF-ELB" }) },
  );
  return { found, url, plan };
}

test("an internal edge answers the VPC over HTTP, and reaches its targets alone", async () => {
  const { found, url, plan } = await made(eksValues);
  expect(treeOf(found)).toEqual([
    "aws:ec2/securityGroup:SecurityGroup edge-group < edge",
    "aws:lb/listener:Listener edge-listener < edge",
    "aws:lb/loadBalancer:LoadBalancer edge-balancer < edge",
    "aws:lb/targetGroup:TargetGroup edge-targets < edge",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule edge-to-targets < edge",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule edge-from-10-64-0-0-16 < edge",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule edge-into-targets < edge",
    "engine-room:aws:Edge edge < engine-room-demo",
  ]);
  expect(byName(found, "edge-balancer").inputs).toEqual({
    name: plan.loadBalancerName,
    loadBalancerType: "application",
    internal: true,
    subnets: ["subnet-a", "subnet-b"],
    securityGroups: ["edge-group"],
    idleTimeout: 310,
    dropInvalidHeaderFields: true,
    enableDeletionProtection: false,
    tags: { ...CONTEXT.tags, Name: "engine-room-demo-edge" },
  });
  expect(byName(found, "edge-targets").inputs).toMatchObject({
    targetType: "ip",
    port: 8080,
    protocol: "HTTP",
    deregistrationDelay: 300,
    healthCheck: { path: "/healthz", matcher: "200" },
  });
  expect(byName(found, "edge-listener").inputs).toMatchObject({
    protocol: "HTTP",
    port: 80,
    loadBalancerArn: "arn:of:edge-balancer",
    defaultActions: [{ type: "forward", targetGroupArn: "arn:of:edge-targets" }],
  });
  expect(byName(found, "edge-listener").inputs).not.toHaveProperty("sslPolicy");
  expect(byName(found, "edge-from-10-64-0-0-16").inputs).toMatchObject({
    securityGroupId: "edge-group",
    cidrIpv4: "10.64.0.0/16",
    fromPort: 80,
    toPort: 80,
  });
  const way = { ipProtocol: "tcp", fromPort: 8080, toPort: 8080 };
  expect(byName(found, "edge-to-targets").inputs).toMatchObject({
    ...way,
    securityGroupId: "edge-group",
    referencedSecurityGroupId: "sg-targets",
  });
  expect(byName(found, "edge-into-targets").inputs).toMatchObject({
    ...way,
    securityGroupId: "sg-targets",
    referencedSecurityGroupId: "edge-group",
  });
  expect(url).toBe(`http://${DNS_NAME}`);
});

test("a public edge speaks TLS on the one port that it has, by a record of its name", async () => {
  const gateway = { ...publicGateway, zoneId: "Z0123456789" };
  const { found, url } = await made({ ...eksValues, gateway });
  expect(byName(found, "edge-balancer").inputs.internal).toBe(false);
  const listeners = found.filter(({ type }) => type === "aws:lb/listener:Listener");
  expect(listeners.map(({ inputs }) => inputs)).toMatchObject([
    {
      protocol: "HTTPS",
      port: 443,
      certificateArn: publicGateway.tls.certificateArn,
      sslPolicy: "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09",
    },
  ]);
  expect(byName(found, "edge-from-0-0-0-0-0").inputs).toMatchObject({
    cidrIpv4: "0.0.0.0/0",
    fromPort: 443,
    toPort: 443,
  });
  expect(byName(found, "edge-record").inputs).toEqual({
    zoneId: "Z0123456789",
    name: "models.example.org",
    type: "A",
    aliases: [{ name: DNS_NAME, zoneId: "Z-OF-ELB", evaluateTargetHealth: false }],
  });
  expect(url).toBe("https://models.example.org");
});

test("without a hosted zone no record is made: it is made elsewhere", async () => {
  const { found, url } = await made({ ...eksValues, gateway: publicGateway });
  expect(found.filter(({ type }) => type.startsWith("aws:route53/"))).toEqual([]);
  expect(url).toBe("https://models.example.org");
});

test("the one machine is registered, by the port of its gateway", async () => {
  const { found } = await made({ ...ec2Values, gateway: { port: 8443 } }, CONTEXT, "i-1");
  expect(byName(found, "edge-machine").inputs).toEqual({
    targetGroupArn: "arn:of:edge-targets",
    targetId: "i-1",
    port: 8443,
  });
  expect(byName(found, "edge-targets").inputs).toMatchObject({ targetType: "instance", port: 8443 });
});

test("a retained stack's load balancer can't be deleted by accident", async () => {
  const { found } = await made(eksValues, { ...CONTEXT, isRetained: true });
  expect(byName(found, "edge-balancer").inputs.enableDeletionProtection).toBe(true);
});

test("a replaced load balancer and its targets are there before the old ones go, the listener is not", async () => {
  const { found } = await made(eksValues);
  const goesFirst = (name: string) => byName(found, name).options.deleteBeforeReplace;
  expect(["edge-balancer", "edge-targets", "edge-listener"].map(goesFirst)).toEqual([false, false, true]);
});
