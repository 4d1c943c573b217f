import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { placeholderNames } from "../../../../infra/plan/aws/placeholders.ts";
import type { ClusterPlan, RolePlan } from "../../../../infra/plan/aws/types.ts";
import { CHART_NAMES } from "../../../../infra/plan/catalogue/charts.ts";
import { KUBERNETES_VERSIONS } from "../../../../infra/plan/catalogue/kubernetes-versions.ts";
import { eksValues, plannedCluster, shippedCluster } from "./eks-plans.ts";

const TOKEN_ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-token-AbCdEf";

function rolesOf({ role, nodeRole, podRoles, addOns, charts }: ClusterPlan): readonly RolePlan[] {
  return [role, nodeRole, ...podRoles, ...[...addOns, ...charts].flatMap(({ role: own }) => own ?? [])];
}

describe("add-ons", () => {
  test.each(KUBERNETES_VERSIONS)("of %s are pinned to builds of EKS", (version) => {
    const { cluster } = plannedCluster({ cluster: { version }, hub: { tokenSecretArn: TOKEN_ARN } });
    for (const addOn of cluster.addOns) expect(addOn.version).toMatch(/^v\d+\.\d+\.\d+-eksbuild\.\d+$/);
    const ofProxy = cluster.addOns.find(({ name }) => name === "kube-proxy");
    expect(ofProxy?.version).toMatch(new RegExp(`^v${version}\\.`));
  });

  test("are those that machines need to join, and then the rest", () => {
    const { cluster } = plannedCluster();
    const names = (isBefore: boolean) =>
      cluster.addOns.filter(({ isBeforeNodes }) => isBeforeNodes === isBefore).map(({ name }) => name);
    expect(names(true)).toEqual(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"]);
    expect(names(false)).toEqual(["aws-ebs-csi-driver", "aws-efs-csi-driver", "coredns", "metrics-server"]);
  });

  test("give disks of claims the stack's tags", () => {
    const { cluster, context } = plannedCluster();
    const disks = cluster.addOns.find(({ name }) => name === "aws-ebs-csi-driver");
    expect(disks?.configuration?.controller).toMatchObject({ extraVolumeTags: context.lastingTags });
    expect(context.lastingTags).toMatchObject({ "engine-room:stack": "demo" });
  });

  test("enforce network policies", () => {
    const cni = plannedCluster().cluster.addOns.find(({ name }) => name === "vpc-cni");
    expect(cni?.configuration).toEqual({ enableNetworkPolicy: "true" });
  });

  test("read secrets only where the hub's token is one, with the right to that one", () => {
    const without = plannedCluster().cluster;
    expect(without.podRoles).toEqual([]);
    const { cluster } = plannedCluster({ namespace: "models", hub: { tokenSecretArn: TOKEN_ARN } });
    const names = cluster.addOns.map(({ name }) => name);
    expect(names.filter((name) => !without.addOns.some((other) => other.name === name))).toEqual([
      "aws-secrets-store-csi-driver-provider",
    ]);
    expect(cluster.podRoles.map(({ serviceAccount }) => serviceAccount)).toEqual([
      { namespace: "models", name: "engine-build" },
    ]);
    expect(cluster.podRoles[0]?.statements.map(({ actions, resources }) => ({ actions, resources }))).toEqual(
      [
        {
          actions: ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"],
          resources: [TOKEN_ARN],
        },
      ],
    );
  });
});

describe("charts", () => {
  test("are all installed, each pinned, by https", () => {
    const { charts } = plannedCluster().cluster;
    expect(charts.map(({ name }) => name)).toEqual([...CHART_NAMES]);
    for (const { version, repository } of charts) {
      expect(version).toMatch(/^\d+\.\d+\.\d+$/);
      expect(repository).toMatch(/^https:\/\//);
    }
  });

  test.each(CHART_NAMES)("leave %s to somebody else", (name) => {
    const { charts } = plannedCluster({ cluster: { charts: { [name]: "existing" } } }).cluster;
    expect(charts.map((chart) => chart.name)).toEqual(CHART_NAMES.filter((other) => other !== name));
  });

  test("are told of nothing that the platform does not fill in", () => {
    const names = placeholderNames(plannedCluster().cluster.charts.map(({ values }) => values));
    expect(names).toEqual(["clusterName", "vpcId"]);
  });

  test("put Prometheus where autoscalers ask it, and the exporter where the stack's monitor reads it", () => {
    const { cluster, plan } = plannedCluster({ monitoringNamespace: "watch" });
    const place = (name: string) => {
      const chart = cluster.charts.find((one) => one.name === name);
      return [chart?.release, chart?.namespace];
    };
    expect(place("kube-prometheus-stack")).toEqual(["kube-prometheus-stack", "watch"]);
    expect(plan.cluster.autoscaling.prometheusUrl).toBe("http://prometheus-operated.watch.svc:9090");
    expect(plan.cluster.monitoring?.labels).toEqual({ release: "kube-prometheus-stack" });
    expect(place("dcgm-exporter")).toEqual([
      "dcgm-exporter",
      plan.cluster.monitoring?.gpuExporter?.namespace,
    ]);
  });

  test("have the device plugin divide GPUs as each pool says", () => {
    const { charts } = plannedCluster({
      pools: [
        eksValues.pools[0],
        { name: "shared", instanceType: "g5.4xlarge", sharing: { mode: "timeSlicing", replicas: 4 } },
        eksValues.pools[1],
      ],
      models: [{ ...eksValues.models[0], pool: "gpu" }],
    }).cluster;
    const values = charts.find(({ name }) => name === "device-plugin")?.values as {
      readonly config: { readonly map: Readonly<Record<string, string>> };
    };
    const parsed = Object.entries(values.config.map).map(([pool, text]) => [pool, JSON.parse(text)]);
    expect(Object.fromEntries(parsed)).toEqual({
      gpu: { version: "v1" },
      shared: {
        version: "v1",
        sharing: {
          timeSlicing: {
            failRequestsGreaterThanOne: true,
            resources: [{ name: "nvidia.com/gpu", replicas: 4 }],
          },
        },
      },
    });
  });
});

describe("roles", () => {
  const clusters = () => [
    shippedCluster("dev").cluster,
    shippedCluster("prod").cluster,
    plannedCluster({ hub: { tokenSecretArn: TOKEN_ARN } }).cluster,
  ];

  test("allow single actions by name", () => {
    const actions = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) => statements.flatMap((one) => one.actions)),
    );
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/^[a-z0-9-]+:[A-Z][A-Za-z]+$/);
  });

  test("reach all resources only with actions that have none", () => {
    const wide = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) =>
        statements.filter(({ resources }) => resources.includes("*")),
      ),
    );
    for (const { actions, why } of wide) {
      expect(why).toMatch(/no resource|has a resource/);
      for (const action of actions) expect(action).toMatch(/:(Describe|Get)/);
    }
  });

  test("change only what is the cluster's or the stack's", () => {
    const changing = clusters().flatMap((cluster) =>
      rolesOf(cluster).flatMap(({ statements }) =>
        statements.filter(({ actions }) => actions.some((one) => !/:(Describe|Get)/.test(one))),
      ),
    );
    expect(changing.length).toBeGreaterThan(0);
    for (const { conditions } of changing)
      expect(Object.keys(conditions?.StringEquals ?? {})[0]).toMatch(/^aws:ResourceTag\//);
  });

  test("have one ServiceAccount each, and no two the same name", () => {
    for (const cluster of clusters()) {
      const roles = rolesOf(cluster);
      expect(new Set(roles.map(({ subject }) => subject)).size).toBe(roles.length);
      for (const { service, serviceAccount } of roles)
        expect(serviceAccount !== null).toBe(service === "pods.eks.amazonaws.com");
    }
  });
});

