/** Add-ons of EKS that a cluster has, each pinned. Pure. */
import type { EksConfig } from "../../config/aws-stacks.ts";
import { kubernetesVersions } from "../catalogue/kubernetes-versions.ts";
import { SYSTEM_NODES } from "./names.ts";
import { diskRole, fileSystemRole, networkRole } from "./role-plans.ts";
import type { AddOnPlan, AwsContext } from "./types.ts";

/**
 * Versions that all versions of Kubernetes of this project share. EKS names them by `aws eks describe-addon-versions` only; these
 * are what public stack files have that were read from it between April and September 2026. Each was seen for 1.34 and for 1.35, or
 * for a version below and one above: EFS for 1.31, 1.35 and 1.36, EBS for 1.31, 1.35 and 1.36. None was asked for in an account;
 * `npm run preflight` asks EKS for each.
 *
 * - vpc-cni: https://docs.aws.amazon.com/eks/latest/userguide/managing-vpc-cni.html, 1.31 to 1.36.
 * - secrets: 1.33 and 1.34 too, and the default of 1.35: https://github.com/aws-controllers-k8s/test-infra/pull/983
 */
const VERSIONS = {
  "vpc-cni": "v1.22.4-eksbuild.3",
  "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
  "aws-ebs-csi-driver": "v1.63.1-eksbuild.1",
  "aws-efs-csi-driver": "v3.4.1-eksbuild.1",
  "metrics-server": "v0.8.1-eksbuild.6",
  "aws-secrets-store-csi-driver-provider": "v3.1.1-eksbuild.1",
} as const;

const ON_SYSTEM_NODES = { nodeSelector: SYSTEM_NODES } as const;

/**
 * By name. What machines need to join comes before them; the rest waits for machines to run on. The keys of `configuration` are
 * those of the drivers' charts, and were seen in configurations of these add-ons that EKS took; those of EFS and of the secrets'
 * provider were seen in their charts alone. Preflight compares them with EKS' own schemas.
 */
export function addOnPlans(
  { cluster, engineStore, hub }: EksConfig,
  context: AwsContext,
): readonly AddOnPlan[] {
  const { addOns: ofVersion } = kubernetesVersions[cluster.version];
  const plans: readonly AddOnPlan[] = [
    {
      name: "vpc-cni",
      version: VERSIONS["vpc-cni"],
      // Addresses one by one: machines with GPUs run few pods, and whole prefixes of 16 would use a subnet up sooner.
      configuration: { enableNetworkPolicy: "true" },
      role: networkRole(context),
      isBeforeNodes: true,
    },
    beforeNodes("kube-proxy", ofVersion["kube-proxy"]),
    beforeNodes("eks-pod-identity-agent", VERSIONS["eks-pod-identity-agent"]),
    afterNodes("coredns", ofVersion.coredns, ON_SYSTEM_NODES),
    {
      ...afterNodes("aws-ebs-csi-driver", VERSIONS["aws-ebs-csi-driver"], {
        // By their tags disks of claims are found, and costs grouped.
        // https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
        controller: { ...ON_SYSTEM_NODES, extraVolumeTags: context.tags },
        // Those of GPUs too. Without the metadata service, which pods don't reach, it asks Kubernetes for its machine, and takes one
        // network interface and one disk for attached: a machine with more holds fewer claims than the scheduler believes.
        // https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.63.1/docs/install.md#kubernetes-metadata
        node: { tolerateAllTaints: true },
      }),
      role: diskRole(context),
    },
    {
      ...afterNodes("aws-efs-csi-driver", VERSIONS["aws-efs-csi-driver"], { controller: ON_SYSTEM_NODES }),
      role: fileSystemRole(context, engineStore.existing?.fileSystemId ?? null),
    },
    afterNodes("metrics-server", VERSIONS["metrics-server"], ON_SYSTEM_NODES),
    ...(hub.tokenSecretArn === undefined ? [] : [secretsProvider()]),
  ];
  return plans.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Mounts secrets of Secrets Manager as files, with the role of the pod that asks: it has none of its own. */
function secretsProvider(): AddOnPlan {
  return afterNodes(
    "aws-secrets-store-csi-driver-provider",
    VERSIONS["aws-secrets-store-csi-driver-provider"],
    // Engines are built on machines with GPUs. The driver that comes with it tolerates all taints by itself.
    { tolerations: [{ operator: "Exists" }] },
  );
}

function beforeNodes(name: string, version: string): AddOnPlan {
  return { name, version, configuration: null, role: null, isBeforeNodes: true };
}

function afterNodes(name: string, version: string, configuration: AddOnPlan["configuration"]): AddOnPlan {
  return { name, version, configuration, role: null, isBeforeNodes: false };
}
