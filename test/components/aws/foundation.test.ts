import type { Output } from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { Guard } from "../../../components/aws/account.ts";
import { Edge } from "../../../components/aws/edge.ts";
import { EngineFileSystem } from "../../../components/aws/engine-file-system.ts";
import { Network } from "../../../components/aws/network.ts";
import {
  budgetArgs,
  type FileSystemPlan,
  fileSystemPlan,
  type NetworkPlan,
  networkPlan,
} from "../../../infra/plan/aws/account.ts";
import type { AwsContext } from "../../../infra/plan/aws/context.ts";
import { edgePlan } from "../../../infra/plan/aws/edge.ts";
import { awsPlan, ec2Values, eksValues, publicGateway } from "../../infra/plan/aws/stacks.ts";
import { byName, CONTEXT, once, registeredBy, treeOf } from "./registered.ts";

const planOf = (network: object): NetworkPlan =>
  networkPlan(awsPlan({ ...eksValues, network }).config, CONTEXT);

const made = (plan: NetworkPlan) =>
  registeredBy(() => {
    new Network("network", { context: CONTEXT, plan });
  });

/** NAT gateways of the private subnets' default routes, by zone. */
async function natOfZones(network: object): Promise<Readonly<Record<string, unknown>>> {
  const found = await made(planOf(network));
  const routes = found.filter(({ name }) => /^network-private-.-default$/.test(name));
  return Object.fromEntries(routes.map(({ name, inputs }) => [name.charAt(16), inputs.natGatewayId]));
}

