/** Checks of an existing cluster on EKS: its settings in the stack file, and the parts that the stack requires. */
import { eksClusterPlan } from "../../infra/plan/aws/eks-cluster.ts";
import { installedCharts, KUBERNETES_VERSIONS } from "../../infra/plan/catalogue/aws.ts";
import type { EksPlan } from "../../infra/plan/gpu-stack.ts";
import { ask } from "../aws/session.ts";
import type { AwsTarget } from "../program/targets.ts";
import type { Found } from "./aws-services.ts";
import { type Finding, problem, warning } from "./finding.ts";

const AGENT = "eks-pod-identity-agent";

/** @returns null when the stack creates its cluster, or runs without. */
export async function existingClusterFindings({ plan, context }: AwsTarget): Promise<Found> {
  if (plan.compute !== "eks" || plan.config.cluster.existing === undefined) return null;
  const { region, cluster: name } = context;
  const key = "`cluster.existing.name`";
  const [answer, list] = await Promise.all([
    ask("eks:DescribeCluster", region, { name }),
    ask("eks:ListAddons", region, { clusterName: name }),
  ]);
  const cluster = answer?.cluster;
  if (cluster === undefined)
    return [
      problem(
        "cluster",
        `There is no cluster ${name} in ${region}.`,
        "EKS has no cluster of this name in the account.",
        `Correct ${key}, or leave \`cluster.existing\` out: the stack then makes one.`,
      ),
    ];
  const { status = "", version = "", resourcesVpcConfig, kubernetesNetworkConfig, accessConfig } = cluster;
  const findings: Finding[] = [];
  if (status !== "ACTIVE" && status !== "UPDATING")
    findings.push(
      problem(
        "cluster",
        `The cluster ${name} is ${status}.`,
        "EKS makes no machines in it before it is ACTIVE.",
        `\`aws eks describe-cluster --region ${region} --name ${name}\` shows the reason; wait, or name another cluster.`,
      ),
    );
  const wanted = plan.config.network.existing?.vpcId;
  const vpcId = resourcesVpcConfig?.vpcId;
  if (vpcId !== wanted)
    findings.push(
      problem(
        "cluster",
        `The cluster ${name} is in ${vpcId}.`,
        `The stack file puts its machines and its load balancer into ${wanted}.`,
        "Write the cluster's VPC and subnets in `network.existing`.",
      ),
    );
  if (kubernetesNetworkConfig?.ipFamily === "ipv6")
    findings.push(
      problem(
        "cluster",
        `Pods of ${name} have IPv6 addresses.`,
        "The load balancer and the network policies of a stack are of IPv4.",
        "Use a cluster with IPv4.",
      ),
    );
  const pinned = KUBERNETES_VERSIONS.join(", ");
  if (!KUBERNETES_VERSIONS.some((one) => one === version))
    findings.push(
      installedCharts(plan.config.cluster).includes("cluster-autoscaler")
        ? problem(
            "cluster",
            `The cluster ${name} has Kubernetes ${version}.`,
            `The autoscaler is pinned for ${pinned}, and simulates the scheduler of its own version.`,
            "Bring the cluster to one of these, or have its owner install the autoscaler (`cluster.charts.cluster-autoscaler: existing`).",
          )
        : warning(
            "cluster",
            `The cluster ${name} has Kubernetes ${version}.`,
            `Stacks are checked with ${pinned}.`,
            "Bring the cluster to one of these if objects are refused.",
          ),
    );
  if (accessConfig?.authenticationMode === "CONFIG_MAP")
    findings.push(
      warning(
        "cluster",
        `The cluster ${name} has no access entries.`,
        "EKS lets the stack's machines join by a line that it adds to the ConfigMap aws-auth: applying that ConfigMap again removes their access.",
        `Its owner adds entries, and the ConfigMap stays valid: aws eks update-cluster-config --region ${region} --name ${name} --access-config authenticationMode=API_AND_CONFIG_MAP`,
      ),
    );
  // Auto Mode has the agent built in: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
  const isAuto = cluster.computeConfig?.enabled === true;
  const present = new Set([
    ...(list?.addons ?? []),
    ...plan.config.cluster.existing.addOns,
    ...(isAuto ? [AGENT] : []),
  ]);
  for (const [addOn, use] of neededAddOns({ plan, context }))
    if (!present.has(addOn))
      findings.push(
        (addOn === AGENT ? problem : warning)(
          "cluster",
          `The cluster ${name} lacks the add-on ${addOn}.`,
          `${use}${addOn === AGENT ? "" : "; it may be there in another way, as by Helm"}.`,
          `Write \`cluster.existing.addOns: [${addOn}]\`: the stack installs it. Or ask the cluster's owner for it.`,
        ),
      );
  return findings;
}

/** Needed add-ons, each with its purpose. */
function neededAddOns({ plan, context }: { readonly plan: EksPlan; readonly context: AwsTarget["context"] }) {
  const { addOns, charts, podRoles } = eksClusterPlan(plan, context);
  const hasRoles = podRoles.length > 0 || [...addOns, ...charts].some(({ role }) => role !== null);
  const { databases, encoders, databaseStorage, hub } = plan.config;
  const hasDisks =
    encoders !== false && databases !== "external" && databaseStorage.storageClass === undefined;
  const needed: readonly (readonly [addOn: string, use: string, isNeeded: boolean])[] = [
    [AGENT, "Pods of the stack get their IAM roles from it", hasRoles],
    ["aws-efs-csi-driver", "It mounts the engine store", true],
    ["aws-ebs-csi-driver", "It makes the disks of the databases", hasDisks],
    [
      "aws-secrets-store-csi-driver-provider",
      "Builds read the hub's token by it",
      hub.tokenSecretArn !== undefined,
    ],
  ];
  return needed.filter(([, , isNeeded]) => isNeeded);
}
