import { Vpc } from "@pulumi/aws/ec2/vpc.js";
import * as pulumi from "@pulumi/pulumi";
import { describe, expect, test } from "vitest";
import { AddOns, Cluster, GpuNodePool } from "../../../components/aws/cluster.ts";
import { Charts, ClusterStorage } from "../../../components/aws/cluster-objects.ts";
import { WorkloadRole } from "../../../components/aws/workload-role.ts";
import type { AddOnPlan, ChartPlan } from "../../../infra/plan/aws/cluster-software.ts";
import type { AwsContext } from "../../../infra/plan/aws/context.ts";
import { documentText, placeholder } from "../../../infra/plan/aws/data-files.ts";
import type { NodePoolPlan } from "../../../infra/plan/aws/eks-cluster.ts";
import { type RolePlan, rolePlan } from "../../../infra/plan/aws/roles.ts";
import type { ChartName } from "../../../infra/plan/catalogue/aws.ts";
import type { Registration } from "../../../scripts/program/monitor.ts";
import { eksValues, plannedCluster } from "../../infra/plan/aws/eks-plans.ts";
import { byName, CONTEXT, once, registeredBy, treeOf } from "./registered.ts";

const ADMIN = "arn:aws:iam::111122223333:role/platform-team";

const access = { apiCidrs: ["203.0.113.7/32"], admins: [ADMIN] };

/** EKS's outputs of a created cluster. */
const made = {
  "aws:eks/cluster:Cluster": () => ({
    endpoint: "https://api.example.org",
    certificateAuthority: { data: "Q0E=" },
    vpcConfig: { clusterSecurityGroupId: "sg-cluster" },
  }),
};

async function registered(changes: object = {}) {
  const { context, cluster: plan } = plannedCluster({ access, ...changes });
  const shown: { kubeconfig?: string; secret?: boolean; securityGroupId?: string } = {};
  const registrations = await registeredBy(() => {
    const cluster = new Cluster("cluster", {
      context,
      plan,
      subnets: [
        { zone: "a", id: "subnet-a" },
        { zone: "b", id: "subnet-b" },
      ],
    });
    cluster.kubeconfig.apply((text) => {
      shown.kubeconfig = text;
    });
    cluster.securityGroupId.apply((id) => {
      shown.securityGroupId = id;
    });
    void pulumi.isSecret(cluster.kubeconfig).then((secret) => {
      shown.secret = secret;
    });
  }, made);
  return { registrations, shown };
}

const usual = once(() => registered());

test("a cluster has exactly a key, logs, a role and access entries of its administrators", async () => {
  const { registrations } = await usual();
  const [admin] = registrations.filter(({ type }) => type.endsWith(":AccessEntry"));
  expect(treeOf(registrations)).toEqual([
    "aws:cloudwatch/logGroup:LogGroup cluster-logs < cluster",
    `aws:eks/accessEntry:AccessEntry ${admin?.name} < cluster`,
    `aws:eks/accessPolicyAssociation:AccessPolicyAssociation ${admin?.name}-policy < cluster`,
    "aws:eks/cluster:Cluster cluster-cluster < cluster",
    "aws:iam/role:Role cluster-role-role < cluster-role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment cluster-role-AmazonEKSClusterPolicy < cluster-role",
    "aws:kms/key:Key cluster-secrets-key < cluster",
    "engine-room:aws:Cluster cluster < engine-room-demo",
    "engine-room:aws:WorkloadRole cluster-role < cluster",
    "local:index:FixedValues cluster-key < cluster",
  ]);
  expect(byName(registrations, `${admin?.name}-policy`).inputs).toMatchObject({
    clusterName: "engine-room-demo",
    principalArn: ADMIN,
    policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
    accessScope: { type: "cluster" },
  });
});

