/**
 * Kubernetes objects. What replaces is the provider's own table, `provider/pkg/provider/diff.go` of pulumi-kubernetes (4.34;
 * commit 94977969): it sends everything else as an update. What the API server then takes is said by the validation of each
 * kind, `pkg/apis/<group>/validation/validation.go` of Kubernetes: only that is an update here, so that a field which the
 * provider would change and the server refuse is left to `may-replace`.
 */
import { isDeepStrictEqual } from "node:util";
import type { ReplacementContext, ReplacementRow } from "./types.ts";

interface KindRow {
  readonly replaces?: readonly string[];
  readonly updates: readonly string[];
  readonly replacesWhen?: ReplacementRow["replacesWhen"];
}

/** By API group and version, and by kind, as in the types of the Pulumi provider. */
const kinds: Readonly<Record<string, KindRow>> = {
  "core/v1:Namespace": { updates: ["spec"] },
  // Content of an immutable object, or of any unless the provider has the option.
  "core/v1:ConfigMap": {
    updates: [],
    replacesWhen: { paths: ["data", "binaryData"], is: isReplacedUnless("enableConfigMapMutable") },
  },
  "core/v1:Secret": {
    replaces: ["type"],
    updates: [],
    replacesWhen: { paths: ["data", "stringData"], is: isReplacedUnless("enableSecretMutable") },
  },
  // `ValidatePersistentVolumeClaimUpdate`: a claim may grow, where its class lets it.
  "core/v1:PersistentVolumeClaim": {
    replaces: ["spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"],
    updates: ["spec.resources"],
  },
  // `ValidatePersistentVolumeUpdate` refuses another source, and another volumeMode.
  "core/v1:PersistentVolume": {
    updates: ["spec.capacity", "spec.mountOptions", "spec.persistentVolumeReclaimPolicy"],
  },
  "core/v1:ResourceQuota": { replaces: ["spec.scopes"], updates: ["spec.hard"] },
  "core/v1:Service": {
    replaces: ["spec.clusterIP"],
    updates: ["spec.ports", "spec.selector", "spec.type", "spec.publishNotReadyAddresses"],
  },
  "core/v1:ServiceAccount": { updates: ["automountServiceAccountToken", "imagePullSecrets", "secrets"] },
  "apps/v1:Deployment": {
    replaces: ["spec.selector"],
    updates: [
      "spec.replicas",
      "spec.template",
      "spec.strategy",
      "spec.minReadySeconds",
      "spec.progressDeadlineSeconds",
      "spec.revisionHistoryLimit",
      "spec.paused",
    ],
  },
  "apps/v1:DaemonSet": {
    replaces: ["spec.selector"],
    updates: ["spec.template", "spec.updateStrategy", "spec.minReadySeconds", "spec.revisionHistoryLimit"],
  },
  // `ValidateStatefulSetUpdate` names what may change.
  "apps/v1:StatefulSet": {
    replaces: [
      "spec.podManagementPolicy",
      "spec.revisionHistoryLimit",
      "spec.selector",
      "spec.serviceName",
      "spec.volumeClaimTemplates",
    ],
    updates: [
      "spec.replicas",
      "spec.ordinals",
      "spec.template",
      "spec.updateStrategy",
      "spec.persistentVolumeClaimRetentionPolicy",
      "spec.minReadySeconds",
    ],
  },
  // `ValidateJobSpecUpdate` refuses completionMode, podFailurePolicy, successPolicy and backoffLimitPerIndex.
  "batch/v1:Job": {
    replaces: ["spec.completions", "spec.parallelism", "spec.selector", "spec.template"],
    updates: [
      "spec.backoffLimit",
      "spec.activeDeadlineSeconds",
      "spec.ttlSecondsAfterFinished",
      "spec.suspend",
    ],
  },
  "autoscaling/v2:HorizontalPodAutoscaler": { updates: ["spec"] },
  "networking.k8s.io/v1:Ingress": { updates: ["spec"] },
  "networking.k8s.io/v1:NetworkPolicy": { updates: ["spec"] },
  // The provider replaces those of v1beta1 only.
  "policy/v1:PodDisruptionBudget": { updates: ["spec"] },
  "rbac.authorization.k8s.io/v1:Role": { updates: ["rules"] },
  "rbac.authorization.k8s.io/v1:RoleBinding": { replaces: ["roleRef"], updates: ["subjects"] },
  // `ValidatePriorityClassUpdate` refuses value and preemptionPolicy.
  "scheduling.k8s.io/v1:PriorityClass": { updates: ["description", "globalDefault"] },
  "storage.k8s.io/v1:StorageClass": {
    replaces: ["parameters", "provisioner"],
    updates: ["allowVolumeExpansion"],
  },
  // Custom resources: their definitions have no rule against a change of what these have below `spec`.
  "gateway.networking.k8s.io/v1:HTTPRoute": { updates: ["spec"] },
  "secrets-store.csi.x-k8s.io/v1:SecretProviderClass": { updates: ["spec"] },
  // The load balancer controller's webhook (`webhooks/elbv2/targetgroupbinding_validator.go`) refuses another target group.
  "elbv2.k8s.aws/v1beta1:TargetGroupBinding": {
    replaces: ["spec.targetGroupARN", "spec.targetType", "spec.vpcID"],
    updates: ["spec.networking", "spec.nodeSelector", "spec.serviceRef"],
  },
  "keda.sh/v1alpha1:ScaledObject": { updates: ["spec"] },
  "monitoring.coreos.com/v1:PodMonitor": { updates: ["spec"] },
  "monitoring.coreos.com/v1:PrometheusRule": { updates: ["spec"] },
  "monitoring.coreos.com/v1:ServiceMonitor": { updates: ["spec"] },
};

