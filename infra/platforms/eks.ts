/** `platform: aws`, `compute: eks`: a cluster on EKS, and in it everything of `platform: kubernetes`. */
import { Provider as KubernetesProvider } from "@pulumi/kubernetes/provider.js";
import * as pulumi from "@pulumi/pulumi";
import { AddOns, Cluster, ExistingCluster, GpuNodePool } from "../../components/aws/cluster.ts";
import { Charts, ClusterStorage, GatewayBinding } from "../../components/aws/cluster-objects.ts";
import { EngineFileSystem } from "../../components/aws/engine-file-system.ts";
import type { Network } from "../../components/aws/network.ts";
import { WorkloadRole } from "../../components/aws/workload-role.ts";
import { clusterOutputs, type DeployedStack } from "../outputs.ts";
import { type EksStack, eksStack } from "../plan/aws/account.ts";
import { hasEdge } from "../plan/aws/network.ts";
import { autoscalerTag } from "../plan/catalogue/aws.ts";
import type { EksPlan } from "../plan/gpu-stack.ts";
import type { KubernetesStack } from "../plan/kubernetes/kubernetes-stack.ts";
import { type AccountOptions, deployAccount, deployEdge, protectStack, withEdge } from "./aws-account.ts";
import { deployCluster, type MadeCluster, plannedObjects } from "./kubernetes.ts";
import { inPlace, type Place } from "./program.ts";

/**
 * Registers the resources of a stack on EKS.
 *
 * @throws ConfigError if an image has no digest. A preview shows such a stack all the same, and warns.
 */
export function deploy(plan: EksPlan, place: Place): DeployedStack {
  const objects = plannedObjects(plan, place);
  const aws = eksStack(plan, place.name);
  const { network, opts, parts } = deployAccount(aws, place);
  const { securityGroupId, store, made, machines } = deployMachines(aws, objects, network, opts);
  const target = { securityGroupId };
  // It stays while the cluster sleeps.
  const edge = hasEdge(plan.config) ? deployEdge(aws, network, target, opts) : null;
  const others: pulumi.Resource[] = edge === null ? [] : [edge];
  const bindGateway: MadeCluster["bindGateway"] = (service, provider) => {
    if (edge === null) return [];
    const gateway = new GatewayBinding(
      "gateway-binding",
      {
        labels: objects.labels,
        namespace: objects.namespace.name,
        service: { name: objects.gateway.name, port: plan.gateway.port },
        targetGroupArn: edge.targetGroupArn,
        vpcId: network.vpcId,
      },
      // Pods are not ready while their target group has no load balancer, because none of its targets is healthy.
      { ...inPlace(place), providers: { kubernetes: provider }, dependsOn: [service, edge] },
    );
    others.push(gateway);
    // The gateway's pods come after it: the controller adds its readiness gate only to pods of an existing binding.
    return [gateway.binding];
  };
  const workloads = deployCluster(objects, place, { ...made, bindGateway });
  protectStack(aws, place, [...parts, ...machines, ...others, ...workloads]);

  const outputs = clusterOutputs(plan, objects);
  return {
    ...outputs,
    ...withEdge(outputs, aws, plan, edge),
    engineStore: pulumi.interpolate`${store.fileSystemId} by ${outputs.engineStore}`,
  };
}

/** Control plane, machines, add-ons and charts, and the store that machines mount. */
function deployMachines(aws: EksStack, objects: KubernetesStack, network: Network, opts: AccountOptions) {
  const { context, cluster: plan } = aws;
  const { providers: _aws, ...parent } = opts;
  const { vpcId, privateSubnets: subnets } = network;
  const control =
    plan.existing === null
      ? new Cluster("cluster", { context, plan, subnets }, opts)
      : new ExistingCluster("cluster", { context, clusterName: plan.existing }, opts);
  const { clusterName, securityGroupId, kubeconfig } = control;
  // Objects in a cluster of the stack's own are deleted with it; an existing cluster stays.
  const cluster = control instanceof Cluster ? control.cluster : null;
  const deletedWith = cluster === null ? {} : { deletedWith: cluster };
  const version = control instanceof ExistingCluster ? control.version : undefined;
  const store = new EngineFileSystem(
    "engine-store",
    { context, plan: aws.fileSystem, vpcId, subnets, client: { name: "machines", securityGroupId } },
    opts,
  );
  const addOns = (name: string, isEarly: boolean, after: readonly pulumi.Resource[]) => {
    const own = plan.addOns.filter(({ isBeforeNodes }) => isBeforeNodes === isEarly);
    return new AddOns(name, { context, clusterName, addOns: own, after }, opts);
  };
  const early = addOns("add-ons-before-machines", true, [control]);
  const nodeRole = new WorkloadRole("machine-role", { context, plan: plan.nodeRole }, opts);
  // Machines join through NAT gateways and endpoints, to which their subnets don't refer.
  const joining = { nodeRoleArn: nodeRole.arn, subnets, after: [network, early, nodeRole] };
  const pools = plan.pools.map(
    (pool) =>
      new GpuNodePool(
        `${pool.name}-machines`,
        { context, clusterName, version, plan: pool, ...joining },
        opts,
      ),
  );
  const late = addOns("add-ons", false, pools);
  const podRoles = plan.podRoles.map(
    (role) => new WorkloadRole(`${role.subject}-role`, { context, clusterName, plan: role }, opts),
  );
  const installer = new KubernetesProvider(
    "cluster-installer",
    { kubeconfig, clusterIdentifier: clusterName },
    { ...parent, dependsOn: [late] },
  );
  const inside = { ...parent, providers: { ...opts.providers, kubernetes: installer } };
  const storage = new ClusterStorage(
    "cluster-storage",
    {
      context,
      names: plan.wideNames,
      volumeHandle: store.volumeHandle,
      labels: objects.labels,
    },
    { ...inside, ...deletedWith, dependsOn: [...store.mountTargets] },
  );
  const charts = new Charts(
    "charts",
    {
      ...{ context, charts: plan.charts, clusterName, vpcId, cluster, after: [late, storage] },
      autoscalerTag: version?.apply(autoscalerTag),
    },
    inside,
  );
  const after = [charts, storage, ...podRoles];
  return {
    securityGroupId,
    store,
    made: { kubeconfig, identifier: clusterName, cluster, after },
    machines: [control, store, early, nodeRole, ...pools, late, ...after],
  };
}