test("viewers read all objects in namespaces except Secrets, by an entry of their own", async () => {
  const viewer = "arn:aws:iam::111122223333:role/viewers";
  const { registrations } = await registered({ access: { ...access, viewers: [viewer] } });
  const ofType = (type: string) =>
    registrations.filter((one) => one.type === `aws:eks/${type}`).map(({ inputs }) => inputs);
  expect(ofType("accessEntry:AccessEntry").map(({ principalArn }) => principalArn)).toEqual([ADMIN, viewer]);
  expect(ofType("accessPolicyAssociation:AccessPolicyAssociation")).toMatchObject([
    { principalArn: ADMIN, policyArn: expect.stringMatching(/\/AmazonEKSClusterAdminPolicy$/) },
    { principalArn: viewer, policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" },
  ]);
});

test("whether the creator administers a cluster is set at creation, and another value replaces no cluster", async () => {
  const creator = async (changes: object) => {
    const { registrations } = await registered(changes);
    return byName(registrations, "cluster-cluster");
  };
  const named = await creator({ access: { ...access, creatorIsAdmin: false } });
  expect(named.inputs.accessConfig).toEqual({
    authenticationMode: "API",
    bootstrapClusterCreatorAdminPermissions: false,
  });
  for (const one of [named, await creator({})])
    expect(one.options.ignoreChanges).toEqual(["accessConfig.bootstrapClusterCreatorAdminPermissions"]);
});

test("a private API is closed to the internet and open to the networks of its security group", async () => {
  const { registrations } = await registered({
    access: { endpoint: "private", privateCidrs: ["10.9.0.0/16", "10.8.0.0/16", "10.9.0.0/16"] },
  });
  expect(byName(registrations, "cluster-cluster").inputs.vpcConfig).toEqual({
    endpointPrivateAccess: true,
    endpointPublicAccess: false,
    subnetIds: ["subnet-a", "subnet-b"],
  });
  const rules = registrations.filter(({ type }) => type.endsWith(":SecurityGroupIngressRule"));
  expect(rules.map(({ name, inputs }) => [name, inputs.cidrIpv4])).toEqual([
    ["cluster-api-from-10-8-0-0-16", "10.8.0.0/16"],
    ["cluster-api-from-10-9-0-0-16", "10.9.0.0/16"],
  ]);
  for (const { inputs } of rules)
    expect(inputs).toMatchObject({
      securityGroupId: "sg-cluster",
      ipProtocol: "tcp",
      fromPort: 443,
      toPort: 443,
      tags: { "engine-room:stack": "demo" },
    });
});

test("the API of a cluster is open to the VPC and the given networks, and Secrets are encrypted", async () => {
  const { registrations } = await usual();
  const cluster = byName(registrations, "cluster-cluster");
  expect(cluster.inputs).toMatchObject({
    encryptionConfig: { provider: { keyArn: "arn:of:cluster-secrets-key" }, resources: ["secrets"] },
    vpcConfig: {
      endpointPrivateAccess: true,
      endpointPublicAccess: true,
      publicAccessCidrs: ["203.0.113.7/32"],
    },
  });
  expect(byName(registrations, "cluster-secrets-key").inputs).toMatchObject({ enableKeyRotation: true });
});

test("the log group of a cluster and its retention are created before the cluster", async () => {
  const { registrations } = await usual();
  const logs = byName(registrations, "cluster-logs");
  expect(logs.inputs).toMatchObject({ name: "/aws/eks/engine-room-demo/cluster", retentionInDays: 30 });
  expect(byName(registrations, "cluster-cluster").dependencies).toContain(logs.urn);
});

test("a retained cluster and its key are protected against deletion", async () => {
  const { registrations } = await registered({ retain: ["demo"] });
  const cluster = byName(registrations, "cluster-cluster");
  expect(cluster.inputs.deletionProtection).toBe(true);
  expect(cluster.options.protect).toBe(true);
  expect(byName(registrations, "cluster-secrets-key").options.protect).toBe(true);
});

test("the kubeconfig of a cluster is not secret and logs in through AWS", async () => {
  const { shown } = await usual();
  expect(shown.secret).toBe(false);
  expect(shown.securityGroupId).toBe("sg-cluster");
  expect(shown.kubeconfig).toBe(
    documentText("kubeconfig", {
      name: "engine-room-demo",
      region: "us-east-1",
      endpoint: "https://api.example.org",
      certificateAuthority: "Q0E=",
    }),
  );
});

describe("node pool", () => {
  function planOf(changes: object = {}): NodePoolPlan {
    const pools = [{ ...eksValues.pools[0], zones: ["b"], ...changes }, eksValues.pools[1]];
    const found = plannedCluster({ pools }).cluster.pools.find(({ name }) => name === "gpu");
    if (found === undefined) throw new Error("There is no pool gpu");
    return found;
  }

  const made = {
    "aws:eks/nodeGroup:NodeGroup": () => ({ resources: [{ autoscalingGroups: [{ name: "eks-gpu-1" }] }] }),
    "aws:ec2/launchTemplate:LaunchTemplate": () => ({ latestVersion: 7 }),
  };

  function registered(
    plan: NodePoolPlan = planOf(),
    context: AwsContext = CONTEXT,
  ): Promise<readonly Registration[]> {
    return registeredBy(() => {
      new GpuNodePool("gpu", {
        context,
        plan,
        clusterName: "demo-cluster",
        nodeRoleArn: "arn:of:node",
        subnets: [
          { zone: "a", id: "subnet-a" },
          { zone: "b", id: "subnet-b" },
        ],
        after: [],
      });
    }, made);
  }

  const usual = once(() => registered());

  test("a node pool has exactly a node group, its size, a launch template and tags for the autoscaler", async () => {
    const tags = Object.keys(planOf().scalingTags).map((key) =>
      key.replace("k8s.io/cluster-autoscaler/", ""),
    );
    expect(tags).toContain("node-template/taint/nvidia.com/gpu");
    expect(treeOf(await usual())).toEqual([
      ...tags.toSorted().map((tag) => `aws:autoscaling/tag:Tag gpu-${tag} < gpu`),
      "aws:ec2/launchTemplate:LaunchTemplate gpu-template < gpu",
      "aws:eks/nodeGroup:NodeGroup gpu-group < gpu",
      "engine-room:aws:GpuNodePool gpu < engine-room-demo",
      "local:index:NodeGroupSize gpu-size < gpu",
    ]);
  });

  test("a launch template has the user data in base64 and keeps the node's role from pods", async () => {
    const { inputs } = byName(await usual(), "gpu-template");
    expect(inputs).toMatchObject({
      metadataOptions: { httpTokens: "required", httpPutResponseHopLimit: 1 },
      blockDeviceMappings: [{ ebs: { volumeType: "gp3", encrypted: "true", deleteOnTermination: "true" } }],
    });
    expect(Buffer.from(String(inputs.userData), "base64").toString()).toMatch(/^MIME-Version: 1\.0\n/);
  });

  test("a node group is replaced without deleting it first, and its size is a resource of its own", async () => {
    const group = byName(await usual(), "gpu-group");
    expect(group.inputs).toMatchObject({
      nodeGroupNamePrefix: "gpu-",
      // Only subnets in the pool's zones.
      subnetIds: ["subnet-b"],
      launchTemplate: { id: "gpu-template", version: "7" },
      tags: { Name: "engine-room-demo-gpu" },
    });
    // One of the three that changed would send the others as they were in the state.
    expect(group.options.ignoreChanges).toEqual(["scalingConfig"]);
    expect(group.options.deleteBeforeReplace).toBeUndefined();
    const size = byName(await usual(), "gpu-size");
    expect(size.inputs).toEqual({ nodeGroupArn: "arn:of:gpu-group", min: 0, max: 1 });
  });

  test("the Auto Scaling group has the tags that describe an empty pool", async () => {
    const tag = byName(await usual(), "gpu-node-template/label/engine-room/pool");
    expect(tag.inputs).toEqual({
      autoscalingGroupName: "eks-gpu-1",
      tag: {
        key: "k8s.io/cluster-autoscaler/node-template/label/engine-room/pool",
        value: "gpu",
        propagateAtLaunch: false,
      },
    });
  });

  test("another instance type changes the node group and not its launch template", async () => {
    const before = await usual();
    const after = await registered({
      ...planOf(),
      nodeGroup: { ...planOf().nodeGroup, instanceTypes: ["g5.2xlarge"] },
    });
    const changed = after.filter(
      ({ name, inputs }) => JSON.stringify(byName(before, name).inputs) !== JSON.stringify(inputs),
    );
    expect(changed.map(({ name }) => name)).toEqual(["gpu-group"]);
  });

  test("another tag of the stack does not replace nodes", async () => {
    const tagged = { ...CONTEXT, tags: { ...CONTEXT.tags, "engine-room:ttl-hours": "8" } };
    const { inputs } = byName(await registered(planOf(), tagged), "gpu-template");
    expect(inputs.tags).toMatchObject({ "engine-room:ttl-hours": "8" });
    expect(inputs.tagSpecifications).toEqual(byName(await usual(), "gpu-template").inputs.tagSpecifications);
  });

  test("a pool's machines, their network interfaces and volumes have the stack's tags", async () => {
    const { tagSpecifications } = byName(await usual(), "gpu-template").inputs as {
      readonly tagSpecifications: readonly { readonly resourceType: string; readonly tags: object }[];
    };
    expect(tagSpecifications.map(({ resourceType }) => resourceType)).toEqual([
      "instance",
      "network-interface",
      "volume",
    ]);
    for (const { tags } of tagSpecifications)
      expect(tags).toMatchObject({ "engine-room:stack": CONTEXT.tags["engine-room:stack"] });
  });

  test("a launch template has the pool's capacity reservation", async () => {
    const reserved = await registered(planOf({ capacityReservationId: "cr-0123456789abcdef0" }));
    expect(byName(reserved, "gpu-template").inputs.capacityReservationSpecification).toEqual({
      capacityReservationTarget: { capacityReservationId: "cr-0123456789abcdef0" },
    });
  });

  test("a pool in a zone without a subnet is refused", async () => {
    await expect(registered({ ...planOf(), zones: ["c"] })).rejects.toThrow(
      "The network has no subnet in a zone of the pool gpu: c",
    );
  });
});

describe("add-ons", () => {
  const planOf = (name: string): AddOnPlan => {
    const found = plannedCluster().cluster.addOns.find(({ args }) => args.addonName === name);
    if (found === undefined) throw new Error(`There is no add-on ${name}`);
    return found;
  };

  async function registered(addOns: readonly AddOnPlan[]) {
    return registeredBy(() => {
      const machines = new WorkloadRole("machines", { context: CONTEXT, plan: rolePlan(CONTEXT, "node") });
      new AddOns("add-ons", { context: CONTEXT, addOns, clusterName: "demo-cluster", after: [machines] });
    });
  }

  test("each add-on is one resource, with a role if it calls AWS", async () => {
    const made = (await registered([planOf("kube-proxy"), planOf("vpc-cni")])).filter(
      ({ name }) => !name.startsWith("machines"),
    );
    expect(treeOf(made)).toEqual([
      "aws:eks/addon:Addon add-ons-kube-proxy < add-ons",
      "aws:eks/addon:Addon add-ons-vpc-cni < add-ons",
      "aws:eks/podIdentityAssociation:PodIdentityAssociation add-ons-vpc-cni-role-association < add-ons-vpc-cni-role",
      "aws:iam/role:Role add-ons-vpc-cni-role-role < add-ons-vpc-cni-role",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment add-ons-vpc-cni-role-AmazonEKS_CNI_Policy < add-ons-vpc-cni-role",
      "engine-room:aws:AddOns add-ons < engine-room-demo",
      "engine-room:aws:WorkloadRole add-ons-vpc-cni-role < add-ons",
    ]);
  });

  test.each([
    ["vpc-cni", "aws-node"],
    // EKS accepts only the controller's account in the add-on's own list.
    ["aws-efs-csi-driver", "efs-csi-node-sa"],
  ])(
    "pods of the add-on %s have their role by an association of its own, which is made before it",
    async (name, serviceAccount) => {
      const made = await registered([planOf(name)]);
      const addOn = byName(made, `add-ons-${name}`);
      const association = byName(made, `add-ons-${name}-role-association`);
      expect(addOn.inputs).not.toHaveProperty("podIdentityAssociations");
      expect(association.inputs).toMatchObject({
        clusterName: "demo-cluster",
        namespace: "kube-system",
        serviceAccount,
        roleArn: `arn:of:add-ons-${name}-role-role`,
      });
      const policies = made.filter(
        ({ type, name: own }) => own.startsWith(`add-ons-${name}-role-`) && /:RolePolicy/.test(type),
      );
      expect(policies).toHaveLength(1);
      expect(addOn.dependencies).toEqual(
        expect.arrayContaining([
          association.urn,
          ...policies.map(({ urn }) => urn),
          byName(made, "machines-AmazonEKSWorkerNodePolicy").urn,
        ]),
      );
    },
  );
});

describe("charts", () => {
  const planOf = (name: ChartName): ChartPlan => {
    const gateway = { replicas: 2, minReplicas: 1 };
    const found = plannedCluster({ gateway }).cluster.charts.find((chart) => chart.name === name);
    if (found === undefined) throw new Error(`There is no chart ${name}`);
    return found;
  };
  const keda = planOf("keda");
  const autoscaler = planOf("cluster-autoscaler");

  function registered(charts: readonly ChartPlan[]) {
    return registeredBy(() => {
      const cluster = new Vpc("cluster", {});
      new Charts("charts", {
        context: CONTEXT,
        cluster,
        charts,
        clusterName: pulumi.output("demo-cluster"),
        vpcId: "vpc-1",
        after: [],
      });
    });
  }

  test("each chart is one Helm release, with a role if it calls AWS", async () => {
    expect(treeOf(await registered([autoscaler, keda]))).toEqual([
      "aws:ec2/vpc:Vpc cluster < engine-room-demo",
      "aws:eks/podIdentityAssociation:PodIdentityAssociation charts-cluster-autoscaler-role-association < charts-cluster-autoscaler-role",
      "aws:iam/role:Role charts-cluster-autoscaler-role-role < charts-cluster-autoscaler-role",
      "aws:iam/rolePolicy:RolePolicy charts-cluster-autoscaler-role-policy < charts-cluster-autoscaler-role",
      "engine-room:aws:Charts charts < engine-room-demo",
      "engine-room:aws:WorkloadRole charts-cluster-autoscaler-role < charts",
      "kubernetes:helm.sh/v3:Release charts-cluster-autoscaler < charts",
      "kubernetes:helm.sh/v3:Release charts-keda < charts",
    ]);
  });

  test("a Helm release is atomic and waits for its pods' role", async () => {
    const made = await registered([autoscaler]);
    const release = byName(made, "charts-cluster-autoscaler");
    expect(release.inputs).toMatchObject({
      values: { ...autoscaler.args.values, autoDiscovery: { clusterName: "demo-cluster" } },
      atomic: true,
      waitForJobs: true,
    });
    expect(release.dependencies).toContain(byName(made, "charts-cluster-autoscaler-role-association").urn);
  });

  test("a Helm release is deleted with the cluster unless it has a disk, and its role never is", async () => {
    const made = await registered([autoscaler, { ...keda, hasDisk: true }]);
    const { urn } = byName(made, "cluster");
    expect(byName(made, "charts-cluster-autoscaler").options.deletedWith).toBe(urn);
    for (const name of ["charts", "charts-keda", "charts-cluster-autoscaler-role"])
      expect(byName(made, name).options.deletedWith).toBeUndefined();
  });

  test("known values of a chart stay known in a preview beside unknown ones", async () => {
    const controller = planOf("load-balancer-controller");
    const made = await registeredBy(
      () => {
        // An id that no answer gives is known only after `up`.
        const vpc = new Vpc("vpc", {});
        const inputs = { clusterName: "demo-cluster", vpcId: vpc.mainRouteTableId };
        new Charts("charts", { context: CONTEXT, charts: [controller], ...inputs, cluster: vpc, after: [] });
      },
      {},
      { preview: true },
    );
    expect(byName(made, "charts-load-balancer-controller").inputs.values).toEqual({
      ...controller.args.values,
      clusterName: "demo-cluster",
      vpcId: pulumi.runtime.unknownValue,
    });
  });
});

describe("workload role", () => {
  const plan: RolePlan = {
    ...rolePlan(CONTEXT, "vpc-cni"),
    statements: [
      {
        Sid: "Mount",
        Effect: "Allow",
        Action: ["elasticfilesystem:ClientMount"],
        Resource: [placeholder("fileSystemArn")],
        Condition: { StringEquals: { "aws:ResourceTag/of": placeholder("aws:PrincipalTag/of") } },
      },
    ],
  };

  test("a pod role has its policies and is assumed by its ServiceAccount in the stack's cluster only", async () => {
    const made = await registeredBy(() => {
      new WorkloadRole("efs", {
        context: CONTEXT,
        plan,
        inputs: { fileSystemArn: "arn:fs" },
        clusterName: "engine-room-demo",
      });
    });
    expect(treeOf(made)).toEqual([
      "aws:eks/podIdentityAssociation:PodIdentityAssociation efs-association < efs",
      "aws:iam/role:Role efs-role < efs",
      "aws:iam/rolePolicy:RolePolicy efs-policy < efs",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment efs-AmazonEKS_CNI_Policy < efs",
      "engine-room:aws:WorkloadRole efs < engine-room-demo",
    ]);
    const role = byName(made, "efs-role").inputs;
    expect(role).toMatchObject({
      name: "engine-room-demo-vpc-cni",
      tags: { "engine-room:stack": "demo", Name: "engine-room-demo-vpc-cni" },
    });
    expect(JSON.parse(String(role.assumeRolePolicy))).toEqual({
      Version: "2012-10-17",
      Statement: [
        {
          Effect: "Allow",
          Principal: { Service: "pods.eks.amazonaws.com" },
          Action: ["sts:AssumeRole", "sts:TagSession"],
          Condition: {
            StringEquals: {
              "aws:RequestTag/eks-cluster-name": "engine-room-demo",
              "aws:RequestTag/kubernetes-namespace": "kube-system",
              "aws:RequestTag/kubernetes-service-account": "aws-node",
            },
          },
        },
      ],
    });
    expect(JSON.parse(String(byName(made, "efs-policy").inputs.policy))).toEqual({
      Version: "2012-10-17",
      Statement: [
        {
          Sid: "Mount",
          Effect: "Allow",
          Action: ["elasticfilesystem:ClientMount"],
          Resource: ["arn:fs"],
          Condition: { StringEquals: { "aws:ResourceTag/of": placeholder("aws:PrincipalTag/of") } },
        },
      ],
    });
    expect(byName(made, "efs-association").inputs).toMatchObject({
      clusterName: "engine-room-demo",
      namespace: "kube-system",
      serviceAccount: "aws-node",
      roleArn: "arn:of:efs-role",
    });
  });

  test("a service role has no pod identity association, and no inline policy without statements", async () => {
    const made = await registeredBy(() => {
      new WorkloadRole("node", {
        context: CONTEXT,
        plan: rolePlan(CONTEXT, "node"),
        clusterName: "engine-room-demo",
      });
    });
    expect(treeOf(made)).toEqual([
      "aws:iam/role:Role node-role < node",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment node-AmazonEC2ContainerRegistryPullOnly < node",
      "aws:iam/rolePolicyAttachment:RolePolicyAttachment node-AmazonEKSWorkerNodePolicy < node",
      "engine-room:aws:WorkloadRole node < engine-room-demo",
    ]);
    expect(JSON.parse(String(byName(made, "node-role").inputs.assumeRolePolicy)).Statement).toEqual([
      { Effect: "Allow", Principal: { Service: "ec2.amazonaws.com" }, Action: ["sts:AssumeRole"] },
    ]);
  });

  test("a role's placeholder without a value is an error", async () => {
    const create = () => new WorkloadRole("efs", { context: CONTEXT, plan });
    await expect(registeredBy(create)).rejects.toThrow("No value was given for fileSystemArn");
  });
});

test.each([
  [true, "Retain"],
  [false, "Delete"],
])(
  "disks of databases outlive their claims if the stack is retained: %s",
  async (isRetained, reclaimPolicy) => {
    const context = { ...CONTEXT, isRetained };
    const names = { engineVolume: "engines", databaseStorageClass: "disks" };
    const made = await registeredBy(() => {
      new ClusterStorage("storage", { context, names, volumeHandle: "fs-1::fsap-1", labels: {} });
    });
    const { inputs, options } = byName(made, "storage-disks");
    expect(inputs).toMatchObject({ reclaimPolicy });
    // The API server refuses a change of it in place.
    expect(options).toMatchObject({
      deleteBeforeReplace: true,
      replaceOnChanges: ["reclaimPolicy", "volumeBindingMode"],
    });
  },
);