test("the plan of a cluster is data: the same stack file, the same bytes", () => {
  const prod = () => JSON.stringify(shippedCluster("prod").cluster);
  expect(prod()).toBe(prod());
});

test("a model changes no machine", () => {
  const machines = (changes: Parameters<typeof plannedCluster>[0]) => plannedCluster(changes).cluster.pools;
  const lists = fc.uniqueArray(fc.constantFrom("a", "b", "c"), { minLength: 1 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 4 }), (names, maxBatchSize) => {
      const models = names.map((name) => ({ name, model: "gpt2-medium", limits: { maxBatchSize } }));
      const pools = [{ ...eksValues.pools[0], nodes: { min: 0, max: 4 } }, eksValues.pools[1]];
      expect(machines({ pools, models })).toEqual(machines({ pools }));
    }),
    { numRuns: 10 },
  );
});

test("who is named twice as an administrator, or as an address, is one", () => {
  const [one, other] = ["role/b", "role/a"].map((name) => `arn:aws:iam::111122223333:${name}`);
  const apiCidrs = ["203.0.113.9/32", "203.0.113.7/32", "203.0.113.9/32"];
  const { cluster } = plannedCluster({ access: { apiCidrs, admins: [one, other, one] } });
  expect(cluster.admins).toEqual([other, one]);
  expect(cluster.publicCidrs).toEqual(["203.0.113.7/32", "203.0.113.9/32"]);
});