/** `metadataForceNewProperties`; the other two are what the API server lets anybody change. */
const METADATA = {
  replaces: ["metadata.name", "metadata.namespace"],
  updates: ["metadata.labels", "metadata.annotations"],
} as const;

/** `forceNewFields` of `Diff` in `provider/pkg/provider/helm_release.go`; every other property is an upgrade of the release. */
const release: ReplacementRow = {
  replaces: ["name", "namespace"],
  updates: [
    "atomic",
    "chart",
    "cleanupOnFail",
    "createNamespace",
    "maxHistory",
    "repositoryOpts",
    "skipAwait",
    "skipCrds",
    "timeout",
    "values",
    "version",
    "waitForJobs",
  ],
  deletesFirst: () => false,
};

export const kubernetesRows: Readonly<Record<string, ReplacementRow>> = {
  "kubernetes:helm.sh/v3:Release": release,
  ...Object.fromEntries(
    Object.entries(kinds).map(([kind, { replaces = [], updates, replacesWhen }]) => [
      `kubernetes:${kind}`,
      {
        replaces: [...METADATA.replaces, ...replaces],
        updates: [...METADATA.updates, ...updates],
        ...(replacesWhen === undefined ? {} : { replacesWhen }),
        deletesFirst: hasSameName,
      },
    ]),
  ),
};

/** `IsImmutable` and the provider's option, which is a text where it comes from a stack file. */
function isReplacedUnless(option: string): (context: ReplacementContext) => boolean {
  return ({ after, provider }) =>
    after.immutable === true || !(provider[option] === true || provider[option] === "true");
}

/** `Diff` of `provider/pkg/provider/provider.go`: two objects of one name can't be there at once. */
function hasSameName({ before, after }: Omit<ReplacementContext, "provider">): boolean {
  const identity = ({ metadata }: Readonly<Record<string, unknown>>) => {
    const { name, namespace } = (metadata ?? {}) as Record<string, unknown>;
    return { name, namespace };
  };
  const { name, namespace } = identity(after);
  return name !== undefined && isDeepStrictEqual(identity(before), { name, namespace });
}