describe("a new network", async () => {
  const found = await made(planOf({ zones: ["a", "c"], endpoints: "private" }));

  test("a new network has exactly the planned resources", () => {
    const ofZone = (zone: string) => [
      `aws:ec2/route:Route network-private-${zone}-default < network`,
      `aws:ec2/routeTable:RouteTable network-private-${zone}-routes < network`,
      `aws:ec2/routeTableAssociation:RouteTableAssociation network-private-${zone}-association < network`,
      `aws:ec2/routeTableAssociation:RouteTableAssociation network-public-${zone}-association < network`,
      `aws:ec2/subnet:Subnet network-private-${zone} < network`,
      `aws:ec2/subnet:Subnet network-public-${zone} < network`,
    ];
    const endpoints = [
      ...["autoscaling", "ec2", "ecr-api", "ecr-dkr", "eks", "eks-auth", "elasticfilesystem"],
      ...["elasticloadbalancing", "logs", "s3", "secretsmanager", "sts"],
    ];
    expect(treeOf(found)).toEqual(
      [
        "engine-room:aws:Network network < engine-room-demo",
        "aws:ec2/vpc:Vpc network-vpc < network",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup network-default-group < network",
        "aws:ec2/internetGateway:InternetGateway network-internet < network",
        "aws:ec2/routeTable:RouteTable network-public-routes < network",
        "aws:ec2/route:Route network-public-default < network",
        "aws:ec2/eip:Eip network-nat-a-address < network",
        "aws:ec2/natGateway:NatGateway network-nat-a < network",
        ...ofZone("a"),
        ...ofZone("c"),
        "engine-room:aws:NetworkEndpoints network-endpoints < network",
        ...endpoints.map(
          (name) => `aws:ec2/vpcEndpoint:VpcEndpoint network-endpoints-${name} < network-endpoints`,
        ),
        "aws:ec2/securityGroup:SecurityGroup network-endpoints-group < network-endpoints",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule network-endpoints-https < network-endpoints",
        "engine-room:aws:FlowLogs network-flow-logs < network",
        "aws:cloudwatch/logGroup:LogGroup network-flow-logs-group < network-flow-logs",
        "aws:ec2/flowLog:FlowLog network-flow-logs-log < network-flow-logs",
        "engine-room:aws:WorkloadRole network-flow-logs-writer < network-flow-logs",
        "aws:iam/role:Role network-flow-logs-writer-role < network-flow-logs-writer",
        "aws:iam/rolePolicy:RolePolicy network-flow-logs-writer-policy < network-flow-logs-writer",
      ].sort(),
    );
  });

  test("subnets have their zones and addresses without a lookup", () => {
    expect(byName(found, "network-private-c").inputs).toEqual({
      vpcId: "network-vpc",
      cidrBlock: "10.64.64.0/19",
      availabilityZone: "eu-west-1c",
      mapPublicIpOnLaunch: false,
      tags: {
        ...CONTEXT.tags,
        Name: "engine-room-demo-private-c",
        "kubernetes.io/role/internal-elb": "1",
      },
    });
    expect(byName(found, "network-public-c").inputs).toMatchObject({
      cidrBlock: "10.64.200.0/22",
      mapPublicIpOnLaunch: false,
    });
  });

  test("the default security group has no rules", () => {
    expect(byName(found, "network-default-group").inputs).toMatchObject({ ingress: [], egress: [] });
  });

  test("endpoints have private DNS names and accept HTTPS from the VPC only", () => {
    expect(byName(found, "network-endpoints-ecr-dkr").inputs).toMatchObject({
      serviceName: "com.amazonaws.eu-west-1.ecr.dkr",
      vpcEndpointType: "Interface",
      privateDnsEnabled: true,
      subnetIds: ["network-private-a", "network-private-c"],
      securityGroupIds: ["network-endpoints-group"],
    });
    expect(byName(found, "network-vpc").inputs).toMatchObject({
      enableDnsSupport: true,
      enableDnsHostnames: true,
    });
    expect(byName(found, "network-endpoints-https").inputs).toMatchObject({
      securityGroupId: "network-endpoints-group",
      cidrIpv4: "10.64.0.0/16",
      fromPort: 443,
      toPort: 443,
    });
    expect(byName(found, "network-endpoints-s3").inputs).toMatchObject({
      serviceName: "com.amazonaws.eu-west-1.s3",
      vpcEndpointType: "Gateway",
      routeTableIds: ["network-private-a-routes", "network-private-c-routes"],
    });
  });

  test("flow logs wait for the policy of their role", () => {
    const log = byName(found, "network-flow-logs-log");
    expect(log.inputs).toMatchObject({
      trafficType: "ALL",
      logDestination: "arn:of:network-flow-logs-group",
      iamRoleArn: "arn:of:network-flow-logs-writer-role",
    });
    expect(log.dependencies).toContain(byName(found, "network-flow-logs-writer-policy").urn);
    expect(byName(found, "network-flow-logs-group").inputs).toMatchObject({
      name: "engine-room-demo/flow-logs",
      retentionInDays: 30,
    });
  });

  test("NAT gateways and their addresses wait for the internet gateway", () => {
    const internet = byName(found, "network-internet").urn;
    expect(byName(found, "network-nat-a").dependencies).toContain(internet);
    expect(byName(found, "network-nat-a-address").dependencies).toContain(internet);
    expect(byName(found, "network-nat-a").inputs).toMatchObject({ subnetId: "network-public-a" });
  });
});

test("private subnets route through the only NAT gateway or through that of their zone", async () => {
  expect(await natOfZones({ zones: ["c", "a"] })).toEqual({ c: "network-nat-a", a: "network-nat-a" });
  expect(await natOfZones({ zones: ["c", "a"], nat: "perZone" })).toEqual({
    c: "network-nat-c",
    a: "network-nat-a",
  });
});

test("a third zone does not change the subnets of the others", async () => {
  const subnetsOf = async (zones: readonly string[]) => {
    const found = await made(planOf({ zones }));
    return found
      .filter(({ type }) => type === "aws:ec2/subnet:Subnet")
      .map(({ name, inputs }) => ({ name, inputs }));
  };
  expect(await subnetsOf(["b", "a", "c"])).toEqual(expect.arrayContaining(await subnetsOf(["a", "c"])));
});

test("a network without paid endpoints and flow logs has only the endpoint of S3", async () => {
  const found = await made(planOf({ flowLogs: false }));
  expect(
    found
      .filter(({ type }) => /:VpcEndpoint|:SecurityGroup|aws:iam|:FlowLog|:LogGroup/.test(type))
      .map(({ name }) => name),
  ).toEqual(["network-endpoints-s3"]);
});

