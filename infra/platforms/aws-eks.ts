/** `platform: aws`, `compute: eks`: a cluster on EKS, and in it everything of `platform: kubernetes`. */
import type { Service } from "@pulumi/kubernetes/core/v1/service.js";
import { Provider as KubernetesProvider } from "@pulumi/kubernetes/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { AddOns } from "../../components/aws/add-ons.ts";
import { Charts } from "../../components/aws/charts.ts";
import { Cluster } from "../../components/aws/cluster.ts";
import { ClusterStorage } from "../../components/aws/cluster-storage.ts";
import { Edge } from "../../components/aws/edge.ts";
import type { EngineFileSystem } from "../../components/aws/engine-file-system.ts";
import { GatewayBinding } from "../../components/aws/gateway-binding.ts";
import { GpuNodePool } from "../../components/aws/gpu-node-pool.ts";
import type { Network } from "../../components/aws/network.ts";
import { WorkloadRole } from "../../components/aws/workload-role.ts";
import { clusterOutputs } from "../cluster-outputs.ts";
import { planClusterImages } from "../image-inputs.ts";
import type { DeployedStack } from "../outputs.ts";
import { eksStack } from "../plan/aws/aws-stack.ts";
import { hasEdge } from "../plan/aws/services.ts";
import type { EksStack } from "../plan/aws/types.ts";
import type { EksPlan } from "../plan/gpu-stack.ts";
import { kubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import { SECRET_PATHS } from "../plan/kubernetes/pod-types.ts";
import type { KubernetesStack } from "../plan/kubernetes/types.ts";
import { awsProvider, deployAccount, deployFileSystem, withEdge } from "./aws-account.ts";
import { deployCluster, type MadeCluster, secretNames } from "./kubernetes-objects.ts";
import { secretValues } from "./secret-values.ts";
import { leaveOutStackTraces } from "./stack-traces.ts";
import { refuseUnpulled } from "./unpulled-images.ts";

/**
 * Registers the resources of a stack on EKS.
 *
 * @throws ConfigError where an image has no digest. A preview shows such a stack all the same, and warns.
 */
export function deployEks(plan: EksPlan): DeployedStack {
  leaveOutStackTraces();
  const { images, problems } = planClusterImages(plan);
  refuseUnpulled(problems);
  const name = pulumi.getStack();
  const aws = eksStack(plan, name);
  const objects = kubernetesStack(plan, { stack: name, images });
  const opts = { providers: { aws: awsProvider(aws.context) } };

  const { network } = deployAccount(aws, opts);
  const machines = deployMachines(aws, objects, network, opts);
  const edge = hasEdge(plan.config) ? deployEdge(aws, network, machines.cluster, opts) : null;
  deployCluster(objects, {
    secrets: secretValues(SECRET_PATHS, secretNames(objects)),
    made: {
      ...machines.made,
      bindGateway: (service, provider) =>
        edge === null ? [] : [bindGateway(service, { edge, objects, network, provider })],
    },
  });

  const outputs = clusterOutputs(plan, objects);
  return {
    ...outputs,
    ...withEdge(outputs, aws, plan, edge),
    engineStore: pulumi.interpolate`${machines.store.fileSystemId} by ${outputs.engineStore}`,
  };
}

interface Machines {
  readonly cluster: Cluster;
  readonly store: EngineFileSystem;
  readonly made: MadeCluster;
}

/** Control plane, machines, what runs on all of them, and the store that they mount. */
function deployMachines(
  { context, cluster: plan, ...aws }: EksStack,
  objects: KubernetesStack,
  network: Network,
  opts: pulumi.ComponentResourceOptions,
): Machines {
  const subnets = network.privateSubnets;
  const cluster = new Cluster("cluster", { context, plan, vpcId: network.vpcId, subnets }, opts);
  const { clusterName, securityGroupId, kubeconfig } = cluster;
  const store = deployFileSystem(
    { ...aws, context, cluster: plan },
    network,
    { name: "machines", securityGroupId },
    opts,
  );
  const onCluster = { context, clusterName };
  const early = new AddOns(
    "add-ons-before-machines",
    { ...onCluster, addOns: plan.addOns.filter(({ isBeforeNodes }) => isBeforeNodes), after: [cluster] },
    opts,
  );
  const nodeRole = new WorkloadRole("machine-role", { context, plan: plan.nodeRole }, opts);
  const pools = plan.pools.map(
    (pool) =>
      new GpuNodePool(
        `${pool.name}-machines`,
        {
          ...{ ...onCluster, plan: pool, version: plan.version, nodeRoleArn: nodeRole.arn, subnets },
          // Machines join through NAT gateways and endpoints, which their subnets don't refer to.
          after: [network, early, nodeRole],
        },
        opts,
      ),
  );
  const addOns = new AddOns(
    "add-ons",
    { ...onCluster, addOns: plan.addOns.filter(({ isBeforeNodes }) => !isBeforeNodes), after: pools },
    opts,
  );
  const podRoles = plan.podRoles.map(
    (role) => new WorkloadRole(`${role.subject}-role`, { ...onCluster, plan: role }, opts),
  );
  const installer = new KubernetesProvider(
    "cluster-installer",
    { kubeconfig, clusterIdentifier: clusterName },
    { dependsOn: [addOns] },
  );
  const inside = { providers: { ...opts.providers, kubernetes: installer } };
  const storage = new ClusterStorage(
    "cluster-storage",
    { volumeHandle: store.volumeHandle, labels: objects.labels },
    { ...inside, deletedWith: cluster.cluster, dependsOn: [...store.mountTargets] },
  );
  const charts = new Charts(
    "charts",
    {
      ...onCluster,
      charts: plan.charts,
      inputs: { clusterName, vpcId: network.vpcId },
      cluster: cluster.cluster,
      after: [addOns, storage],
    },
    inside,
  );
  return {
    cluster,
    store,
    made: {
      kubeconfig,
      identifier: clusterName,
      cluster: cluster.cluster,
      after: [charts, storage, ...podRoles],
    },
  };
}

/** The load balancer, which stays when the cluster is asleep. */
function deployEdge(
  { context, edge: plan }: EksStack,
  network: Network,
  { securityGroupId }: Cluster,
  opts: pulumi.ComponentResourceOptions,
): Edge {
  return new Edge(
    "edge",
    {
      ...{ context, plan, vpcId: network.vpcId },
      subnets: plan.isPublic ? network.publicSubnets : network.privateSubnets,
      target: { securityGroupId },
    },
    // AWS makes a public one only where there is an internet gateway, and takes that away only after it.
    { ...opts, dependsOn: [network] },
  );
}

interface GatewayTarget {
  readonly edge: Edge;
  readonly objects: KubernetesStack;
  readonly network: Network;
  readonly provider: pulumi.ProviderResource;
}

/** @returns What pods must come after, for the controller gives its condition only to those that a binding is there for. */
function bindGateway(service: Service, { edge, objects, network, provider }: GatewayTarget): pulumi.Resource {
  const { namespace, labels, gateway: plan } = objects;
  const port = plan.service.ports.http;
  if (port === undefined) throw new Error("The gateway's Service has no port of the name http.");
  return new GatewayBinding(
    "gateway-binding",
    {
      ...{ labels, namespace: namespace.name, vpcId: network.vpcId },
      service: { name: plan.service.name, port },
      targetGroupArn: edge.targetGroupArn,
    },
    // To pods a group without a load balancer has no healthy target, and they would not be ready.
    { providers: { kubernetes: provider }, dependsOn: [service, edge] },
  ).binding;
}