test("an existing network needs no resources", async () => {
  const existing = {
    vpcId: "vpc-01234567",
    cidr: "10.80.0.0/16",
    privateSubnets: [
      { id: "subnet-00000001", zone: "b" },
      { id: "subnet-00000002", zone: "a" },
    ],
  };
  const plan = planOf({ existing });
  let network: Network | undefined;
  const found = await registeredBy(() => {
    network = new Network("network", { context: CONTEXT, plan });
  });
  expect(treeOf(found)).toEqual(["engine-room:aws:Network network < engine-room-demo"]);
  expect(network?.privateSubnets).toEqual(existing.privateSubnets);
  expect(network?.publicSubnets).toEqual([]);
});

describe("load balancer", () => {
  const DNS_NAME = "demo.eu-west-1.elb.amazonaws.com";
  const PROOF = {
    domainName: "models.example.org",
    resourceRecordName: "_1.models.example.org.",
    resourceRecordType: "CNAME",
    resourceRecordValue: "_2.acm-validations.aws.",
  };

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
      {
        "aws:lb/loadBalancer:LoadBalancer": () => ({ dnsName: DNS_NAME, zoneId: "Z-OF-ELB" }),
        "aws:acm/certificate:Certificate": () => ({ domainValidationOptions: [PROOF] }),
        "aws:route53/record:Record": () => ({ fqdn: "fqdn" }),
      },
    );
    return { found, url, plan };
  }

  const internal = once(() => made(eksValues));

  test("an internal load balancer accepts HTTP from the VPC and reaches only its targets", async () => {
    const { found, url, plan } = await internal();
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
    expect(byName(found, "edge-balancer").inputs).toMatchObject({
      name: plan.loadBalancer.name,
      internal: true,
      // Ten seconds longer than the longest request.
      idleTimeout: 310,
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

  test("a public load balancer has a TLS listener only and a DNS record", async () => {
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

  test("a public load balancer with a hosted zone and no certificate gets a certificate of ACM", async () => {
    const { tls: _tls, ...gateway } = { ...publicGateway, zoneId: "Z0123456789" };
    const { found, url } = await made({ ...eksValues, gateway });
    expect(treeOf(found).filter((one) => /acm|route53/.test(one))).toEqual([
      "aws:acm/certificate:Certificate edge-certificate < edge",
      "aws:acm/certificateValidation:CertificateValidation edge-certificate-issued < edge",
      "aws:route53/record:Record edge-certificate-record < edge",
      "aws:route53/record:Record edge-record < edge",
    ]);
    expect(byName(found, "edge-certificate").inputs).toMatchObject({
      domainName: "models.example.org",
      validationMethod: "DNS",
    });
    expect(byName(found, "edge-certificate-record").inputs).toEqual({
      zoneId: "Z0123456789",
      name: "_1.models.example.org.",
      type: "CNAME",
      records: ["_2.acm-validations.aws."],
      ttl: 300,
      allowOverwrite: true,
    });
    expect(byName(found, "edge-certificate-issued").inputs).toEqual({
      certificateArn: "arn:of:edge-certificate",
      validationRecordFqdns: ["fqdn"],
    });
    const listener = byName(found, "edge-listener");
    expect(listener.inputs).toMatchObject({ port: 443, certificateArn: "arn:of:edge-certificate" });
    expect(listener.dependencies).toContain(byName(found, "edge-certificate-issued").urn);
    expect(url).toBe("https://models.example.org");
  });

  // ACM finds no record in the zone of a VPC, and an internal stack of before would change to TLS.
  test("an internal load balancer with a hosted zone gets no certificate", async () => {
    const gateway = { hostname: "models.example.org", zoneId: "Z0123456789" };
    const { found } = await made({ ...eksValues, gateway });
    expect(found.filter(({ type }) => type.startsWith("aws:acm/"))).toEqual([]);
    expect(byName(found, "edge-listener").inputs).toMatchObject({ protocol: "HTTP", port: 80 });
  });

  test("a load balancer has the clients, the web ACL and the log bucket of the stack file", async () => {
    const wafAclArn = "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/models/1";
    const gateway = {
      ...publicGateway,
      allowedCidrs: ["203.0.113.0/24", "198.51.100.7/32"],
      wafAclArn,
      accessLogsBucket: "example-access-logs",
    };
    const { found } = await made({ ...eksValues, gateway });
    expect(
      found
        .filter(({ name }) => name.startsWith("edge-from-"))
        .map(({ inputs }) => [inputs.cidrIpv4, inputs.fromPort]),
    ).toEqual([
      ["203.0.113.0/24", 443],
      ["198.51.100.7/32", 443],
    ]);
    expect(byName(found, "edge-balancer").inputs.accessLogs).toEqual({
      bucket: "example-access-logs",
      prefix: "engine-room-demo",
      enabled: true,
    });
    const acl = byName(found, "edge-acl");
    expect(acl.inputs).toEqual({ resourceArn: "arn:of:edge-balancer", webAclArn: wafAclArn });
    // Deleting either association removes the load balancer's web ACL.
    expect(acl.options.deleteBeforeReplace).toBe(true);
    expect(byName(found, "edge-listener").dependencies).toContain(acl.urn);
  });

  test("a public load balancer without a hosted zone has no DNS record", async () => {
    const { found, url } = await made({ ...eksValues, gateway: publicGateway });
    expect(found.filter(({ type }) => type.startsWith("aws:route53/"))).toEqual([]);
    expect(url).toBe("https://models.example.org");
  });

  test("an EC2 machine is registered as the target with its gateway's port", async () => {
    const { found } = await made({ ...ec2Values, gateway: { port: 8443 } }, CONTEXT, "i-1");
    expect(byName(found, "edge-machine").inputs).toEqual({
      targetGroupArn: "arn:of:edge-targets",
      targetId: "i-1",
      port: 8443,
    });
    expect(byName(found, "edge-targets").inputs).toMatchObject({ targetType: "instance", port: 8443 });
  });

  test("the load balancer of a retained stack has deletion protection", async () => {
    const { found } = await made(eksValues, { ...CONTEXT, isRetained: true });
    expect(byName(found, "edge-balancer").inputs.enableDeletionProtection).toBe(true);
  });

  test("a new load balancer and target group are created before the old are deleted, a new listener after", async () => {
    const { found } = await internal();
    const goesFirst = (name: string) => byName(found, name).options.deleteBeforeReplace;
    expect(["edge-balancer", "edge-targets", "edge-listener"].map(goesFirst)).toEqual([false, false, true]);
  });
});

describe("file system", () => {
  function planOf(engineStore: object): FileSystemPlan {
    return fileSystemPlan(awsPlan({ ...eksValues, engineStore }).config);
  }

  async function made(plan: FileSystemPlan, isRetained = false) {
    const seen: Record<string, unknown> = {};
    const see = (key: string, output: Output<string>) => {
      output.apply((value) => {
        seen[key] = value;
      });
    };
    const found = await registeredBy(() => {
      const store = new EngineFileSystem("store", {
        context: { ...CONTEXT, isRetained },
        plan,
        vpcId: "vpc-1",
        subnets: [
          { zone: "a", id: "subnet-a" },
          { zone: "b", id: "subnet-b" },
        ],
        client: { name: "machines", securityGroupId: "sg-machines" },
      });
      see("volumeHandle", store.volumeHandle);
      seen.mountTargets = store.mountTargets.length;
    });
    return { found, seen };
  }

  test("a new file system is encrypted and accepts only its clients", async () => {
    const { found, seen } = await made(planOf({}));
    expect(treeOf(found)).toEqual([
      "aws:ec2/securityGroup:SecurityGroup store-mounts < store",
      "aws:efs/accessPoint:AccessPoint store-access < store",
      "aws:efs/backupPolicy:BackupPolicy store-backups < store",
      "aws:efs/fileSystem:FileSystem store-files < store",
      "aws:efs/fileSystemPolicy:FileSystemPolicy store-policy < store",
      "aws:efs/mountTarget:MountTarget store-a < store",
      "aws:efs/mountTarget:MountTarget store-b < store",
      "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule store-from-machines < store",
      "engine-room:aws:EngineFileSystem store < engine-room-demo",
      "local:index:FixedValues store-key < store",
    ]);
    expect(byName(found, "store-files").inputs).toMatchObject({ encrypted: true, throughputMode: "elastic" });
    expect(byName(found, "store-from-machines").inputs).toMatchObject({
      securityGroupId: "store-mounts",
      referencedSecurityGroupId: "sg-machines",
      ipProtocol: "tcp",
      fromPort: 2049,
      toPort: 2049,
    });
    expect(byName(found, "store-b").inputs).toEqual({
      fileSystemId: "store-files",
      subnetId: "subnet-b",
      securityGroups: ["store-mounts"],
    });
    expect(byName(found, "store-policy").inputs.policy).toContain('"aws:SecureTransport":"false"');
    expect(byName(found, "store-policy").inputs.policy).toContain('"arn:of:store-files"');
    expect(byName(found, "store-backups").inputs.backupPolicy).toEqual({ status: "DISABLED" });
    expect(byName(found, "store-access").inputs).toMatchObject({
      fileSystemId: "store-files",
      posixUser: { uid: 1000, gid: 1000 },
      rootDirectory: {
        path: "/engine-room",
        creationInfo: { ownerUid: 1000, ownerGid: 1000, permissions: "0750" },
      },
    });
    expect(seen).toEqual({ volumeHandle: "store-files::store-access", mountTargets: 2 });
  });

  test("a file system has the provisioned throughput and backups of the stack file", async () => {
    const { found } = await made(
      planOf({ throughput: "provisioned", provisionedMiBPerSecond: 256, backups: true }),
    );
    expect(byName(found, "store-files").inputs).toMatchObject({
      throughputMode: "provisioned",
      provisionedThroughputInMibps: 256,
    });
    expect(byName(found, "store-backups").inputs.backupPolicy).toEqual({ status: "ENABLED" });
  });

  test("the file system of a retained stack is kept with its policies, that of another stack is deleted", async () => {
    const optionsOf = async (isRetained: boolean) => {
      const { found } = await made(planOf({}), isRetained);
      return ["store-files", "store-policy", "store-backups", "store-access"].map((name) => {
        const { protect = false, retainOnDelete = false } = byName(found, name).options;
        return { name, protect, retainOnDelete };
      });
    };
    expect(await optionsOf(true)).toEqual([
      { name: "store-files", protect: true, retainOnDelete: true },
      { name: "store-policy", protect: false, retainOnDelete: true },
      { name: "store-backups", protect: false, retainOnDelete: true },
      { name: "store-access", protect: false, retainOnDelete: false },
    ]);
    for (const { protect, retainOnDelete } of await optionsOf(false))
      expect({ protect, retainOnDelete }).toEqual({ protect: false, retainOnDelete: false });
  });

  test("an existing file system gets an access point and a rule for the machines", async () => {
    const { found, seen } = await made(
      planOf({ existing: { fileSystemId: "fs-01234567", securityGroupId: "sg-01234567" } }),
    );
    expect(treeOf(found)).toEqual([
      "aws:efs/accessPoint:AccessPoint store-access < store",
      "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule store-from-machines < store",
      "engine-room:aws:EngineFileSystem store < engine-room-demo",
    ]);
    expect(byName(found, "store-from-machines").inputs).toMatchObject({
      securityGroupId: "sg-01234567",
      referencedSecurityGroupId: "sg-machines",
    });
    expect(byName(found, "store-access").inputs.fileSystemId).toBe("fs-01234567");
    expect(seen).toEqual({ volumeHandle: "fs-01234567::store-access", mountTargets: 0 });
  });
});

test("a budget warns at 80 % of its amount and at a forecast above it", async () => {
  const emails = ["ops@example.org", "boss@example.org"];
  const { plan, config } = awsPlan({ ...eksValues, guard: { monthlyUsd: 1200, emails } });
  const budget = budgetArgs(config, plan.cost, CONTEXT);
  if (budget === null) throw new Error("There is no budget.");
  const found = await registeredBy(() => {
    new Guard("guard", { context: CONTEXT, budget });
  });
  expect(byName(found, "guard-budget").inputs).toMatchObject({
    limitAmount: "1200",
    costFilters: [{ name: "TagKeyValue", values: ["user:engine-room:stack$demo"] }],
    notifications: [
      { notificationType: "ACTUAL", threshold: 80, subscriberEmailAddresses: emails },
      { notificationType: "FORECASTED", threshold: 100, subscriberEmailAddresses: emails },
    ],
  });
});
